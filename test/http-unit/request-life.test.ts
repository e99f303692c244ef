import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import type { Operations } from '#src/http/routes/api.ts';
import { LancegateError } from '#src/kernel/errors.ts';
import type { TransactionId } from '#src/kernel/ids.ts';
import type { RequestScope } from '#src/kernel/request-scope.ts';
import { ask, upload, usersStream } from './client.ts';
import { ManualClock } from './manual-clock.ts';
import { RawClient } from './raw-client.ts';
import { startTestService } from './service.ts';
import { until } from './until.ts';

const chunked = ['content-type: application/vnd.apache.arrow.stream', 'transfer-encoding: chunked'];
const aborted = (signal: AbortSignal): Promise<LancegateError> =>
  new Promise((resolve) => signal.addEventListener('abort', () => resolve(signal.reason as LancegateError)));

/** A merge that waits until its scope aborts, as one in a queue does. */
function waitingMerge() {
  const started = Promise.withResolvers<RequestScope>();
  const mergeRows = async (_: unknown, scope: RequestScope) => {
    const reason = aborted(scope.signal);
    started.resolve(scope);
    throw await reason;
  };
  return { started: started.promise, mergeRows };
}

test('a client that leaves while its merge waits aborts it, though its body was read (P6)', async () => {
  const { started, mergeRows } = waitingMerge();
  const reading = async (command: { source: { whole(): Promise<unknown> } }, scope: RequestScope) => {
    await command.source.whole();
    return mergeRows(command, scope);
  };
  await using service = await startTestService({ script: { mergeRows: reading } });
  using client = await RawClient.connect(service);
  await client.head('POST /v1/table/users/merge_insert?on=id', chunked);
  await client.chunk(usersStream);
  await client.write('0\r\n\r\n');
  const scope = await started;
  assert.equal(scope.signal.aborted, false);
  const reason = aborted(scope.signal);
  client.leave();
  assert.ok((await reason) instanceof LancegateError);
});

test('a deadline that passes aborts the work with TimedOut, and the answer is 503 with Retry-After', async () => {
  const clock = new ManualClock();
  const { started, mergeRows } = waitingMerge();
  await using service = await startTestService({ script: { mergeRows }, clock });
  const headers = { 'x-request-timeout-ms': '5000' };
  const answer = upload(service, '/v1/table/users/merge_insert?on=id&timeout=1m', { headers });
  const scope = await started;
  clock.advance(1_000);
  assert.equal(scope.remainingMs(), 4_000);
  clock.advance(4_000);
  const { status, headers: got, json } = await answer;
  assert.equal(status, 503);
  assert.equal(got.get('retry-after'), '1');
  assert.equal((json as { code: number }).code, 17);
});

test('no timer outlives its request', async () => {
  const clock = new ManualClock();
  await using service = await startTestService({ clock });
  await upload(service, '/v1/table/users/merge_insert?on=id');
  await ask(service, '/v1/table/users/describe');
  assert.deepEqual(clock.waiting, [500], 'the next look at the connections');
});

test('no request can ask for more time than the service allows', async () => {
  const clock = new ManualClock();
  const { started, mergeRows } = waitingMerge();
  await using service = await startTestService({ script: { mergeRows }, clock });
  const answer = upload(service, '/v1/table/users/merge_insert?on=id&timeout=100h');
  assert.equal((await started).remainingMs(), 600_000);
  clock.advance(600_000);
  assert.equal((await answer).status, 503);
});

for (const [timeout, status, which] of [
  ['', '200', 'puts off the deadline that its client did not choose'],
  ['&timeout=60s', '503', 'does not put off the deadline that its client chose'],
] as const) {
  test(`a body that keeps coming ${which}`, async () => {
    const clock = new ManualClock();
    await using service = await startTestService({ clock, config: { uploadIdleTimeoutMs: 70_000 } });
    using client = await RawClient.connect(service);
    await client.head(`POST /v1/table/users/merge_insert?on=id${timeout}`, chunked);
    for (const [index, byte] of [...usersStream.subarray(0, 3)].entries()) {
      await client.chunk(Uint8Array.of(byte));
      while (service.receivedBytes() <= index && client.received === '') await turn();
      if (index < 2) clock.advance(30_000);
    }
    await client.chunk(usersStream.subarray(3));
    await client.write('0\r\n\r\n');
    assert.match(await client.until('}'), new RegExp(`^HTTP/1.1 ${status} `));
  });
}

