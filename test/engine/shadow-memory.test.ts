/** The versions of a shadow lie in memory where there is a folder for them; nothing depends on it. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chownSync, mkdirSync, readdirSync, rmSync, statfsSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { Int32, Table, Utf8, vectorFromArray } from 'apache-arrow';
import { LanceEngine } from '#src/engine/lance/adapter/lance-engine.ts';
import type { Dataset } from '#src/engine/port/dataset.ts';
import type { MergeSpec } from '#src/engine/port/merge-spec.ts';
import type { Location } from '#src/kernel/ids.ts';
import { stagingFolder } from '#src/lance-format/manifest/manifest-files.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { mergeInto } from '#test/fixtures/engine-writes.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

const upsert: MergeSpec = {
  on: ['id'],
  whenMatchedUpdateAll: true,
  whenNotMatchedInsertAll: true,
  whenNotMatchedBySourceDelete: false,
  useIndex: true,
};

const keyed = (ids: readonly number[], text: string) =>
  ipcFile(
    new Table({
      id: vectorFromArray(ids, new Int32()),
      text: vectorFromArray(
        ids.map(() => text),
        new Utf8(),
      ),
    }),
  );

async function stageOf(t: TestContext) {
  const folder = temporaryFolder((clean) => t.after(clean));
  const memoryFolder = join(folder, 'memory');
  const engine = new LanceEngine({
    root: join(folder, 'tables'),
    rootOptions: {},
    scratchFolder: join(folder, 'scratch'),
    indexCacheBytes: 1 << 24,
    metadataCacheBytes: 1 << 24,
    memoryFolder,
  });
  const dataset = await createDataset(engine, 't.lance' as Location, keyed([1, 2, 3], 'first'), {});
  return { engine, dataset, memoryFolder, staging: stagingFolder(join(folder, 'tables', 't.lance')) };
}

async function mergeOne(dataset: Dataset, id: number): Promise<void> {
  const shadow = await dataset.shadow();
  await mergeInto(shadow, upsert, keyed([1, id], `with ${id}`));
  assert.notEqual(await shadow.commit(), 'overtaken');
  await setImmediate(); // the next shadow is made
}

/** Has room for the versions of one shadow, and little more. */
function isMounted(folder: string): boolean {
  mkdirSync(folder, { mode: 0o700 });
  return spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=20m,mode=700', 'tmpfs', folder]).status === 0;
}

function fill(folder: string): void {
  const { bavail, bsize } = statfsSync(folder);
  writeFileSync(join(folder, 'of another program'), Buffer.alloc(bavail * bsize));
}

const versionsIn = (memoryFolder: string) => readdirSync(memoryFolder).filter((name) => name.endsWith('.versions'));

describe('the versions of a shadow in memory', () => {
  test('are of one folder from merge to merge, and gone once the engine is closed, with the shadow', async (t) => {
    const { engine, dataset, memoryFolder, staging } = await stageOf(t);
    await mergeOne(dataset, 10);
    const [first] = versionsIn(memoryFolder);
    await mergeOne(dataset, 11);
    assert.deepEqual(versionsIn(memoryFolder), [first]);
    assert.equal(await dataset.countRows(), 5);
    assert.equal(readdirSync(staging).length, 1);
    await engine.close();
    assert.deepEqual([...versionsIn(memoryFolder), ...readdirSync(staging)], []);
  });

  test('may vanish between two merges', async (t) => {
    const { dataset, memoryFolder } = await stageOf(t);
    for (const id of [10, 11, 12]) {
      await mergeOne(dataset, id);
      rmSync(memoryFolder, { recursive: true });
    }
    assert.equal(await dataset.countRows(), 6);
  });

  test('are not in memory while it is full, and no merge fails of that', async (t) => {
    const { dataset, memoryFolder } = await stageOf(t);
    if (!isMounted(memoryFolder)) return t.skip('only root can mount a small file system in memory');
    try {
      await mergeOne(dataset, 10);
      assert.equal(versionsIn(memoryFolder).length, 1);
      fill(memoryFolder);
      for (const id of [11, 12]) await mergeOne(dataset, id);
      assert.equal(await dataset.countRows(), 6);
    } finally {
      spawnSync('umount', ['--lazy', memoryFolder]);
    }
  });

  test('are not in a folder of their name that another user made', async (t) => {
    const { dataset, memoryFolder } = await stageOf(t);
    const others = temporaryFolder((clean) => t.after(clean));
    rmSync(memoryFolder, { recursive: true, force: true });
    symlinkSync(others, memoryFolder);
    await mergeOne(dataset, 10);
    assert.deepEqual(readdirSync(others), []);
    if (process.getuid?.() !== 0) return; // only root can make a folder of another user
    for (const [owner, there] of [
      [0, 1],
      [1_234, 0],
    ] as const) {
      const stage = await stageOf(t);
      mkdirSync(stage.memoryFolder);
      chownSync(stage.memoryFolder, owner, owner);
      await mergeOne(stage.dataset, 10);
      assert.equal(versionsIn(stage.memoryFolder).length, there, `${owner}`);
    }
  });

  test('lie beside the table where there can be no such folder', async (t) => {
    const { dataset, memoryFolder } = await stageOf(t);
    writeFileSync(memoryFolder, 'in the way');
    for (const id of [10, 11]) await mergeOne(dataset, id);
    assert.equal(await dataset.countRows(), 5);
  });
});
