import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { tableFromArrays, tableToIPC } from 'apache-arrow';
import { LancegateError } from '#src/kernel/errors.ts';
import { ask, upload, usersStream } from './client.ts';
import { startTestService } from './service.ts';

const context = (requestId: string) => ({
  'header.cache-control': 'no-store',
  'header.x-content-type-options': 'nosniff',
  'header.phalanx-version': '0.3.0',
  'header.x-request-id': requestId,
});

test('a merge answers 200 with every count, none of them null (P4)', async () => {
  await using service = await startTestService();
  const { status, headers, json } = await upload(service, '/v1/table/prod$users/merge_insert?on=id');
  assert.equal(status, 200);
  assert.match(headers.get('content-type')!, /^application\/json/);
  assert.deepEqual(json, {
    version: 8,
    num_updated_rows: 2,
    num_inserted_rows: 3,
    num_deleted_rows: 0,
    num_attempts: 1,
    num_rows: 5,
    transaction_id: 'tx-2',
    context: context('id-1'),
  });
});

test('a merge hands on what path and query say', async () => {
  await using service = await startTestService();
  const query = 'on=a.b&on=id&when_matched_update_all_filt=target.n+%3C+source.n&use_index=false&branch=dev';
  await upload(service, `/v1/table/prod$users/merge_insert/?${query}`);
  const { source, requireAction, ...command } = service.asked[0]!.command;
  assert.ok(source && requireAction);
  assert.deepEqual(command, {
    table: { namespace: ['prod'], name: 'users' },
    branch: 'dev',
    on: [{ segments: ['a', 'b'] }, { segments: ['id'] }],
    flags: {
      whenMatchedUpdateAll: { filter: '(target.n < source.n)' },
      whenNotMatchedInsertAll: false,
      whenNotMatchedBySourceDelete: false,
    },
    rules: {},
    useIndex: false,
    idempotency: undefined,
  });
});

test('a create answers 200 with location, version and properties', async () => {
  await using service = await startTestService();
  const properties = encodeURIComponent('{"owner":"ann"}');
  const { status, json } = await upload(service, `/v1/table/users/create?mode=ExistOk&properties=${properties}`);
  assert.equal(status, 200);
  assert.deepEqual(json, {
    location: 'file:///data/users.lance',
    version: 1,
    storage_options: {},
    properties: { owner: 'ann' },
    transaction_id: 'tx-1',
    context: context('id-1'),
  });
  assert.equal(service.asked[0]?.command.mode, 'exist_ok');
});

test('a storage option that reaches for another endpoint is refused by its name, before the body is read (P9)', async () => {
  await using service = await startTestService();
  const options = encodeURIComponent('{"aws_endpoint":"http://evil"}');
  const { status, json } = await upload(service, `/v1/table/users/create?storage_options=${options}`);
  assert.equal(status, 400);
  assert.match((json as { error: string }).error, /"aws_endpoint" cannot be set/);
  assert.deepEqual(service.asked, []);
});

test('the bodies of half of the clients have no Content-Type, and are taken', async () => {
  await using service = await startTestService();
  for (const type of [undefined, 'application/octet-stream', 'APPLICATION/VND.APACHE.ARROW.STREAM; x=y']) {
    const response = await fetch(`${service.url}/v1/table/users/create`, {
      method: 'POST',
      headers: { 'x-api-key': 'good-token', ...(type === undefined ? {} : { 'content-type': type }) },
      body: new Uint8Array(usersStream),
    });
    assert.equal(response.status, 200, type);
    await response.text();
  }
});

test('a body that is clearly something else is refused', async () => {
  await using service = await startTestService();
  for (const type of ['text/html', 'multipart/form-data; boundary=x', 'application/x-www-form-urlencoded']) {
    const { status, json } = await upload(service, '/v1/table/users/create', { headers: { 'content-type': type } });
    assert.equal(status, 400);
    assert.match((json as { error: string }).error, /^content-type/);
  }
});