test('a body that stops arriving is given up with 503, and its slot is free again (P7, P10)', async () => {
  const clock = new ManualClock();
  await using service = await startTestService({
    clock,
    config: { maxConcurrentWrites: 1, uploadIdleTimeoutMs: 300 },
  });
  using client = await RawClient.connect(service);
  await client.head('POST /v1/table/users/merge_insert?on=id', chunked);
  await client.chunk(usersStream.subarray(0, 100));
  await until(() => clock.waiting.includes(300));
  clock.advance(300);
  assert.match(await client.until('"code":17}'), /^HTTP\/1.1 503 .*stopped arriving/s);
  client.leave();
  await until(() => service.log.some((line) => line.message === 'request'));
  assert.equal((await upload(service, '/v1/table/users/create')).status, 200);
});

test('a body that trickles is given up, however steadily it does (P10)', async () => {
  const clock = new ManualClock();
  await using service = await startTestService({ clock, config: { uploadIdleTimeoutMs: 300 } });
  using client = await RawClient.connect(service);
  await client.head('POST /v1/table/users/merge_insert?on=id', chunked);
  for (let at = 0; at < 5 && !client.received.includes('HTTP'); at += 1) {
    await until(() => clock.waiting.some((ms) => ms <= 300) || client.received.includes('HTTP'));
    clock.advance(200);
    await client.chunk(usersStream.subarray(at, at + 1));
    await until(() => service.log.length > 0 || service.receivedBytes() > at);
  }
  assert.match(await client.until('"code":17}'), /too slowly/);
});

test('beyond the configured number of uploads the answer is 503, before the body is read (P7)', async () => {
  const entered = Promise.withResolvers<void>();
  const script = {
    createTable: async ({ source }: { source: { schema(): Promise<unknown> } }) => {
      entered.resolve();
      await source.schema();
      throw new LancegateError('NamespaceNotFound', 'script');
    },
  };
  await using service = await startTestService({ script, config: { maxConcurrentWrites: 1 } });
  using slow = await RawClient.connect(service);
  await slow.head('POST /v1/table/users/create', chunked);
  await entered.promise;
  const second = await upload(service, '/v1/table/users/merge_insert?on=id');
  assert.equal(second.status, 503);
  assert.equal(second.headers.get('retry-after'), '1');
  assert.equal((await ask(service, '/v1/table/users/describe', { body: {} })).status, 200, 'short requests still pass');
  slow.leave();
  await until(() => service.log.some((line) => line.message === 'request' && line.route === '/v1/table/:id/create'));
  assert.equal((await upload(service, '/v1/table/users/merge_insert?on=id')).status, 200);
});

test('an upload that breaks off is a 400 to the operation, so that nothing is committed (P1)', async () => {
  const failed = Promise.withResolvers<unknown>();
  const script = {
    createTable: async ({ source }: { source: { whole(): Promise<unknown> } }) => {
      failed.resolve(await source.whole().catch((error: unknown) => error));
      throw new LancegateError('InvalidInput', 'script');
    },
  };
  await using service = await startTestService({ script });
  using client = await RawClient.connect(service);
  await client.head('POST /v1/table/users/create', chunked);
  await client.chunk(usersStream.subarray(0, 100));
  client.leave();
  const error = await failed.promise;
  assert.ok(error instanceof LancegateError);
  assert.equal(error.kind, 'InvalidInput');
});

test('a service that stops finishes what it began, and lets idle connections go', async () => {
  const clock = new ManualClock();
  const { started, mergeRows } = waitingMerge();
  const service = await startTestService({ script: { mergeRows }, clock, config: { defaultTimeoutMs: 300 } });
  const under = upload(service, '/v1/table/users/merge_insert?on=id');
  await started;
  using kept = await RawClient.connect(service);
  await kept.head('GET /readyz', []);
  await kept.until('"ready"');
  const closing = service.close(5_000);
  assert.equal(await kept.closed, 'end');
  clock.advance(300);
  const { status, headers } = await under;
  assert.deepEqual([status, headers.get('connection')], [503, 'close']);
  await closing;
});

