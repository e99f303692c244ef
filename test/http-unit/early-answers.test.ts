import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { lookup } from 'node:dns/promises';
import { request } from 'node:http';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { usersStream } from './client.ts';
import { RawClient } from './raw-client.ts';
import { startTestService, token } from './service.ts';

const chunked = ['content-type: application/vnd.apache.arrow.stream', 'transfer-encoding: chunked'];
const oneMiB = Buffer.alloc(1 << 20);

test('a client that sends 50 MB before it looks still gets to read its 401, and then the end (P9)', async () => {
  await using service = await startTestService();
  using client = await RawClient.connect(service);
  await client.head('POST /v1/table/users/create', chunked, false);
  for (let sent = 0; sent < 50; sent += 1) await client.chunk(oneMiB);
  await client.write('0\r\n\r\n');
  assert.equal(await client.closed, 'end');
  assert.match(client.received, /^HTTP\/1.1 401 /);
  assert.match(client.received, /connection: close/i);
  assert.match(client.received, /"code":16}$/);
});

test('the answer comes before the body has ended', async () => {
  await using service = await startTestService();
  using client = await RawClient.connect(service);
  await client.head('POST /v1/table/users/merge_insert', chunked);
  await client.chunk(oneMiB);
  assert.match(await client.until('"code":13}'), /^HTTP\/1.1 400 .*on: the field path/s);
});

test('curl reads the answer to an upload that is refused half-way', async () => {
  await using service = await startTestService();
  const curl = promisify(execFile)('bash', [
    '-c',
    `head -c 50000000 /dev/zero | curl -sS -o /dev/null -w '%{http_code}' -T - -X POST '${service.url}/v1/table/users/create'`,
  ]);
  assert.equal((await curl).stdout, '401');
});

test('fetch reads the answer to an upload that is refused half-way', async () => {
  await using service = await startTestService();
  const body = new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(1 << 16)) });
  const response = await fetch(`${service.url}/v1/table/users/create`, {
    method: 'POST',
    body,
    duplex: 'half',
  } as RequestInit);
  assert.equal(response.status, 401);
  assert.equal(((await response.json()) as { code: number }).code, 16);
});

test('a Content-Length beyond the limit of merges is 413 before a byte is read (P7)', async () => {
  await using service = await startTestService();
  using client = await RawClient.connect(service);
  await client.head('POST /v1/table/users/merge_insert?on=id', ['content-length: 1048577']);
  assert.match(await client.until('"code":13}'), /^HTTP\/1.1 413 .*connection: close/is);
  assert.deepEqual(service.asked, []);
});

interface Expecting {
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly host?: string;
}

/** What a client sees that sends its body only when asked to. */
function expectContinue(service: { port: number }, { path, headers = {}, host = '127.0.0.1' }: Expecting) {
  return new Promise<{ status: number | undefined; continued: boolean }>((resolve, reject) => {
    const expecting = { expect: '100-continue', 'content-length': String(usersStream.length), ...headers };
    const sending = request({ host, port: service.port, method: 'POST', path, headers: expecting });
    const seen = { continued: false };
    sending.on('continue', () => {
      seen.continued = true;
      sending.end(usersStream);
    });
    sending.on('response', (response) => {
      response.resume();
      resolve({ status: response.statusCode, ...seen });
      sending.destroy();
    });
    sending.on('error', reject);
    sending.flushHeaders();
  });
}

test('100 Continue is said only to a client that is let in, and whose body fits', async () => {
  await using service = await startTestService({ allows: ({ action }) => action !== 'CreateTable' });
  const authorization = `Bearer ${token}`;
  const merge = '/v1/table/users/merge_insert?on=id';
  const refused = { continued: false };
  assert.deepEqual(await expectContinue(service, { path: merge }), { status: 401, ...refused });
  const create = { path: '/v1/table/users/create', headers: { authorization } };
  assert.deepEqual(await expectContinue(service, create), { status: 403, ...refused });
  const large = { path: merge, headers: { authorization, 'content-length': '2000000' } };
  assert.deepEqual(await expectContinue(service, large), { status: 413, ...refused });
  assert.deepEqual(await expectContinue(service, { path: '/v1/nowhere' }), { status: 404, ...refused });
  const welcome = { path: merge, headers: { authorization } };
  assert.deepEqual(await expectContinue(service, welcome), { status: 200, continued: true });
});

test('every address of localhost asks who it is before it says 100 Continue (P9)', async () => {
  await using service = await startTestService({ config: { host: 'localhost' } });
  const addresses = await lookup('localhost', { all: true });
  assert.ok(addresses.length > 0);
  for (const { address: host } of addresses) {
    const path = '/v1/table/users/merge_insert?on=id';
    assert.deepEqual(await expectContinue(service, { path, host }), { status: 401, continued: false }, host);
    const headers = { authorization: `Bearer ${token}` };
    assert.deepEqual(await expectContinue(service, { path, host, headers }), { status: 200, continued: true }, host);
  }
});

test('a connection lives on after an answer to a body that was read', async () => {
  await using service = await startTestService();
  using client = await RawClient.connect(service);
  for (const path of ['/v1/table/a/drop', '/v1/table/b/drop']) {
    await client.head(`POST ${path}`, ['content-type: application/json', 'content-length: 2']);
    await client.write('{}');
    await client.until(`"${path.at(-6)}"`);
  }
  assert.doesNotMatch(client.received, /connection: close/i);
});
