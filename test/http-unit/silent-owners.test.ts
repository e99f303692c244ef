/** What a replica does about the owner of a table from which nothing comes, as where packets between the two are lost (P6, P12). */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { Forwarding } from '#src/http/forwarding/forwarding.ts';
import { type ForwardedRequest, ReplicaHop } from '#src/http/forwarding/replica-hop.ts';
import { LancegateError, timedOut } from '#src/kernel/errors.ts';
import { table } from '#test/contract/catalog/fixtures.ts';
import { ManualClock } from './manual-clock.ts';
import { RawClient } from './raw-client.ts';
import { Replicas } from './replicas.ts';
import { silentLogger } from './silent-logger.ts';
import { until } from './until.ts';

const mergePath = '/v1/table/users/merge_insert?on=id';
const principal = { subject: 'ann', scopes: [], groups: [], issuer: 'test' };

const processing = 'HTTP/1.1 102 Processing\r\n\r\n';
const goOn = 'HTTP/1.1 100 Continue\r\n\r\n';
const done = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}';

/** A merge whose body has three bytes, and whether they were read. */
function merge(signal: AbortSignal = new AbortController().signal) {
  const read = { isBegun: false };
  const body = async function* () {
    read.isBegun = true;
    yield Buffer.from('abc');
  };
  const rawHeaders = ['content-length', '3'];
  const request = { method: 'POST', target: mergePath, rawHeaders, peer: '127.0.0.1', body: body(), principal, signal };
  return { request: request satisfies ForwardedRequest, read };
}

