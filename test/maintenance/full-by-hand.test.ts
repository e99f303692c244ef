/** Maintenance by hand that finds a full disk: nothing was written only where no step before has done anything (P6). */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Dataset } from '#src/engine/port/dataset.ts';
import { storageFull } from '#src/kernel/errors.ts';
import type { BranchName } from '#src/kernel/ids.ts';
import { createIndex } from '#test/fixtures/create-index.ts';
import { watchedTable } from './watched-table.ts';

const full = () => Promise.reject(storageFull(new Error('ENOSPC'), {}));

async function maintained(t: TestContext, replaced: (opened: Dataset) => Partial<Dataset>) {
  const watched = await watchedTable(t, { ids: [0], indexFromRows: 1_000_000, replaced });
  t.after(() => watched.scheduler.close());
  await watched.commit();
  await watched.commit();
  return { ...watched, run: () => watched.scheduler.maintainByHand(watched.target) };
}

const pruned = (removedVersions: number) => async () => ({ removedVersions, removedBytes: 1, isHeldByTag: false });

test('a compaction without space says that nothing was written', async (t) => {
  const { run } = await maintained(t, () => ({ prepareCompaction: full, prune: pruned(0) }));
  await assert.rejects(run(), { kind: 'StorageFull' });
});

test('a compaction without space says no such thing once old versions are gone', async (t) => {
  const { run } = await maintained(t, () => ({ prepareCompaction: full, prune: pruned(2) }));
  await assert.rejects(run(), { kind: 'Internal' });
});

test('an index without space says no such thing once rows are compacted', async (t) => {
  const { dataset, commit, run } = await maintained(t, () => ({ prepareIndex: full, prune: pruned(0) }));
  await createIndex(dataset, 'id');
  await commit();
  await assert.rejects(run(), { kind: 'Internal' });
});

test('a branch without space says no such thing once another one is compacted', async (t) => {
  let prunings = 0;
  const { dataset, run } = await maintained(t, () => ({ prune: () => (++prunings > 1 ? full() : pruned(0)()) }));
  await dataset.branches.create('other' as BranchName, { branch: undefined, version: undefined });
  await assert.rejects(run(), { kind: 'Internal' });
});
