import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { LancegateError } from '#src/kernel/errors.ts';
import { errorDocument } from '../../scripts/error-document.ts';
import { ask } from './client.ts';
import { RawClient } from './raw-client.ts';
import { startTestService, token } from './service.ts';

test('docs/errors.md is what the catalogue says', async () => {
  assert.equal(await readFile(new URL('../../docs/errors.md', import.meta.url), 'utf8'), errorDocument());
});

test('paths work below a base path, with doubled slashes, and only there', async () => {
  await using service = await startTestService({ config: { basePath: '/lance' } });
  for (const path of ['/lance/v1/table/users/drop', '/lance//v1/table/users/drop/']) {
    assert.equal((await ask(service, path)).status, 200, path);
  }
  assert.equal((await ask(service, '/v1/table/users/drop')).status, 404);
  assert.equal((await ask(service, '/healthz', { method: 'GET' })).status, 200);
});

test('ids arrive decoded once; a plus is a space only beside a delimiter', async () => {
  await using service = await startTestService();
  const names = {
    'a%24b/drop': ['a', 'b'],
    'a$b/drop': ['a', 'b'],
    'a%2Fb/drop': ['a/b'],
    'a%2524b/drop': ['a%24b'],
    'my+ns%24b/drop?delimiter=%24': ['my ns', 'b'],
    'my+ns$b/drop': ['my+ns', 'b'],
    'my%2Bns$b/drop?delimiter=$': ['my+ns', 'b'],
    'a::b/drop?delimiter=::': ['a', 'b'],
    [`${'n'.repeat(200)}$${'m'.repeat(200)}$t/drop`]: ['n'.repeat(200), 'm'.repeat(200), 't'],
  };
  for (const [path, parts] of Object.entries(names)) {
    assert.deepEqual((await ask(service, `/v1/table/${path}`)).json, {
      id: parts,
      location: 'file:///data/users.lance',
      properties: { owner: 'ann' },
    });
  }
});

test('what the framework refuses has the same body', async () => {
  await using service = await startTestService();
  const { status, headers, json } = await ask(service, '/v1/table/a%ZZ/drop');
  assert.equal(status, 400);
  assert.match(headers.get('content-type')!, /^application\/json/);
  assert.deepEqual(json, {
    type: '/errors/bad-request',
    title: 'Malformed request',
    status: 400,
    detail: '',
    instance: '/v1/table/a%ZZ/drop',
    error: 'the percent-encoding of the path is broken',
    code: 13,
  });
});

test('broken HTTP has the same body too', async () => {
  await using service = await startTestService();
  using client = await RawClient.connect(service);
  await client.write('NONSENSE\r\n\r\n');
  assert.equal(await client.closed, 'end');
  assert.match(
    client.received,
    /^HTTP\/1.1 400 .*"error":"the request is not valid HTTP\/1.1: Invalid method encountered","code":13}$/s,
  );
  using hostless = await RawClient.connect(service);
  await hostless.write('GET /healthz HTTP/1.1\r\nconnection: close\r\n\r\n');
  assert.equal(await hostless.closed, 'end');
  assert.match(hostless.received, /^HTTP\/1.1 400 .*"error":"the Host header is missing","code":13}$/s);
  const { status, json } = await ask(service, '/healthz', { method: 'GET', headers: { 'x-long': 'x'.repeat(90_000) } });
  assert.equal(status, 431);
  assert.match(
    (json as { error: string }).error,
    /^the request line and the headers can have 80 KiB together; a merge can /,
  );
  assert.equal((json as { code: number }).code, 13);
});

test('a head of megabytes is answered before its connection ends, and not reset', async () => {
  await using service = await startTestService();
  for (let round = 0; round < 10; round++) {
    using client = await RawClient.connect(service);
    const sent = client.head('GET /healthz', [`x-long: ${'x'.repeat(3 * 2 ** 20)}`]).catch(() => undefined); // it may end before
    assert.match(await client.until('"code":13}'), /^HTTP\/1.1 431 /);
    assert.equal(await client.closed, 'end');
    await sent;
  }
});

