/** One audit record for each request, whatever became of it (P9). */
import assert from 'node:assert/strict';
import { readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { ApiKeyFile } from '#src/auth/tokens/api-key-file.ts';
import { ApiKeyStore } from '#src/auth/tokens/api-keys.ts';
import { systemClock } from '#src/kernel/clock.ts';
import { type HeaderFields, startTestService, type TestService } from '#test/fixtures/service.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { eventually } from './eventually.ts';
import { people } from './rows.ts';

type Fields = Record<string, unknown>;
type After = (clean: () => void | Promise<void>) => void;

interface Audited {
  readonly service: TestService;
  readonly file: string;
  /** Ends the service. */
  records(): Promise<Fields[]>;
}

const parseLines = (text: string): Fields[] =>
  text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Fields);

async function startAudited(after: After, settings: Record<string, string> = {}): Promise<Audited> {
  const file = join(temporaryFolder(after), 'audit.jsonl');
  const service = await startTestService(after, { AUDIT_LOG: file, ...settings });
  const records = async (): Promise<Fields[]> => {
    await service.close();
    return parseLines(readFileSync(file, 'utf8'));
  };
  return { service, file, records };
}

/** What differs from run to run. */
function lasting({ time, durationMs, receivedBytes, transactionId, ...rest }: Fields): Fields {
  assert.match(String(time), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  assert.ok(Number(durationMs) >= 0 && Number(receivedBytes) >= 0);
  assert.ok(transactionId === undefined || typeof transactionId === 'string');
  return rest;
}

const merge = '/v1/table/:id/merge_insert';
const create = '/v1/table/:id/create';
const common = { audit: 1, method: 'POST', address: '127.0.0.1', issuer: 'lancegate', subject: 'tester' };
const onTable = (table: string) => ({ decision: 'allowed', table, branch: 'main' });

describe('the audit record', () => {
  test('says of each request who asked what, whether they might, and what came of it', async (t) => {
    const { service, records } = await startAudited((clean) => t.after(clean), { TRUSTED_PROXIES: '127.0.0.1' });
    const writer = { authorization: `Bearer ${await service.mint('lancegate:write', 'writer')}` };
    using keyFile = new ApiKeyFile(join(service.dataFolder, 'api-keys.sqlite'));
    const keys = new ApiKeyStore(keyFile, systemClock);
    const { key, record } = await keys.create({ subject: 'loader', scopes: ['lancegate:read'] });
    const keyed = { 'idempotency-key': 'once' };
    const expected: Fields[] = [];
    const post = async (path: string, body: Uint8Array | object | undefined, headers: HeaderFields, says: Fields) => {
      const requestId = `r${expected.length}`;
      const { status, body: text } = await service.post(path, body, { ...headers, 'x-request-id': requestId });
      assert.equal(status, says.status, `${path}: ${JSON.stringify(text)}`);
      expected.push({ ...common, requestId, ...says });
    };

    await post(
      '/v1/namespace/ns/create',
      { mode: 'exist_ok' },
      {},
      {
        ...{ route: '/v1/namespace/:id/create', status: 200, decision: 'allowed' },
        ...{ actions: ['CreateNamespace'], namespace: 'ns', mode: 'exist_ok' },
      },
    );
    await post(
      '/v1/table/ns$t/create',
      people([1, 2], 'x'),
      {},
      {
        ...{ route: create, status: 200, ...onTable('ns$t'), actions: ['CreateTable'] },
        ...{ mode: 'create', version: 1, insertedRows: 2 },
      },
    );
    const upserted = { version: 2, insertedRows: 1, updatedRows: 1, deletedRows: 0 };
    const upsert = { route: merge, status: 200, ...onTable('ns$t'), actions: ['MergeInsertIntoTable'], ...upserted };
    await post('/v1/table/ns$t/merge_insert?on=id', people([2, 3], 'y'), keyed, { ...upsert, mode: 'update+insert' });
    await post('/v1/table/ns$t/merge_insert?on=id', people([2, 3], 'y'), keyed, {
      ...{ ...upsert, mode: 'update+insert', isReplay: true },
    });
    await post(
      "/v1/table/ns$t/merge_insert?on=id&when_not_matched_by_source_delete_filt=name='x'",
      people([2], 'z'),
      {},
      {
        ...{ route: merge, status: 200, ...onTable('ns$t'), mode: 'delete_by_source_filtered' },
        ...{ actions: ['MergeInsertIntoTable', 'DeleteFromTableBySource'] },
        ...{ version: 3, insertedRows: 0, updatedRows: 0, deletedRows: 1 },
      },
    );
    await post(
      '/v1/table/ns$t/merge_insert?on=id&version_column=name&on_invalid=report',
      people([1, 1], 'a'),
      {},
      {
        ...{ route: merge, status: 200, ...onTable('ns$t'), actions: ['MergeInsertIntoTable'], mode: 'update+insert' },
        ...{
          version: 4,
          insertedRows: 1,
          updatedRows: 0,
          deletedRows: 0,
          duplicateRows: 1,
          staleRows: 0,
          invalidRows: 0,
        },
      },
    );
    await post(
      '/v1/table/ns$t/create?mode=overwrite',
      people([1], 'x'),
      {},
      {
        ...{ route: create, status: 200, ...onTable('ns$t'), actions: ['CreateTable', 'OverwriteTable'] },
        ...{ mode: 'overwrite', version: 1, insertedRows: 1 },
      },
    );
    await post('/v1/table/ns$t/drop', {}, writer, {
      ...{ subject: 'writer', route: '/v1/table/:id/drop', status: 403, refusal: 'PermissionDenied' },
      ...{ actions: ['DropTable'], table: 'ns$t', branch: 'main', decision: 'denied' },
    });
    await post(
      '/v1/table/ns$t/branches/create',
      { name: 'b1' },
      {},
      {
        ...{ route: '/v1/table/:id/branches/create', status: 200, decision: 'allowed', table: 'ns$t', branch: 'b1' },
        actions: ['CreateTableBranch'],
      },
    );
    await post(
      '/v1/table/gone/merge_insert?on=id&branch=b2',
      people([1], 'x'),
      {},
      {
        ...{ route: merge, status: 404, ...onTable('gone'), branch: 'b2', mode: 'update+insert' },
        ...{ actions: ['MergeInsertIntoTable'], refusal: 'TableNotFound' },
      },
    );
    await post(
      '/v1/table/ns$t/merge_insert',
      people([1], 'x'),
      {},
      {
        ...{
          route: merge,
          status: 400,
          ...onTable('ns$t'),
          actions: ['MergeInsertIntoTable'],
          refusal: 'InvalidInput',
        },
      },
    );
    await post(
      '/v1/table/%01/describe',
      {},
      {},
      {
        ...{ route: '/v1/table/:id/describe', status: 400, decision: 'not asked', refusal: 'InvalidInput' },
      },
    );
    await post(
      '/v1/table/ns$t/backfill_column',
      {},
      {},
      {
        ...{ route: '/v1/table/:id/backfill_column', status: 406, decision: 'not asked', refusal: 'Unsupported' },
      },
    );
    const noPrincipal = { issuer: undefined, subject: undefined };
    await post(
      '/v1/nowhere',
      {},
      {},
      { ...noPrincipal, route: 'none', status: 404, decision: 'not asked', refusal: 'NoSuchRoute' },
    );
    await post(
      '/v1/table/ns$t/create',
      people([1], 'x'),
      { authorization: 'Bearer eyJhbGciOiJub25lIn0.e30.' },
      {
        ...{ ...noPrincipal, route: create, status: 401, decision: 'unauthenticated', refusal: 'Unauthenticated' },
        reason: 'No issuer this service trusts vouches for the token.',
      },
    );
    const ended = await keys.create({ subject: 'gone', scopes: ['lancegate:read'] });
    await keys.revoke(ended.record.id);
    await post(
      '/v1/table/ns$t/count_rows',
      {},
      { 'x-api-key': ended.key },
      {
        ...{ ...noPrincipal, keyId: ended.record.id, route: '/v1/table/:id/count_rows', status: 401 },
        ...{ decision: 'unauthenticated', refusal: 'Unauthenticated', reason: 'The API key was revoked.' },
      },
    );
    const throughProxy = { 'x-api-key': key, 'x-forwarded-for': '203.0.113.7' };
    await post('/v1/table/ns$t/count_rows', {}, throughProxy, {
      ...{ issuer: 'api-key', subject: 'loader', keyId: record.id, address: '203.0.113.7', proxy: '127.0.0.1' },
      ...{ route: '/v1/table/:id/count_rows', status: 200, ...onTable('ns$t'), actions: ['CountTableRows'] },
    });
    await post(
      '/v1/table/copy/register',
      { location: 'nowhere.lance' },
      {},
      {
        ...{ route: '/v1/table/:id/register', ...onTable('copy'), actions: ['RegisterTable'] },
        ...{ status: 400, mode: 'create', location: 'nowhere.lance', refusal: 'InvalidInput' },
      },
    );
    await post(
      '/v1/namespace/ns/drop',
      { behavior: 'cascade' },
      {},
      {
        ...{ route: '/v1/namespace/:id/drop', status: 200, decision: 'allowed' },
        ...{ actions: ['DropNamespace'], namespace: 'ns', mode: 'cascade', droppedTables: 1 },
      },
    );
    assert.equal((await service.get('/healthz')).status, 200);
    assert.equal((await service.get('/readyz')).status, 200);

    const found = (await records()).map(lasting);
    assert.deepEqual(
      found,
      expected.map((fields) => JSON.parse(JSON.stringify(fields)) as Fields),
    );
  });

  test('holds no credential, no cell and no text of a predicate, wherever a client puts them', async (t) => {
    const { service, file } = await startAudited((clean) => t.after(clean));
    using keyFile = new ApiKeyFile(join(service.dataFolder, 'api-keys.sqlite'));
    const keys = new ApiKeyStore(keyFile, systemClock);
    const { key } = await keys.create({ subject: 'loader', scopes: ['lancegate:admin'] });
    const token = await service.mint('lancegate:admin', 'ann');
    const cell = 'CELL-4711';
    const secrets = [key, key.slice(-64), token, token.split('.')[1]!, cell];
    const credentials: HeaderFields[] = [
      { authorization: `Bearer ${token}` },
      { authorization: `Bearer ${key}` },
      { 'x-api-key': key },
      { authorization: `Bearer ${token.slice(0, -2)}` },
      { authorization: `Basic ${token}` },
      { 'x-api-key': key.slice(0, -1) },
    ];
    const filter = encodeURIComponent(`target.name = '${cell}'`);
    const requests: [string, Uint8Array | object][] = [
      ['/v1/table/t/create', people([1], cell)],
      [`/v1/table/t/merge_insert?on=id&when_matched_update_all_filt=${filter}`, people([1], cell)],
      [`/v1/table/t/merge_insert?on=${cell}`, people([1], cell)],
      ['/v1/table/t/merge_insert?on=id', people([1, 1], cell)],
      ['/v1/table/t/count_rows', { predicate: `name = '${cell}'` }],
      ['/v1/table/t/count_rows', { predicate: `nonsense('${cell}'` }],
      [`/v1/table/${key}/describe`, {}],
      [`/v1/table/t/describe?branch=${key}`, {}],
      [`/v1/table/t/describe?delimiter=${token}`, {}],
      ['/v1/table/u/register', { location: `${key}.lance` }],
      ['/v1/table/u/register', { location: `s3://user:${key}@bucket/u.lance` }],
      [`/v1/transaction/${key}/describe`, {}],
      [`/v1/${key}`, {}],
      ['/v1/namespace/n/create', { properties: { owner: cell, secret: token } }],
    ];
    for (const headers of credentials) {
      for (const [path, body] of requests) {
        for (const requestId of ['r', key]) await service.post(path, body, { ...headers, 'x-request-id': requestId });
      }
    }
    await service.close();
    const text = readFileSync(file, 'utf8');
    assert.equal(parseLines(text).length, credentials.length * requests.length * 2);
    for (const secret of secrets)
      assert.ok(!text.includes(secret), `${secret} in ${text.split('\n').find((line) => line.includes(secret))}`);
    const log = service.log.join('');
    for (const secret of [key, token]) assert.ok(!log.includes(secret), 'nor does the log');
  });

  test('is one line of bounded length, whatever subjects and names hold', async (t) => {
    const { service, file } = await startAudited((clean) => t.after(clean));
    const forged = '{"audit":1,"subject":"mallory","decision":"allowed"}';
    const subjects = [
      `ann\n${forged}\n`,
      `ann\r\n${forged}`,
      `ann\u2028${forged}\u0085x\u202egnirts`,
      'é'.repeat(2_000),
    ];
    for (const subject of subjects) {
      const headers = { authorization: `Bearer ${await service.mint('lancegate:read', subject)}` };
      const name = `${'n'.repeat(250)}$`.repeat(20);
      for (const table of ['t', 'a\u2028b\u202ec', `${name}t`]) {
        await service.post(`/v1/table/${encodeURIComponent(table)}/exists`, {}, headers);
      }
    }
    await service.close();
    const text = readFileSync(file, 'utf8');
    const lines = text.split(/[\n\r\u0085\u2028\u2029]/).slice(0, -1);
    assert.equal(lines.length, subjects.length * 3);
    assert.doesNotMatch(text, /[\u007f-\u009f\u2028\u202e]/);
    for (const line of lines) {
      assert.ok(Buffer.byteLength(line) < 16_384);
      const { subject, table } = JSON.parse(line) as { subject: string; table: string };
      assert.notEqual(subject, 'mallory');
      for (const text of [subject, table]) assert.ok(text.length <= 1_024, `${text.length} characters`);
    }
    const seen = new Set(lines.map((line) => (JSON.parse(line) as Fields).subject));
    assert.equal(seen.size, subjects.length, 'a subject is cut, and two are never made one');
  });

  test('goes on in a new file where the old one was moved, and a reload looks at once', async (t) => {
    const { service, file, records } = await startAudited((clean) => t.after(clean));
    await service.post('/v1/table/t/exists', {}, { 'x-request-id': 'before' });
    await eventually('the record is written', () => readFileSync(file, 'utf8').includes('before'));
    renameSync(file, `${file}.1`);
    await service.reload();
    await eventually('there is a new file', () => statSync(file, { throwIfNoEntry: false }) !== undefined);
    await service.post('/v1/table/t/exists', {}, { 'x-request-id': 'after' });
    assert.deepEqual(
      (await records()).map(({ requestId }) => requestId),
      ['after'],
    );
    assert.deepEqual(
      parseLines(readFileSync(`${file}.1`, 'utf8')).map(({ requestId }) => requestId),
      ['before'],
    );
    assert.equal(statSync(file).mode & 0o777, 0o600);
  });

  test('is the line of the request in the log, where nothing else is said; off, the line is short', async (t) => {
    const lineOf = async (settings: Record<string, string>) => {
      const service = await startTestService((clean) => t.after(clean), settings);
      await service.post('/v1/table/t/exists', {}, { 'x-request-id': 'asked' });
      await service.close();
      return JSON.parse(service.log.find((line) => line.includes('"asked"'))!) as Fields;
    };
    const { audit, message, decision, actions, table, address, status } = await lineOf({});
    assert.deepEqual(
      { audit, message, decision, actions, table, address, status },
      {
        ...{ audit: 1, message: 'request', decision: 'allowed', actions: ['TableExists'], table: 't' },
        ...{ address: '127.0.0.1', status: 404 },
      },
    );
    const short = await lineOf({ AUDIT_LOG: 'off' });
    assert.deepEqual([short.message, short.status, short.subject], ['request', 404, 'tester']);
    assert.deepEqual([short.audit, short.decision, short.address], [undefined, undefined, undefined]);
  });

  test('a file that cannot be written is an error at the start, which names it', async (t) => {
    const folder = temporaryFolder((clean) => t.after(clean));
    writeFileSync(join(folder, 'file'), '');
    for (const path of [folder, join(folder, 'missing', 'audit.jsonl'), join(folder, 'file', 'audit.jsonl')]) {
      await assert.rejects(
        startTestService((clean) => t.after(clean), { AUDIT_LOG: path }),
        (error: Error) => error.message.startsWith(`the audit log ${path} cannot be opened`),
      );
    }
  });
});
