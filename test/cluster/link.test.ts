import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { breakOff } from '#test/fixtures/break-off.ts';
import { Link } from './nemesis/link.ts';

/** What arrived at a server that answers each byte with the same in capitals, and a way to it. */
async function echo(t: TestContext) {
  let arrived = '';
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('data', (data) => {
      arrived += String(data);
      socket.write(String(data).toUpperCase());
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const link = await Link.open(
    (clean) => t.after(clean),
    () => ({ port: (server.address() as AddressInfo).port }),
  );
  const client = connect(link.port, '127.0.0.1');
  t.after(() => client.destroy());
  const ended = once(client, 'close').catch((error: Error) => error);
  client.write('a');
  assert.equal(String(await once(client, 'data')), 'A');
  return { link, client, ended, arrived: () => arrived };
}

test('a link that is cut ends its connections, and new ones at once, until it is open again', async (t) => {
  const { link, ended } = await echo(t);
  link.state = 'cut';
  await ended;
  const refused = connect(link.port, '127.0.0.1');
  await once(refused, 'close').catch(() => undefined);
  link.state = 'open';
  const next = connect(link.port, '127.0.0.1');
  next.write('b');
  assert.equal(String(await once(next, 'data')), 'B');
  next.destroy();
});

test('a stalled link delivers what was sent when it is open again', async (t) => {
  const { link, client, arrived } = await echo(t);
  link.state = 'stalled';
  client.write('b');
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(arrived(), 'a');
  link.state = 'open';
  assert.equal(String(await once(client, 'data')), 'B');
});

test('over a deaf link requests arrive and answers do not, and it ends with the connection', async (t) => {
  const { link, client, ended, arrived } = await echo(t);
  link.state = 'deaf';
  let answered = '';
  client.on('data', (data) => {
    answered += String(data);
  });
  client.write('b');
  while (arrived() !== 'ab') await new Promise((resolve) => setImmediate(resolve));
  link.state = 'open';
  await ended;
  assert.equal(answered, '');
});

test('a link holds a text, once, and what follows it', async (t) => {
  const { link, client, arrived } = await echo(t);
  const hold = link.hold('bc');
  client.write('abcd');
  await hold.reached;
  client.write('e');
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(arrived(), 'a');
  hold.release();
  while (arrived() !== 'aabcde') await new Promise((resolve) => setImmediate(resolve));
  client.write('bc');
  while (arrived() !== 'aabcdebc') await new Promise((resolve) => setImmediate(resolve));
});

test('a connection whose end is on its way breaks off without a leftover', async (t) => {
  const { client } = await echo(t);
  const closed = once(client, 'close');
  client.end();
  await new Promise<void>((resolve) => process.nextTick(process.nextTick, resolve)); // the end has been asked for, and not sent
  breakOff(client);
  await closed;
});
