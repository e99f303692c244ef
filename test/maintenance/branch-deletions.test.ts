import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Dataset } from '#src/engine/port/dataset.ts';
import type { BranchName } from '#src/kernel/ids.ts';
import { replacing } from '#test/fixtures/replacing.ts';
import { watchedTable } from './watched-table.ts';

const gone = {
  name: 'gone' as BranchName,
  parentBranch: undefined,
  parentVersion: 1,
  createdAtSeconds: 0,
  manifestBytes: 0,
};

test('maintenance by hand leaves out a branch that is deleted while it looks after the others', async (t) => {
  const replaced = ({ branches }: Dataset) => ({
    branches: replacing(branches, { list: async () => [gone, ...(await branches.list())] }),
  });
  const { scheduler, target, dataset, commit } = await watchedTable(t, {
    ids: [0],
    indexFromRows: 1_000_000,
    replaced,
  });
  t.after(() => scheduler.close());
  await dataset.branches.create('stays' as BranchName, { branch: undefined, version: undefined });
  await commit();
  const reports = await scheduler.maintainByHand(target);
  assert.deepEqual(
    reports.map(({ branch }) => branch),
    [undefined, 'stays'],
  );
});