test('a transfer coding but chunked is refused, and not taken for the body itself (P12)', async () => {
  for (const coding of ['gzip, chunked', 'gzip,chunked', 'identity, chunked', 'chunked, chunked']) {
    await using service = await startTestService();
    using client = await RawClient.connect(service);
    await client.head('POST /v1/table/users/drop', [`transfer-encoding: ${coding}`, 'connection: close']);
    await client.chunk(Buffer.from('{}')).catch(() => undefined); // it may be refused before
    assert.match(await client.until('"code":13}'), /^HTTP\/1.1 400 /, coding);
    assert.deepEqual(service.asked, []);
  }
});

test('no answer is taken for another type than it says (P9)', async () => {
  await using service = await startTestService();
  for (const path of ['/healthz', '/v1/table', '/nowhere', '/openapi.json', '/docs']) {
    const { headers } = await ask(service, path, { method: 'GET' });
    assert.equal(headers.get('x-content-type-options'), 'nosniff', path);
  }
  using client = await RawClient.connect(service);
  await client.write('NONSENSE\r\n\r\n');
  await client.closed;
  assert.match(client.received, /\r\nx-content-type-options: nosniff\r\n/);
});

test('a defect is 500, with the request id and nothing else; the log has the rest (P6, P9)', async () => {
  const dropTable = async () => {
    throw new Error('/var/lib/secret path');
  };
  await using service = await startTestService({ script: { dropTable } });
  const { status, headers, json } = await ask(service, '/v1/table/users/drop', {
    headers: { 'x-request-id': 'req-9' },
  });
  assert.equal(status, 500);
  assert.equal(headers.get('x-request-id'), 'req-9');
  assert.deepEqual(json, {
    type: '/errors/server-error',
    title: 'Internal Server Error',
    status: 500,
    detail: '',
    instance: '/v1/table/users/drop',
    error: 'internal error; the log has it under request req-9',
    code: 18,
  });
  const [logged] = service.log.filter(({ level }) => level === 'error');
  assert.match(JSON.stringify(logged), /secret path/);
});

test('a text of the engine under an Internal error of ours does not leak either', async () => {
  const dropTable = async () => {
    throw new LancegateError('Internal', 'lance says /x/y');
  };
  await using service = await startTestService({ script: { dropTable } });
  assert.doesNotMatch((await ask(service, '/v1/table/users/drop')).text, /lance says/);
});

test('a request id that could not stand in a log line is replaced', async () => {
  await using service = await startTestService();
  const { headers } = await ask(service, '/healthz', { method: 'GET', headers: { 'x-request-id': 'a b' } });
  assert.equal(headers.get('x-request-id'), 'id-1');
});

test('a retry hint is rounded up to whole seconds', async () => {
  const dropTable = async () => {
    throw new LancegateError('SlowDown', 'busy', { retryAfterSeconds: 1.2 });
  };
  await using service = await startTestService({ script: { dropTable } });
  const { status, headers } = await ask(service, '/v1/table/users/drop');
  assert.deepEqual([status, headers.get('retry-after')], [503, '2']);
});

test('every request is one line in the log and one count under its route, never under its id', async () => {
  await using service = await startTestService();
  await ask(service, '/v1/table/prod$users/drop', { body: {} });
  const { text } = await ask(service, '/metrics', { method: 'GET' });
  const line = service.log.find(({ message }) => message === 'request')!;
  const { method, route, status, requestId, subject, receivedBytes } = line;
  assert.deepEqual(
    { method, route, status, requestId, subject, receivedBytes },
    { method: 'POST', route: '/v1/table/:id/drop', status: 200, requestId: 'id-1', subject: 'ann', receivedBytes: 2 },
  );
  assert.match(text, /duration_seconds_count\{method="POST",route="\/v1\/table\/:id\/drop",status="200"\} 1/);
  assert.doesNotMatch(JSON.stringify(service.log), new RegExp(token));
});
