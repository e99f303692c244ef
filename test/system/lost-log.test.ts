/** The service goes on where its log cannot be written. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { type TestContext, test } from 'node:test';
import { listeningUrl, serveArguments } from '#test/fixtures/service-process.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

/** Answers as many requests as a log line each, then ends in order. */
async function answersAndStops(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit');
  const url = await listeningUrl(child);
  child.stderr?.destroy();
  for (let request = 0; request < 5; request++) {
    assert.equal((await fetch(`${url}/healthz`, { headers: { connection: 'close' } })).status, 200);
  }
  child.kill('SIGTERM');
  assert.deepEqual(await exited, [0, null]);
}

function spawnWith(t: TestContext, stderr: number | 'pipe'): ChildProcess {
  const data = temporaryFolder((clean) => t.after(clean));
  const child = spawn(process.execPath, serveArguments(data, 'info'), { stdio: ['ignore', 'pipe', stderr] });
  t.after(() => child.kill('SIGKILL'));
  return child;
}

test('when the log is no longer read, requests are answered as before', async (t) => {
  await answersAndStops(spawnWith(t, 'pipe'));
});

test('when the disk of the log is full, requests are answered as before', async (t) => {
  const full = openSync('/dev/full', 'w');
  t.after(() => closeSync(full));
  await answersAndStops(spawnWith(t, full));
});
