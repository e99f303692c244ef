import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { IncomingMessage } from 'node:http';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import type { Operations } from '#src/http/routes/api.ts';
import { type Clock, systemClock } from '#src/kernel/clock.ts';
import { LancegateError } from '#src/kernel/errors.ts';
import { ask, upload } from './client.ts';
import { RawClient } from './raw-client.ts';
import { startTestService, type TestOptions, type TestService } from './service.ts';
import { until } from './until.ts';

const merge = 'POST /v1/table/users/merge_insert?on=id';
const full = { maxConcurrentWrites: 1 };
const half = { maxConcurrentWrites: 2, tableShare: 0.5 };

/** A create that has its place and waits for its body until its client leaves. */
async function withOneWrite(options: TestOptions): Promise<TestService & { readonly slow: RawClient }> {
  const entered = Promise.withResolvers<void>();
  const createTable = async ({ source }: { source: { schema(): Promise<unknown> } }) => {
    entered.resolve();
    await source.schema();
    throw new LancegateError('NamespaceNotFound', 'script');
  };
  const service = await startTestService({ ...options, script: { createTable } as unknown as Partial<Operations> });
  const slow = await RawClient.connect(service);
  await slow.head('POST /v1/table/users/create', ['transfer-encoding: chunked']);
  await entered.promise;
  const close = async () => {
    slow.leave();
    await service[Symbol.asyncDispose]();
  };
  return { ...service, slow, [Symbol.asyncDispose]: close };
}

const answers = ({ received }: RawClient): readonly string[] =>
  [...received.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status ?? '');

/** What would be a request if it were not inside a body. */
const smuggled = 'GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n';
const sized = (body: string): readonly string[] => [`content-length: ${body.length}`];

for (const [name, config] of [
  ['everything', full],
  ['the share of a table', half],
] as const) {
  test(`where ${name} is taken, a refused write keeps its connection, and the next request begins behind its body`, async () => {
    await using service = await withOneWrite({ config });
    using client = await RawClient.connect(service);
    for (let i = 1; i <= 3; i++) {
      await client.head(merge, sized(smuggled));
      await turn();
      await client.write(smuggled);
      await client.head('GET /readyz', [], false);
      await until(() => answers(client).length === 2 * i);
    }
    assert.deepEqual(answers(client), ['503', '200', '503', '200', '503', '200']);
    assert.doesNotMatch(client.received, /"alive"|connection: close/i);
    assert.equal(client.received.match(/^retry-after: 1\r$/gim)?.length, 3);
  });

  test(`where ${name} is taken, requests sent without waiting for answers get theirs in order, none out of a body`, async () => {
    await using service = await withOneWrite({ config });
    using client = await RawClient.connect(service);
    const head = (line: string, headers: readonly string[]) =>
      [`${line} HTTP/1.1`, 'host: x', 'authorization: Bearer good-token', ...headers, '', ''].join('\r\n');
    const refused = head(merge, sized(smuggled)) + smuggled;
    await client.write(refused + head('GET /readyz', []) + refused + refused + head('GET /readyz', []));
    await until(() => answers(client).length === 5);
    assert.deepEqual(answers(client), ['503', '200', '503', '503', '200']);
    assert.doesNotMatch(client.received, /"alive"/);
  });

  test(`where ${name} is taken, a body without a length, a long one and one that waits for 100 Continue end the connection`, async () => {
    await using service = await withOneWrite({ config });
    const unknown = ['transfer-encoding: chunked'];
    const waiting = [...sized(smuggled), 'expect: 100-continue'];
    for (const headers of [unknown, waiting, ['content-length: 65537'], ['content-length: 1000000']]) {
      using client = await RawClient.connect(service);
      await client.head(merge, headers);
      await client.until('"code":17}');
      assert.match(client.received, /^HTTP\/1\.1 503 .*\nconnection: close\r/is, headers.join());
      if (headers === unknown) await client.write(`${smuggled.length.toString(16)}\r\n${smuggled}\r\n0\r\n\r\n`);
      else await client.write(smuggled);
      client.finish();
      await client.closed;
      assert.ok(!answers(client).includes('200'), headers.join());
    }
  });

  test(`where ${name} is taken, a client that leaves in the middle of its refused body does no harm`, async () => {
    await using service = await withOneWrite({ config });
    for (let i = 0; i < 3; i++) {
      using client = await RawClient.connect(service);
      await client.head(merge, ['content-length: 60000']);
      await client.write('half');
      await client.until('"code":17}');
    }
    assert.equal((await ask(service, '/readyz', { method: 'GET' })).status, 200);
  });
}

