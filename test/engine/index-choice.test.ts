import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import {
  Field,
  FixedSizeList,
  Float32,
  Int32,
  makeData,
  makeVector,
  Struct,
  Table,
  type Vector,
  vectorFromArray,
} from 'apache-arrow';
import { IndexChoice } from '#src/engine/lance/adapter/index-choice.ts';
import { LanceEngine } from '#src/engine/lance/adapter/lance-engine.ts';
import type { MergeSpec } from '#src/engine/port/merge-spec.ts';
import type { Location } from '#src/kernel/ids.ts';
import { readManifest } from '#src/lance-format/manifest/manifest-files.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { createIndex, dropIndex } from '#test/fixtures/create-index.ts';
import { appendTo, mergeInto } from '#test/fixtures/engine-writes.ts';
import { hideIndex } from '#test/fixtures/hide-index.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { upsertOn } from '#test/fixtures/upsert.ts';

const MiB = 2 ** 20;
const location = 't.lance' as Location;
const upsert = upsertOn('id');

/** A column inside another has the name of the key, too. */
const inner = (length: number): Vector =>
  makeVector(
    makeData({
      type: new Struct([new Field('id', new Int32(), true)]),
      length,
      children: [vectorFromArray(new Int32Array(length)).data[0]],
    } as never),
  );

function vectors(length: number, floats: number): Vector {
  const values = vectorFromArray(new Float32Array(length * floats)).data[0];
  const type = new FixedSizeList(floats, new Field('item', new Float32(), true));
  return makeVector(makeData({ type, length, child: values } as never));
}

/** Keys `from` to `from + count`, and a vector each. */
const rows = (from: number, count: number, floats: number) =>
  ipcFile(
    new Table({
      id: vectorFromArray(new Int32Array(count).map((_, i) => from + i)),
      vector: vectors(count, floats),
      meta: inner(count),
    }),
  );

/** 20,000 rows with keys from 0 on, all in the index. */
async function indexedTable(t: TestContext, { floats }: { readonly floats: number }) {
  const folder = temporaryFolder((clean) => t.after(clean));
  const engine = new LanceEngine({
    root: folder,
    rootOptions: {},
    scratchFolder: join(folder, 'scratch'),
    indexCacheBytes: MiB,
    metadataCacheBytes: MiB,
  });
  const dataset = await createDataset(engine, location, rows(0, 20_000, floats), {});
  t.after(() => dataset.close());
  await createIndex(dataset, 'id');
  const tableFolder = join(folder, location);
  const versionsFolder = join(tableFolder, '_versions');
  const newChoice = () => new IndexChoice(versionsFolder);
  const usesIndex = async (spec: MergeSpec, sourceBytes: number) =>
    newChoice().usesIndex(spec, await dataset.version(), sourceBytes);
  return { dataset, newChoice, usesIndex, versionsFolder, hideIndex: () => hideIndex(tableFolder) };
}

/** The largest source that is looked up in the index. */
function turningPoint(choice: IndexChoice, version: number): number {
  let low = 0;
  let high = 100 * MiB;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (choice.usesIndex(upsert, version, middle)) low = middle;
    else high = middle;
  }
  return low;
}

describe('a merge into a table with an index (P8)', () => {
  test('looks up few keys in it', async (t) => {
    const { dataset, hideIndex } = await indexedTable(t, { floats: 64 });
    hideIndex();
    await assert.rejects(mergeInto(dataset, upsert, rows(19_990, 20, 64)));
  });

  test('does without it where its rows are many and wide, with the same counts', async (t) => {
    const { dataset, hideIndex } = await indexedTable(t, { floats: 64 });
    hideIndex();
    const counts = await mergeInto(dataset, upsert, rows(18_000, 4_000, 64));
    assert.deepEqual([counts.numUpdatedRows, counts.numInsertedRows], [2_000, 2_000]);
  });

  test('looks up as many keys of narrow rows', async (t) => {
    const { dataset, hideIndex } = await indexedTable(t, { floats: 1 });
    hideIndex();
    await assert.rejects(mergeInto(dataset, upsert, rows(18_000, 4_000, 1)));
  });

  test('does without it for few keys too while many wide rows are not in it', async (t) => {
    const { dataset, usesIndex } = await indexedTable(t, { floats: 256 });
    assert.equal(await usesIndex(upsert, 1_000), true);
    await appendTo(dataset, rows(20_000, 5_000, 256));
    assert.equal(await usesIndex(upsert, 1_000), false);
    await createIndex(dataset, 'id');
    assert.equal(await usesIndex(upsert, 1_000), true);
  });

  test('does without it while very many small fragments are not in it', async (t) => {
    const { dataset, newChoice, usesIndex } = await indexedTable(t, { floats: 1 });
    assert.equal(await usesIndex(upsert, 1_000), true);
    for (let id = 20_000; id < 20_100; id += 1) await appendTo(dataset, rows(id, 1, 1));
    assert.equal(newChoice().usesIndex(upsert, await dataset.version(), 1_000), false);
  });

  test('leaves the choice to requests that have made it, and to the engine where the index is of no use', async (t) => {
    const { dataset, versionsFolder, usesIndex } = await indexedTable(t, { floats: 64 });
    const large = 100 * MiB;
    assert.equal(await usesIndex(upsert, large), false);
    assert.equal(await usesIndex({ ...upsert, useIndex: false }, 0), false);
    assert.equal(await usesIndex({ ...upsert, whenNotMatchedBySourceDelete: true }, large), true);
    assert.equal(await usesIndex(upsertOn('id', 'vector'), large), true);
    assert.equal(await usesIndex(upsertOn('vector'), large), true);
    await dropIndex(join(versionsFolder, '../..'), dataset, 'id');
    assert.equal(await usesIndex(upsert, large), true);
  });

  test('leaves the choice to the engine where the manifest cannot be read', async (t) => {
    const { dataset, usesIndex, versionsFolder } = await indexedTable(t, { floats: 64 });
    const large = 100 * MiB;
    assert.equal(await usesIndex(upsert, large), false);
    const path = readManifest(versionsFolder, await dataset.version())?.path as string;
    writeFileSync(path, 'torn');
    assert.equal(await usesIndex(upsert, large), true);
    rmSync(path);
    assert.equal(await usesIndex(upsert, large), true);
  });

  test('is not led astray by a commit that it did not make', async (t) => {
    const { dataset, newChoice } = await indexedTable(t, { floats: 64 });
    const choice = newChoice();
    turningPoint(choice, await dataset.version());
    await appendTo(dataset, rows(20_000, 2_000, 64));
    const { version } = await mergeInto(dataset, upsert, rows(0, 100, 64));
    assert.equal(turningPoint(choice, version), turningPoint(newChoice(), version));
  });
});
