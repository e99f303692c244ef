/** The engine ends the process that begins a session where no temporary folder can be made. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { newSession } from '#src/engine/lance/native/native.ts';
import { listeningUrl, serveArguments } from '#test/fixtures/service-process.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

/** No user can make a folder in it. */
const unusable = '/dev/null';

test('a session that could have no temporary folder is refused, and the process lives', (t) => {
  const { TMPDIR } = process.env;
  t.after(() => {
    if (TMPDIR === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = TMPDIR;
  });
  process.env.TMPDIR = unusable;
  assert.throws(() => newSession(0, 0), { kind: 'StorageUnavailable', message: /no temporary folder can be made/ });
});

test('a service starts where no temporary folder can be made, to make room there', async (t) => {
  const data = temporaryFolder((clean) => t.after(clean));
  const env = { ...process.env, TMPDIR: unusable };
  const child = spawn(process.execPath, serveArguments(data, 'error'), { env, stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(() => child.kill('SIGKILL'));
  const exited = once(child, 'exit');
  await listeningUrl(child);
  child.kill('SIGTERM');
  assert.deepEqual(await exited, [0, null]);
});
