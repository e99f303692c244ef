/** A process that dies at any moment of a shadow's life leaves the table at a whole version (P1, P3). */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { stagingFolder } from '#src/lance-format/manifest/manifest-files.ts';
import { rowsOf } from '#test/fixtures/arrow-files.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { engineIn } from '#test/fixtures/engine-in.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { changeInShadow, firstRows, location, rowsAt } from './shadow-rounds.ts';

const kills = Number(process.env.LANCEGATE_TEST_KILLS ?? 5);
/** After the commit before; a change takes some milliseconds. */
const mostUs = 27_500;

const program = join(import.meta.dirname, 'shadow-writer.ts');

/** Lets the writer commit some versions, kills it a moment after one, and returns the last that it said. */
async function lastOfKilled(writer: ChildProcess, commits: number, afterUs: number): Promise<number> {
  let last = 0;
  let left = commits;
  for await (const line of createInterface({ input: writer.stdout! })) {
    last = Number(line);
    left -= 1;
    if (left > 0) continue;
    const end = process.hrtime.bigint() + BigInt(afterUs) * 1_000n;
    while (process.hrtime.bigint() < end); // timers are too coarse for a commit of milliseconds
    writer.kill('SIGKILL');
  }
  return last;
}

test('a writer that is killed in the middle leaves what it has acknowledged, and at most the next version', async (t) => {
  const folder = temporaryFolder((clean) => t.after(clean));
  (await createDataset(engineIn(folder), location, firstRows(), {})).close();
  for (let kill = 0; kill < kills; kill += 1) {
    const writer = spawn(process.execPath, [program, folder], { stdio: ['ignore', 'pipe', 'inherit'] });
    const ended = once(writer, 'exit');
    const acknowledgedVersion = await lastOfKilled(writer, 3, Math.round((kill * mostUs) / kills));
    await ended;
    const engine = engineIn(folder);
    const { storageSession } = engine;
    const recovery = await engine.recover({ location, branch: undefined, acknowledgedVersion, storageSession });
    assert.equal(recovery.damage, undefined);
    assert.equal(existsSync(stagingFolder(join(folder, location))), false);
    const dataset = await engine.open({ location });
    const version = await dataset.version();
    assert.ok(version === acknowledgedVersion || version === acknowledgedVersion + 1, `${version}`);
    const columns = ['id', 'text'].map((name) => ({ name, expression: name }));
    const files = await Array.fromAsync(dataset.select(columns, undefined));
    const rows = files.flatMap((file) => rowsOf(file)).map(({ id, text }) => [id, text] as [number, string]);
    assert.deepEqual(
      rows.sort(([a], [b]) => a - b),
      rowsAt(version),
    );
    assert.equal(await changeInShadow(dataset), version + 1);
    await engine.close();
  }
});