test('where all room is taken, a write learns only that, before its sender is known; the rest gets through (P7, P9)', async () => {
  await using service = await withOneWrite({ config: full });
  const headers = { 'x-request-id': 'mine', authorization: 'Bearer nobody' };
  for (const path of ['/v1/table/users/create', '/v1/table/nothing/merge_insert/', '//v1/table/a%2Fb/create?mode=x']) {
    const { status, json, headers: got } = await upload(service, path, { headers });
    assert.deepEqual(json, {
      type: '/errors/service-unavailable',
      title: 'Slow down',
      status: 503,
      detail: '',
      instance: path.split('?')[0],
      error: 'too many writes at the same time',
      code: 17,
    });
    assert.equal(status, 503);
    const named = ['x-request-id', 'retry-after', 'cache-control', 'content-type'].map((name) => got.get(name));
    assert.deepEqual(named, ['mine', '1', 'no-store', 'application/json; charset=utf-8']);
  }
  assert.equal((await ask(service, '/v1/table/users/describe', { body: {} })).status, 200);
  assert.equal((await ask(service, '/v1/table/users/describe', { body: {}, headers })).status, 401);
  assert.equal((await upload(service, '/v1/table/users/refresh')).status, 406);
  assert.equal((await ask(service, '/healthz', { method: 'GET' })).status, 200);
});

test('only a principal that may write there learns that a table or a principal has its share (P9, P10)', async () => {
  const mayWrite = { name: true };
  await using service = await withOneWrite({ config: half, allows: () => mayWrite.name });
  const path = '/v1/table/users/merge_insert?on=id';
  const stranger = { authorization: 'Bearer nobody' };
  assert.equal((await upload(service, path, { headers: stranger })).status, 401);
  assert.match((await upload(service, path)).text, /too many writes of this table/);
  assert.equal((await upload(service, path, { headers: stranger })).status, 401, 'also while the table has its share');
  assert.equal((await upload(service, '/v1/table/others/merge_insert?on=id')).status, 200, 'another table is open');
  mayWrite.name = false;
  assert.equal(
    (await upload(service, `${path}&timeout=30s`)).status,
    403,
    'nothing is concluded from one request to another',
  );
});

test('a write beyond the share of its table is authorised and admitted anew each time, counted and in the log', async () => {
  await using service = await withOneWrite({ config: half });
  const path = '/v1/table/users/merge_insert?on=id';
  for (let i = 0; i < 3; i++) {
    const before = service.decisions.length;
    const { status, text } = await upload(service, path);
    assert.equal(status, 503, text);
    assert.match(text, /too many writes of this table/);
    assert.equal(service.decisions.length - before, 1, 'nothing is concluded from an earlier request');
  }
  const lines = service.log.filter(({ message, status }) => message === 'request' && status === 503);
  const shown = lines.map(({ route, refusal, subject }) => [route, refusal, subject]);
  assert.deepEqual(shown, Array(3).fill(['/v1/table/:id/merge_insert', 'SlowDown', 'ann']));
  service.slow.leave();
  await until(() => service.log.some(({ route }) => route === '/v1/table/:id/create'));
  assert.equal((await upload(service, path)).status, 200, 'admitted as soon as there is capacity');
});

for (const [name, config] of [
  ['everything', full],
  ['the share of a table', half],
] as const) {
  test(`where ${name} is taken, many refused writes are asked to return one after the other (P7)`, async () => {
    const nowMs = systemClock.nowMs();
    const clock: Clock = { ...systemClock, nowMs: () => nowMs };
    await using service = await withOneWrite({ config, clock });
    using client = await RawClient.connect(service);
    const authorization = 'authorization: Bearer good-token';
    const lines = [`${merge} HTTP/1.1`, 'host: x', 'x-request-id: any', authorization, 'content-length: 1', '', 'x'];
    for (let batch = 1; batch <= 60; batch++) {
      await client.write(lines.join('\r\n').repeat(10));
      await until(() => answers(client).length === 10 * batch);
    }
    const seconds = [...client.received.matchAll(/^retry-after: (\d+)\r$/gim)].map(([, each]) => each);
    const counts = [seconds.filter((each) => each === '1').length, seconds.filter((each) => each === '2').length];
    assert.deepEqual(counts, [500, 100]);
  });
}