test('gzip and zstd bodies are unpacked as they come', async () => {
  await using service = await startTestService();
  const bodies = { gzip: gzipSync(usersStream), zstd: zstdCompressSync(usersStream), identity: usersStream };
  for (const [encoding, body] of Object.entries(bodies)) {
    const headers = { 'content-encoding': encoding };
    const { status, text } = await upload(service, '/v1/table/users/merge_insert?on=id', { body, headers });
    assert.equal(status, 200, `${encoding}: ${text}`);
  }
});

test('what follows the end of a coded body is never left out: it is 400, and nothing is carried out (P1)', async () => {
  await using service = await startTestService({
    script: {
      createTable: async ({ source }) => {
        await source.whole();
        throw new Error('a part of the body was taken for the whole');
      },
    },
  });
  const withoutEndMarker = usersStream.subarray(0, -8);
  const bodies = {
    gzip: Buffer.concat([gzipSync(withoutEndMarker), Buffer.alloc(1), gzipSync(usersStream)]),
    zstd: Buffer.concat([zstdCompressSync(withoutEndMarker), zstdCompressSync(usersStream)]),
  };
  for (const [encoding, body] of Object.entries(bodies)) {
    const headers = { 'content-encoding': encoding };
    const { status, text } = await upload(service, '/v1/table/users/create', { body, headers });
    assert.equal(status, 400, text);
    assert.match(text, /bytes follow where the (gzip|zstd) of the body ends/);
  }
});

test('an unknown encoding, and one that does not decode, are 400', async () => {
  await using service = await startTestService();
  const cases = {
    br: /only gzip and zstd/,
    'gzip, zstd': /only gzip and zstd/,
    gzip: /not valid gzip/,
    zstd: /not valid zstd/,
  };
  for (const [encoding, error] of Object.entries(cases)) {
    const { status, json } = await upload(service, '/v1/table/users/create', {
      headers: { 'content-encoding': encoding },
    });
    assert.equal(status, 400);
    assert.match((json as { error: string }).error, error);
  }
});

test('a compressed bomb ends where its decoded bytes reach the limit (P7)', async () => {
  await using service = await startTestService();
  const table = tableFromArrays({ id: new Int32Array(2 << 20) });
  const arrowBomb = gzipSync(tableToIPC(table, 'stream'));
  const jsonBomb = gzipSync(Buffer.alloc(1 << 20, ' '));
  const headers = { 'content-encoding': 'gzip' };
  const arrow = await upload(service, '/v1/table/users/merge_insert?on=id', { body: arrowBomb, headers });
  const json = await ask(service, '/v1/table/users/drop', { body: jsonBomb, headers });
  assert.deepEqual([arrow.status, json.status], [413, 413]);
});

test('an empty body is 400, and says that it is empty', async () => {
  await using service = await startTestService();
  const { status, json } = await ask(service, '/v1/table/users/create', { body: '' });
  assert.equal(status, 400);
  assert.match((json as { error: string }).error, /empty/);
});

test('an existing table is 409, and 400 to the LanceDB SDKs, which know no other sign', async () => {
  const exists = async () => {
    throw new LancegateError('TableAlreadyExists', "table 'users' already exists");
  };
  await using service = await startTestService({ script: { createTable: exists } });
  const other = await upload(service, '/v1/table/users/create');
  const bySlash = await upload(service, '/v1/table/users/create/');
  const byAgent = await upload(service, '/v1/table/users/create', {
    headers: { 'user-agent': 'LanceDB-Rust-Client/1' },
  });
  assert.deepEqual([other.status, bySlash.status, byAgent.status], [409, 400, 400]);
  assert.deepEqual(bySlash.json, {
    type: '/errors/bad-request',
    title: 'Malformed request',
    status: 400,
    detail: '',
    instance: '/v1/table/users/create/',
    error: "table 'users' already exists",
    code: 5,
  });
});

test('a create that names a branch is refused, not made on main', async () => {
  await using service = await startTestService();
  const { status } = await upload(service, '/v1/table/users/create?branch=dev');
  assert.equal(status, 400);
  assert.deepEqual(service.asked, []);
});
