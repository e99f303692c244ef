/** What pruning keeps although it is old: states that a later commit took something away from. */
import assert from 'node:assert/strict';
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import { tableFromArrays } from 'apache-arrow';
import { type PrunedBranch, pruneVersions } from '#src/engine/lance/durability/prune-versions.ts';
import { VersionsInRemoval } from '#src/engine/lance/durability/versions-in-removal.ts';
import type { Dataset } from '#src/engine/port/dataset.ts';
import type { HistoryRequest } from '#src/engine/port/upkeep.ts';
import { ownSql } from '#src/kernel/checked-sql.ts';
import type { HistoryRules } from '#src/kernel/history.ts';
import type { Location } from '#src/kernel/ids.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { engineIn } from '#test/fixtures/engine-in.ts';
import { mergeInto } from '#test/fixtures/engine-writes.ts';
import { prunedBranch } from '#test/fixtures/pruned-branch.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { upsertOn } from '#test/fixtures/upsert.ts';

const location = 't.lance' as Location;
const dayMs = 86_400_000;
const rules: HistoryRules = [
  { forMs: 60_000, everyMs: 0 },
  { forMs: 7 * dayMs, everyMs: 7 * dayMs },
];
const rows = (from: number, count: number) =>
  ipcFile(
    tableFromArrays({ id: Int32Array.from({ length: count }, (_, i) => from + i), name: Array(count).fill('a') }),
  );

/** After so many days, by rules that keep nothing of upserts within the week of the test. */
const afterDays = (days: number, mostBytes = (own: number): number => own) => {
  const nowMs = Date.now() + days * dayMs;
  return { supersededBeforeMs: nowMs - 60_000, history: { rules, nowMs, mostBytes } satisfies HistoryRequest };
};

async function table(t: TestContext): Promise<{ folder: string; dataset: Dataset }> {
  const folder = temporaryFolder((clean) => t.after(clean));
  const dataset = await createDataset(engineIn(folder), location, rows(0, 100), {});
  t.after(() => dataset.close());
  return { folder, dataset };
}

/** Every version that is listed, read by another program to the last row. */
async function countsOf(folder: string): Promise<Readonly<Record<number, number>>> {
  const table = await (await connect(folder)).openTable('t');
  const counts: Record<number, number> = {};
  for (const { version } of await table.listVersions()) {
    await table.checkout(version);
    counts[version] = (await table.query().toArray()).length;
  }
  return counts;
}

const prune = async (dataset: Dataset, request: ReturnType<typeof afterDays>) =>
  dataset.prune({ ...request, keptFromVersion: await dataset.version() });

async function compact(dataset: Dataset): Promise<void> {
  const { fragments } = await dataset.layout();
  await (await dataset.prepareCompaction(fragments.flatMap(({ id }) => id ?? [])))?.commit();
  await dataset.refresh();
}

/** Each takes something away, by a commit of another program: its transaction alone says so. */
const takings = {
  'a delete': async (folder: string) => (await (await connect(folder)).openTable('t')).delete('id >= 0'),
  'an overwrite': async (folder: string) =>
    (await (await connect(folder)).openTable('t')).add([{ id: 1, name: 'b' }], { mode: 'overwrite' }),
  'a drop of a column': async (folder: string) => (await (await connect(folder)).openTable('t')).dropColumns(['name']),
  'a merge that deletes by source': async (folder: string) =>
    (await (await connect(folder)).openTable('t'))
      .mergeInsert('id')
      .whenNotMatchedBySourceDelete()
      .execute([{ id: 1, name: 'b' }]),
  'a restore': async (folder: string) => {
    const table = await (await connect(folder)).openTable('t');
    await table.checkout(1);
    await table.restore();
  },
} as const;