test('a write beyond the share of its principal is refused before the policy, to that principal alone (P7, P9)', async () => {
  await using service = await withOneWrite({ config: { maxConcurrentWrites: 2, principalShare: 0.5 } });
  const path = '/v1/table/others/merge_insert?on=id';
  const before = service.decisions.length;
  const { status, text } = await upload(service, path);
  assert.equal(status, 503);
  assert.match(text, /too many writes of this principal/);
  assert.equal(service.decisions.length, before, 'the policy was not asked');
  assert.equal((await upload(service, path, { headers: { authorization: 'Bearer nobody' } })).status, 401);
  const refused = service.log.find(({ message, status }) => message === 'request' && status === 503);
  assert.deepEqual([refused?.subject, refused?.refusal], ['ann', 'SlowDown']);
});

test('the credential of a write is verified once, also where it is not valid', async () => {
  await using service = await startTestService();
  const path = '/v1/table/users/merge_insert?on=id';
  assert.equal((await upload(service, path)).status, 200);
  assert.equal(service.verified(), 1);
  assert.equal((await upload(service, path, { headers: { authorization: 'Bearer nobody' } })).status, 401);
  assert.equal(service.verified(), 2);
});

test('of many writes that come at once, as many are let in as find room', async () => {
  const release = Promise.withResolvers<void>();
  let underWay = 0;
  const mergeRows = async ({ source }: { source: { whole(): Promise<unknown> } }) => {
    underWay += 1;
    await source.whole();
    await release.promise;
    throw new LancegateError('TableNotFound', 'script');
  };
  await using service = await startTestService({
    config: { maxConcurrentWrites: 8, tableShare: 0.5 },
    script: { mergeRows } as unknown as Partial<Operations>,
  });
  const path = '/v1/table/users/merge_insert?on=id';
  const all = Array.from({ length: 100 }, () => upload(service, path).then(({ status }) => status));
  await until(() => service.log.filter(({ status }) => status === 503).length === 96);
  assert.equal(underWay, 4);
  release.resolve();
  assert.deepEqual((await Promise.all(all)).filter((status) => status === 404).length, 4);
});

test('the write of another table is not behind all of those that a busy one sent before (P10)', async () => {
  await using service = await startTestService({ config: { maxConcurrentWrites: 100 } });
  const tables = [...Array<string>(60).fill('hot'), 'cold'];
  const clients = await Promise.all(tables.map(() => RawClient.connect(service)));
  await Promise.all(clients.map((client) => client.head('GET /readyz', [], false)));
  await until(() => clients.every((client) => answers(client).length === 1)); // by then all are accepted
  const body = smuggled; // it will be refused, but only by the operation
  await Promise.all(
    clients.map((client, i) => client.head(`POST /v1/table/${tables[i]}/merge_insert?on=id`, sized(body))),
  );
  await Promise.all(clients.map((client) => client.write(body)));
  await until(() => clients.every((client) => answers(client).length === 2));
  const asked = service.asked.map(({ command }) => (command.table as { name: string }).name);
  assert.equal(asked.length, 61);
  assert.ok(asked.indexOf('cold') < 40, `it was number ${asked.indexOf('cold')}`);
  for (const client of clients) client[Symbol.dispose]();
});

test('a client that leaves while its write waits for its turn is not served, and has an audit record', async (t) => {
  await using service = await startTestService({ config: { maxConcurrentWrites: 1 } });
  using client = await RawClient.connect(service);
  const onArrival = (message: unknown): void => {
    const { request } = message as { readonly request: IncomingMessage };
    if (request.method === 'POST') queueMicrotask(() => request.destroy()); // before its turn can come
  };
  subscribe('http.server.request.start', onArrival);
  t.after(() => unsubscribe('http.server.request.start', onArrival));
  await client.head(merge, sized(smuggled));
  const ended = () => service.log.filter(({ route }) => route === '/v1/table/:id/merge_insert');
  await until(() => ended().length > 0);
  assert.deepEqual([ended().map(({ refusal }) => refusal), service.decisions.length], [['InvalidInput'], 0]);
  unsubscribe('http.server.request.start', onArrival);
  assert.equal((await upload(service, '/v1/table/users/merge_insert?on=id')).status, 200, 'what it reserved is free');
});
