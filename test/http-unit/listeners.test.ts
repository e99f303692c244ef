/** A busy service takes new connections as they come (P10). Node alone takes one in each turn of its event loop. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { describe, type TestContext, test } from 'node:test';
import { canShare, listenMore, requireFree } from '#src/http/admission/listeners.ts';
import { startTestService } from './service.ts';

const host = '127.0.0.1';
const backlog = 1_000;
const skip = canShare(host) ? false : 'Linux only';
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

interface Shared {
  readonly server: Server;
  readonly port: number;
  readonly stopMore: () => Promise<void>;
}

async function listen(t: TestContext, answer: (request: IncomingMessage, response: ServerResponse) => void) {
  const server = createServer(answer);
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  server.listen({ host, port: 0, backlog, reusePort: true });
  await once(server, 'listening');
  return { server, port: (server.address() as AddressInfo).port };
}

async function listenTogether(
  t: TestContext,
  answer: (request: IncomingMessage, response: ServerResponse) => void = (_, response) => response.end(),
): Promise<Shared> {
  const { server, port } = await listen(t, answer);
  const stopMore = await listenMore(server, backlog);
  t.after(stopMore);
  return { server, port, stopMore };
}

function connectMany(t: TestContext, port: number, count: number): readonly Socket[] {
  const sockets = Array.from({ length: count }, () => connect(port, host));
  for (const socket of sockets) {
    socket.on('error', () => undefined);
    t.after(() => socket.destroy());
  }
  return sockets;
}

async function turnsUntil(isDone: () => boolean): Promise<number> {
  let turns = 0;
  for (; !isDone(); turns++) await turn();
  return turns;
}

/** proc_pid_net(5): address and port in hexadecimal digits, state 0A for one that listens. */
const listenersOf = (port: number): number => {
  const digits = port.toString(16).toUpperCase().padStart(4, '0');
  return (
    readFileSync('/proc/net/tcp', 'latin1').match(new RegExp(`^ *\\d+: \\w+:${digits} \\w+:0000 0A `, 'gm'))?.length ??
    0
  );
};

describe('listeners that share a port', { skip }, () => {
  test('take several connections in a turn, where one takes one', async (t) => {
    const count = 80;
    const turnsOf = async (server: Server, port: number): Promise<number> => {
      let taken = 0;
      server.on('connection', () => {
        taken += 1;
      });
      connectMany(t, port, count);
      return turnsUntil(() => taken === count);
    };
    const alone = await listen(t, () => undefined);
    const together = await listenTogether(t);
    assert.ok((await turnsOf(alone.server, alone.port)) >= count);
    assert.ok((await turnsOf(together.server, together.port)) < count / 2);
  });

  test('are one server: each connection is served, and none beyond the limit of all', async (t) => {
    await using service = await startTestService({ config: { maxConnections: 20 } });
    const sockets = connectMany(t, service.port, 30);
    let closed = 0;
    for (const socket of sockets) socket.on('close', () => (closed += 1));
    await turnsUntil(() => closed === 10);
    const open = sockets.filter((socket) => !socket.destroyed);
    for (const socket of open) socket.write('GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n');
    const answers = await Promise.all(open.map(async (socket) => String((await once(socket, 'data'))[0])));
    assert.deepEqual([...new Set(answers.map((answer) => answer.slice(0, 15)))], ['HTTP/1.1 200 OK']);
    open[0]?.destroy();
    await turnsUntil(() => closed === 11);
    const [late] = connectMany(t, service.port, 1) as [Socket];
    late.write('GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n');
    assert.match(String((await once(late, 'data'))[0]), /^HTTP\/1\.1 200/);
  });

  test('wait at the end for what is under way on any of them', async (t) => {
    const waiting: ServerResponse[] = [];
    const { server, port, stopMore } = await listenTogether(t, (_, response) => {
      waiting.push(response);
    });
    const sockets = connectMany(t, port, 40);
    for (const socket of sockets) socket.write('GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n');
    await turnsUntil(() => waiting.length === sockets.length);
    let isStopped = false;
    const stopping = Promise.all([stopMore(), new Promise((resolve) => server.close(resolve))]).then(() => {
      isStopped = true;
    });
    for (const response of waiting.slice(1)) response.end();
    for (let turns = 0; turns < 200; turns++) await turn();
    assert.equal(isStopped, false);
    waiting[0]?.end();
    await stopping;
  });

  test('are what the service has, and it leaves none of them behind', async () => {
    const service = await startTestService();
    const { port } = service;
    assert.equal(listenersOf(port), 8);
    await service[Symbol.asyncDispose]();
    assert.equal(listenersOf(port), 0);
  });

  test('let no more connections in than the service is to have, whichever of them they come by (P7)', async (t) => {
    await using service = await startTestService({ config: { maxConnections: 12 } });
    const sockets = connectMany(t, service.port, 40);
    let closed = 0;
    for (const socket of sockets) socket.on('close', () => (closed += 1));
    await turnsUntil(() => closed === 28);
    for (let turns = 0; turns < 200; turns++) await turn();
    assert.equal(closed, 28);
  });

  test('let go of idle connections when the service stops, whichever of them they came by', async (t) => {
    const neverDrained = { nowMs: () => Date.now(), schedule: () => () => undefined };
    const service = await startTestService({ clock: neverDrained });
    const sockets = connectMany(t, service.port, 40);
    for (const socket of sockets) socket.write('GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n');
    await Promise.all(sockets.map((socket) => once(socket, 'data')));
    const left = sockets.map((socket) => once(socket, 'close'));
    await service.close(60_000);
    await Promise.all(left);
  });

  test('do not hide that somebody else has the port, not even another service', async () => {
    await using service = await startTestService();
    const { port } = service;
    await assert.rejects(requireFree({ host, port }), { code: 'EADDRINUSE' });
    await assert.rejects(startTestService({ config: { port } }), { code: 'EADDRINUSE' });
    assert.equal(listenersOf(port), 8);
  });
});
