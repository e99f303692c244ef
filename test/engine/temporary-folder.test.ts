/** The engine ends the process that begins a session where no temporary folder can be made. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type TestContext, test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import { type NativeTable, newSession } from '#src/engine/lance/native/native.ts';
import { buildNativeIndex } from '#src/engine/lance/native/native-index.ts';
import type { IndexSpec } from '#src/engine/port/index-spec.ts';
import { listeningUrl, serveArguments } from '#test/fixtures/service-process.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

/** No user can make a folder in it. */
const unusable = '/dev/null';

const refusal = { kind: 'StorageUnavailable', message: /no temporary folder can be made/ };

function loseTemporaryFolder(t: TestContext): void {
  const { TMPDIR } = process.env;
  t.after(() => {
    if (TMPDIR === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = TMPDIR;
  });
  process.env.TMPDIR = unusable;
}

test('a session that could have no temporary folder is refused, and the process lives', (t) => {
  loseTemporaryFolder(t);
  assert.throws(() => newSession(0, 0), refusal);
});

test('an index that could have no temporary folder is refused with that, not with a fault of its rows (P8)', async (t) => {
  const connection = await connect(temporaryFolder((clean) => t.after(clean)));
  const rows = Array.from({ length: 300 }, (_, at) => ({ id: at, vector: [at, 1, 2, 3] }));
  const { inner } = (await connection.createTable('t', rows)) as unknown as { inner: NativeTable };
  loseTemporaryFolder(t);
  const vector = { distance: 'l2', numPartitions: 2 } as const;
  const spec: IndexSpec = { name: 'i', column: 'vector', options: { type: 'IVF_FLAT', vector } };
  await assert.rejects(buildNativeIndex(inner, spec), refusal);
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
