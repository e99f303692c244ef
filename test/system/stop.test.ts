/** Black box: the service ends in order, however it was started and whatever is connected. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { listeningUrl, serviceOfTest, textOf } from '#test/fixtures/service-process.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

const packageFolder = join(import.meta.dirname, '../..');

for (const [how, signal] of [
  ['a SIGTERM to npm alone, as a container sends it', 'SIGTERM'],
  ['a Ctrl-C, which both npm and the service get', 'SIGINT'],
] as const) {
  test(`npm start is stopped in order by ${how}`, async (t) => {
    const data = temporaryFolder((clean) => t.after(clean));
    const { npm_lifecycle_event: _, ...env } = process.env;
    const args = ['start', '--', '--port', '0', '--data', data, '--log-format', 'json'];
    const npm = spawn('npm', args, { cwd: packageFolder, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    const group = -npm.pid!;
    t.after(() => {
      try {
        process.kill(group, 'SIGKILL');
      } catch {
        // compensated: nothing of it is left, as it should be
      }
    });
    const log = textOf(npm.stderr);
    assert.notEqual(await listeningUrl(npm), undefined);
    process.kill(signal === 'SIGTERM' ? npm.pid! : group, signal);
    await once(npm, 'close');
    assert.match(await log, /"message":"stopped"/);
    assert.throws(() => process.kill(group, 0), { code: 'ESRCH' }, 'nothing is left running');
  });
}

test('a stop does not wait for connections that never sent a byte, or half of a request', async (t) => {
  const service = await serviceOfTest((clean) => t.after(clean), '--drain-timeout=1m');
  const { port, hostname } = new URL(service.url);
  for (const text of [
    '',
    'GET /healthz HT',
    'POST /v1/table/t/create HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n',
  ]) {
    const socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true });
    socket.on('error', () => undefined);
    t.after(() => socket.destroy());
    await once(socket, 'connect');
    if (text !== '') socket.write(text);
  }
  await service.metric('lancegate_connections');
  const startMs = performance.now();
  assert.equal(await service.stop(), 0);
  assert.ok(performance.now() - startMs < 30_000, 'nowhere near the minute that it has');
});
