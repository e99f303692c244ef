import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { test } from 'node:test';
import { lastFirst } from '#test/fixtures/after-suite.ts';
import { Namespace, withoutNamespaces } from './nemesis/namespace.ts';

/** Says "connected", or what went wrong. */
const program = `
  const socket = require('node:net').connect(Number(process.argv[2]), process.argv[1]);
  socket.on('connect', () => console.log('connected')).on('error', ({ code }) => console.log(code));
  process.stdin.on('end', () => socket.destroy()).resume();
`;

async function listening(host: string): Promise<Server> {
  const server = createServer((socket) => socket.on('error', () => undefined)).listen(0, host);
  await once(server, 'listening');
  return server;
}

test('while packets to a namespace are lost nothing connects, and nobody is told', {
  skip: withoutNamespaces ?? false,
}, async (t) => {
  const after = lastFirst((clean) => t.after(clean));
  const namespace = Namespace.open(after, 0);
  const [store, catalog] = [await listening(namespace.hostOf('store')), await listening(namespace.hostOf('catalog'))];
  after(() => void [store, catalog].map((server) => server.close()));
  const connect = ({ address, port }: AddressInfo): ChildProcess => {
    const args = ['netns', 'exec', namespace.name, process.execPath, '-e', program, address, String(port)];
    const child = spawn('ip', args, { stdio: ['pipe', 'pipe', 'inherit'] });
    after(() => void child.kill());
    return child;
  };
  const said = async (child: ChildProcess): Promise<string> => String((await once(child.stdout!, 'data'))[0]).trim();
  namespace.setLosing('store', true);
  const toStore = connect(store.address() as AddressInfo);
  const answer = said(toStore);
  assert.equal(await said(connect(catalog.address() as AddressInfo)), 'connected');
  assert.equal(await Promise.race([answer, said(connect(catalog.address() as AddressInfo))]), 'connected');
  assert.equal(await new Promise((resolve) => store.getConnections((_, count) => resolve(count))), 0);
  namespace.setLosing('store', false);
  assert.equal(await answer, 'connected');
});