describe('the state before a commit that takes away (P13)', () => {
  for (const [what, take] of Object.entries(takings)) {
    test(`stays for a week before ${what} of another program, with all files, by a process that knew nothing of it`, async (t) => {
      const { folder, dataset } = await table(t);
      for (let i = 0; i < 4; i += 1) await mergeInto(dataset, upsertOn('id'), rows(90 + 10 * i, 20));
      const before = await dataset.version();
      const wanted = (await countsOf(folder))[before];
      await take(folder);
      await dataset.refresh();
      for (let i = 0; i < 4; i += 1) await (await (await connect(folder)).openTable('t')).add([{ id: 1_000 + i }]);
      await dataset.refresh();
      await compact(dataset);
      const newest = await dataset.version();
      for (const days of [0.01, 1, 6]) {
        const opened = await engineIn(folder).open({ location, branch: undefined });
        await prune(opened, afterDays(days));
        opened.close();
        const counts = await countsOf(folder);
        assert.deepEqual(Object.keys(counts).map(Number), [before, before + 1, newest], `after ${days} days`);
        assert.equal(counts[before], wanted);
      }
      await prune(dataset, afterDays(8));
      assert.deepEqual(Object.keys(await countsOf(folder)).map(Number), [newest]);
    });
  }

  test('does not stay before rows that went because their time had come', async (t) => {
    const { folder, dataset } = await table(t);
    for (const takesAway of [undefined, false]) {
      const shadow = await dataset.shadow();
      await shadow.deleteWhere(ownSql(`id < ${takesAway === undefined ? 10 : 20}`));
      await shadow.commit(undefined, undefined, takesAway);
      await dataset.refresh();
    }
    await mergeInto(dataset, upsertOn('id'), rows(200, 2));
    await mergeInto(dataset, upsertOn('id'), rows(200, 2));
    await prune(dataset, afterDays(1));
    assert.deepEqual(Object.keys(await countsOf(folder)).map(Number), [1, 2, 5]);
  });

  test('goes at once, the oldest first, where there is no room for it, and the answer says how far back undo reaches', async (t) => {
    const { folder, dataset } = await table(t);
    for (let i = 0; i < 3; i += 1) {
      await (await (await connect(folder)).openTable('t')).delete(`id < ${10 * (i + 1)}`);
      await dataset.refresh();
      await mergeInto(dataset, upsertOn('id'), rows(200 + 2_000 * i, 2_000));
      await compact(dataset);
    }
    const { history: all } = await prune(dataset, afterDays(1));
    assert.deepEqual([all?.versions, all?.cutToMs], [6, undefined]);
    assert.ok((all?.bytes ?? 0) > 3 * 4_096);
    const { history } = await prune(
      dataset,
      afterDays(1, (own) => own - 1),
    );
    const left = Object.keys(await countsOf(folder)).map(Number);
    assert.ok(left.length < 7 && !left.includes(1), `${left}`);
    assert.equal(history?.versions, left.length - 1);
    assert.ok((history?.cutToMs ?? 0) > Date.now() - 600_000);
    await prune(
      dataset,
      afterDays(1, () => 0),
    );
    assert.equal(Object.keys(await countsOf(folder)).length, 1);
  });

  test('a version that is restored while a removal looks stays whole', async (t) => {
    const { folder, dataset } = await table(t);
    for (let i = 0; i < 4; i += 1) await mergeInto(dataset, upsertOn('id'), rows(90 + 10 * i, 20));
    await compact(dataset);
    const datasetPath = join(folder, location);
    const branch = prunedBranch(datasetPath);
    let isRestored = false;
    const { list } = branch.store;
    Object.assign(branch.store, {
      async *list(request: Parameters<typeof list>[0]) {
        yield* list.call(branch.store, request);
        if (isRestored) return;
        isRestored = true;
        await takings['a restore'](folder);
      },
    });
    const of = { tagged: new Set<number>(), parents: new Set<number>(), inRemoval: new VersionsInRemoval() };
    await pruneVersions(branch, { ...of, supersededBeforeMs: Date.now() + dayMs, keptFromVersion: Infinity });
    const counts = await countsOf(folder);
    assert.equal(Object.values(counts).at(-1), 100, JSON.stringify(counts));
  });
});

describe('what a removal reads (P8)', () => {
  /** Counts the manifests that are read. */
  function countingBranch(datasetPath: string): { readonly branch: PrunedBranch; readonly asked: string[] } {
    const branch = prunedBranch(datasetPath);
    const asked: string[] = [];
    const { get } = branch.store;
    Object.assign(branch.store, {
      get: (key: string) => {
        if (key.startsWith('_versions/')) asked.push(key);
        return get.call(branch.store, key);
      },
    });
    return { branch, asked };
  }

  test('is what was committed since the last one, however much history is kept', async (t) => {
    const { folder, dataset } = await table(t);
    const { branch, asked } = countingBranch(join(folder, location));
    const of = { tagged: new Set<number>(), parents: new Set<number>(), inRemoval: new VersionsInRemoval() };
    const table_ = await (await connect(folder)).openTable('t');
    const numbers: number[] = [];
    for (let i = 0; i < 6; i += 1) {
      for (let j = 0; j < 5; j += 1) await table_.delete(`id = ${5 * i + j}`);
      await table_.add([{ id: 500 }]);
      await dataset.refresh();
      const { history } = await pruneVersions(branch, { ...of, ...afterDays(1), keptFromVersion: Infinity });
      assert.equal(history?.versions, 5 * (i + 1) + 1 + i);
      numbers.push(asked.splice(0).length);
    }
    assert.deepEqual(numbers, [7, 6, 6, 6, 6, 6]);
  });

  test('is everything again once another table is in the place of the one that was known', async (t) => {
    const { folder, dataset } = await table(t);
    const other = await table(t);
    for (const each of [{ folder, dataset }, other])
      for (let i = 0; i < 4; i += 1) await mergeInto(each.dataset, upsertOn('id'), rows(90 + 10 * i, 20));
    const { branch, asked } = countingBranch(join(folder, location));
    const of = { tagged: new Set<number>(), parents: new Set<number>(), inRemoval: new VersionsInRemoval() };
    await pruneVersions(branch, { ...of, ...afterDays(1), keptFromVersion: 2 });
    assert.equal(asked.splice(0).length, 5);
    cpSync(join(other.folder, location), join(folder, location), { recursive: true });
    await pruneVersions(branch, { ...of, ...afterDays(1), keptFromVersion: Infinity });
    assert.equal(asked.length, 5);
    assert.deepEqual(Object.values(await countsOf(folder)), [140]);
  });
});