/** The test writes what the owner says. */
async function scriptedOwner(t: TestContext) {
  const sockets: { readonly socket: Socket; received: string }[] = [];
  const server = createServer((socket) => {
    const connection = { socket, received: '' };
    sockets.push(connection);
    socket.on('error', () => undefined);
    socket.on('data', (bytes) => {
      connection.received += bytes.toString('latin1');
    });
    t.after(() => socket.destroy());
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const clock = new ManualClock();
  const said: { readonly message: string; readonly fields: Record<string, unknown> }[] = [];
  const keep = (fields: object, message: string) => void said.push({ message, fields: { ...fields } });
  const hop = new ReplicaHop({ sign: async () => 'token', clock, logger: { info: keep, warn: keep } });
  t.after(() => hop.close());
  const owner = { id: 'owner', address: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
  /** The owner says it, and the replica has heard it: it waits for the next word from now on. */
  const say = async (text: string, waitingMs: readonly number[]): Promise<void> => {
    sockets.at(-1)!.socket.write(text);
    await until(() => String(clock.waiting) === String(waitingMs));
  };
  const received = (text: string) => until(() => sockets.at(-1)?.received.endsWith(text) === true);
  return { owner, clock, hop, sockets, say, received, said };
}

const withinHalves = (clock: ManualClock, ms: number): void => {
  clock.advance(ms / 2);
  clock.advance(ms / 2);
};

test('an owner that takes the connection and says nothing has not taken the request (P6)', async (t) => {
  const { owner, clock, hop, received } = await scriptedOwner(t);
  const { request, read } = merge();
  const forwarded = hop.forward(request, owner);
  await received('\r\n\r\n');
  clock.advance(2_999);
  assert.equal(clock.waiting.length, 1);
  withinHalves(clock, 3_000);
  await assert.rejects(forwarded, { name: 'NotTaken' });
  assert.equal(read.isBegun, false);
  assert.deepEqual(clock.waiting, []);
});

/** The queue of a server that accepts nothing is full after two connections; Linux answers no further one. */
async function fullServer(t: TestContext): Promise<number> {
  const program = `
    const { parentPort } = require('node:worker_threads');
    const server = require('node:net').createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
      parentPort.postMessage(server.address().port);
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
    });`;
  const worker = new Worker(program, { eval: true });
  t.after(() => worker.terminate());
  const [port] = await once(worker, 'message');
  for (let count = 0; count < 2; count++) {
    const socket = connect(port, '127.0.0.1').on('error', () => undefined);
    t.after(() => socket.destroy());
    await once(socket, 'connect');
  }
  return port;
}

test('a connection to the owner that is never there leaves also a request without a body untaken (P6)', {
  skip: process.platform !== 'linux',
}, async (t) => {
  const port = await fullServer(t);
  const clock = new ManualClock();
  const hop = new ReplicaHop({ sign: async () => 'token', clock, logger: silentLogger });
  t.after(() => hop.close());
  const { request } = merge();
  const address = `http://127.0.0.1:${port}`;
  const forwarded = hop.forward({ ...request, rawHeaders: [], body: undefined }, { id: 'owner', address });
  await until(() => clock.waiting.length === 1);
  withinHalves(clock, 3_000);
  await assert.rejects(forwarded, { name: 'NotTaken' });
});

test('an owner that says that it has the request is waited for, before the body and after it', async (t) => {
  const { owner, clock, hop, say, received } = await scriptedOwner(t);
  const { request, read } = merge();
  const forwarded = hop.forward(request, owner);
  await received('\r\n\r\n');
  for (let second = 0; second < 60; second++) {
    clock.advance(1_000);
    await say(processing, [1_500]);
  }
  assert.equal(read.isBegun, false);
  await say(goOn, [5_000]);
  await received('abc');
  for (let second = 0; second < 60; second++) {
    clock.advance(1_000);
    await say(processing, [5_000]);
  }
  clock.advance(60_000); // this process stood still, and reads what the owner has said only then
  await say(processing, [5_000]);
  await say(done, []);
  assert.equal((await forwarded).status, 200);
});

test('an owner that had the body and is not heard any more leaves the outcome unknown (P6)', async (t) => {
  const { owner, clock, hop, say, received } = await scriptedOwner(t);
  const forwarded = hop.forward(merge().request, owner);
  await received('\r\n\r\n');
  await say(processing + goOn, [5_000]);
  await received('abc');
  withinHalves(clock, 10_000);
  await assert.rejects(forwarded, { kind: 'OwnerLost' });
});

test('an owner that is not heard in the middle of the body has written nothing (P6)', async (t) => {
  const { owner, clock, hop, say, received } = await scriptedOwner(t);
  const { request } = merge();
  const body = async function* () {
    yield Buffer.from('a');
    await new Promise(() => {}); // the client is slow
  };
  const forwarded = hop.forward({ ...request, body: body() }, owner);
  await received('\r\n\r\n');
  await say(processing + goOn, [5_000]);
  await received('a');
  withinHalves(clock, 10_000);
  await assert.rejects(forwarded, { kind: 'SlowDown' });
});

for (const isAnswered of [true, false]) {
  const what = isAnswered ? 'has some time for its commit' : 'is not waited for without end';
  test(`past its deadline an owner that never says that it works ${what} (P6, P12)`, async (t) => {
    const { owner, clock, hop, sockets, received } = await scriptedOwner(t);
    const deadline = new AbortController();
    const forwarded = hop.forward(merge(deadline.signal).request, owner);
    await received('\r\n\r\n');
    sockets[0]!.socket.write(goOn);
    await received('abc');
    assert.deepEqual(clock.waiting, []);
    deadline.abort(timedOut());
    if (isAnswered) sockets[0]!.socket.write(done);
    else withinHalves(clock, 30_000);
    if (isAnswered) assert.equal((await forwarded).status, 200);
    else await assert.rejects(forwarded, { kind: 'OwnerLost' });
  });
}

/** Moves the clock until it is settled. */
async function settled<Result>(work: Promise<Result>, clock: ManualClock): Promise<Result> {
  let isSettled = false;
  const settle = (): void => {
    isSettled = true;
  };
  work.then(settle, settle);
  for (;;) {
    for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate);
    if (isSettled) return work;
    clock.advance(50);
  }
}

test('that a living owner is not reached the client learns within seconds, and nothing was written (P6)', async (t) => {
  const { owner, clock, hop, sockets } = await scriptedOwner(t);
  const ownerOf = async () => ({ kind: 'replica', ...owner }) as const;
  const forwarding = new Forwarding({ owners: { ownerOf }, others: () => [owner], hop, clock });
  const { request, read } = merge();
  const refused = assert.rejects(forwarding.forward(request, { owned: table('users') }, owner), {
    kind: 'SlowDown',
    message: /nothing was written/,
    retryAfterSeconds: 1,
  });
  await settled(refused, clock);
  assert.ok(clock.nowMs() < 8_000, `${clock.nowMs()} ms`);
  assert.deepEqual([sockets.length, read.isBegun], [2, false]);
});

test('the log names a replica that is not reached once, with its address and why, until it is heard again', async (t) => {
  const { owner, clock, hop, sockets, said } = await scriptedOwner(t);
  const forward = () => hop.forward({ ...merge().request, isRepeated: true }, owner);
  for (const tries of [1, 2]) {
    const lost = assert.rejects(forward(), { name: 'NotTaken' });
    await until(() => sockets.length === tries);
    sockets.at(-1)!.socket.destroy();
    await lost;
  }
  assert.deepEqual(
    said.map(({ message, fields: { replica, address } }) => [message, replica, address]),
    [['another replica is not reached, or has broken off its answer', owner.id, owner.address]],
  );
  assert.match(String(said[0]!.fields.error), /socket hang up|ECONNRESET/);
  const refused = assert.rejects(forward(), { name: 'NotTaken' });
  await until(() => sockets.at(-1)!.received.endsWith('\r\n\r\n') && sockets.length === 3);
  sockets.at(-1)!.socket.write('HTTP/1.1 421 Misdirected Request\r\ncontent-length: 0\r\n\r\n');
  await refused;
  assert.equal(said[1]?.message, 'another replica is reached again');
  const left = new AbortController();
  const given = assert.rejects(hop.forward(merge(left.signal).request, owner), { kind: 'TimedOut' });
  await until(() => sockets.length === 4);
  left.abort(timedOut('late'));
  await given;
  assert.equal(said.length, 2, 'a request that gives up says nothing of the owner');
  assert.equal(clock.nowMs(), 0);
});

test('an owner that is gone is asked for again past its lease, and the next one for as long', async (t) => {
  const { clock, hop } = await scriptedOwner(t);
  const gone = (id: string) => ({ id, address: 'http://127.0.0.1:1' });
  const ownerOf = async () => {
    if (clock.nowMs() > 10_000) return { kind: 'self' } as const;
    return { kind: 'replica', ...gone(clock.nowMs() > 5_000 ? 'next' : 'first') } as const;
  };
  const others = () => [gone('first'), gone('next')];
  const forwarding = new Forwarding({ owners: { ownerOf }, others, hop, clock });
  const answer = await settled(forwarding.forward(merge().request, { owned: table('users') }, gone('first')), clock);
  assert.equal(answer, undefined, 'this replica is to answer');
});

test('the second try uses no kept connection, of which more may lead nowhere by now', async (t) => {
  const { owner, clock, hop, sockets } = await scriptedOwner(t);
  const ownerOf = async () => ({ kind: 'replica', ...owner }) as const;
  const forwarding = new Forwarding({ owners: { ownerOf }, others: () => [owner], hop, clock });
  const sayTo = async (connections: typeof sockets, heard: string, said: string): Promise<void> => {
    await until(() => connections.every(({ received }) => received.endsWith(heard)));
    for (const { socket } of connections) socket.write(said);
  };
  const both = [1, 2].map(() => forwarding.forward(merge().request, { owned: table('users') }, owner));
  await until(() => sockets.length === 2);
  await sayTo(sockets, '\r\n\r\n', goOn);
  await sayTo(sockets, 'abc', done);
  await Promise.all(both);
  const third = forwarding.forward(merge().request, { owned: table('users') }, owner);
  await until(() => sockets.some(({ received }) => received.endsWith('\r\n\r\n')));
  withinHalves(clock, 3_000);
  await until(() => clock.waiting.includes(50));
  clock.advance(50);
  await until(() => sockets.length === 3);
  await sayTo(sockets.slice(2), '\r\n\r\n', goOn);
  await sayTo(sockets.slice(2), 'abc', done);
  assert.equal((await third)?.status, 200);
});

test('a replica says each second that it has what another one sent on, until its answer, and says so to no client', async () => {
  await using replicas = new Replicas();
  const clock = new ManualClock();
  const work = Promise.withResolvers<never>();
  const owner = await replicas.start('owner', { clock, script: { dropTable: () => work.promise } });
  const vouched = await replicas.tokens('other').sign(principal, 'owner');
  using replica = await RawClient.connect(owner);
  using client = await RawClient.connect(owner);
  const head = ['content-length: 2', 'expect: 100-continue'];
  await replica.head('POST /v1/table/users/drop', [...head, `authorization: Bearer ${vouched}`], false);
  await client.head('POST /v1/table/users/drop', head);
  for (const each of [replica, client]) {
    await each.until(goOn);
    await each.write('{}');
  }
  await until(() => owner.asked.length === 2);
  const timesSaid = (): number => replica.received.split(processing).length - 1;
  assert.equal(timesSaid(), 1);
  for (const times of [2, 3]) {
    clock.advance(1_000);
    await until(() => timesSaid() === times);
  }
  work.reject(new LancegateError('TableNotFound', 'no such table'));
  await replica.until('"code":4}');
  await client.until('"code":4}');
  clock.advance(2_000);
  await replica.head('GET /healthz', []);
  await replica.until('HTTP/1.1 200');
  assert.equal(timesSaid(), 3);
  assert.doesNotMatch(client.received, /102/);
});