test('a service that stops refuses a request that was only beginning, with 503', async () => {
  const clock = new ManualClock();
  const { started, mergeRows } = waitingMerge();
  const service = await startTestService({ script: { mergeRows }, clock, config: { defaultTimeoutMs: 300 } });
  const under = upload(service, '/v1/table/users/merge_insert?on=id');
  await started;
  const paths = ['GET /readyz', 'POST /v1/table/users/describe'];
  const clients = await Promise.all(paths.map(() => RawClient.connect(service)));
  for (const [index, client] of clients.entries()) await client.write(`${paths[index]} HTTP/1.1\r\nhost: x\r\n`);
  await ask(service, '/healthz', { method: 'GET' }); // by now the beginnings have arrived too
  const closing = service.close(5_000);
  for (const client of clients) await client.write('\r\n');
  for (const client of clients) assert.match(await client.until('"code":17}'), /^HTTP\/1.1 503 .*is stopping/s);
  clock.advance(300);
  await under;
  await closing;
});

test('the audit record of a client that left waits for what its merge did', async () => {
  const started = Promise.withResolvers<void>();
  const commit = Promise.withResolvers<void>();
  const mergeRows: Operations['mergeRows'] = async ({ source }) => {
    await source.whole();
    started.resolve();
    await commit.promise;
    const counts = { numUpdatedRows: 2, numInsertedRows: 3, numDeletedRows: 0, numAttempts: 1 };
    return { transactionId: 'tx' as TransactionId, version: 8, ...counts, isReplay: false };
  };
  await using service = await startTestService({ script: { mergeRows } });
  using client = await RawClient.connect(service);
  await client.head('POST /v1/table/users/merge_insert?on=id', [`content-length: ${usersStream.length}`]);
  await client.write(usersStream);
  await started.promise;
  client.leave();
  await ask(service, '/v1/table/users/exists');
  const records = () => service.log.filter(({ message }) => message === 'request');
  await until(() => records().length === 1);
  commit.resolve();
  await until(() => records().length === 2);
  const { route, clientLeft, version, insertedRows, updatedRows, decision } = records()[1]!;
  assert.deepEqual(
    { route, clientLeft, version, insertedRows, updatedRows, decision },
    {
      ...{ route: '/v1/table/:id/merge_insert', clientLeft: true, decision: 'allowed' },
      ...{ version: 8, insertedRows: 3, updatedRows: 2 },
    },
  );
});

test('a client that leaves has one audit record, wherever it was', async () => {
  await using service = await startTestService();
  const length = `content-length: ${usersStream.length}`;
  const merge = 'POST /v1/table/users/merge_insert?on=id';
  const leaving: readonly [line: string, headers: readonly string[], body: Uint8Array][] = [
    [merge, [length], Buffer.alloc(0)],
    [merge, [length], usersStream.subarray(0, 100)],
    [merge, [length, 'expect: 100-continue'], Buffer.alloc(0)],
    ['POST /v1/table/users/create', chunked, Buffer.from('5\r\nabcde\r\n')],
    ['POST /v1/table/users/describe', ['content-length: 100'], Buffer.from('{')],
  ];
  const records = () => service.log.filter(({ message }) => message === 'request');
  for (const [index, [line, headers, body]] of leaving.entries()) {
    using client = await RawClient.connect(service);
    const asked = service.asked.length;
    await client.head(line, [...headers, `x-request-id: r${index}`]);
    await client.write(body);
    if (!line.includes('describe')) await until(() => service.asked.length > asked);
    client.leave();
    if (line.includes('describe')) continue;
    await until(() => records().some(({ requestId }) => requestId === `r${index}`));
  }
  await until(() => records().length === leaving.length);
  for (const { clientLeft, status } of records()) assert.deepEqual([clientLeft, status], [true, 400]);
});
