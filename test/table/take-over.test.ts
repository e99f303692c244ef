/** A replica takes over a table from one that may still run. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { Int32, Table, vectorFromArray } from 'apache-arrow';
import { LancegateError } from '#src/kernel/errors.ts';
import type { BranchName } from '#src/kernel/ids.ts';
import { deleteBranch } from '#src/operations/branches/delete-branch.ts';
import { takeOverBranches } from '#src/operations/recovery.ts';
import { OpenDatasets } from '#src/table/open-datasets.ts';
import { RecoveryMarks } from '#src/table/recovery-marks.ts';
import { TableAccess } from '#src/table/table-access.ts';
import { TableLocks } from '#src/table/table-locks.ts';
import { createLogger } from '#src/telemetry/logger.ts';
import { publishTable } from '#test/fixtures/published-table.ts';
import { replacing } from '#test/fixtures/replacing.ts';

test('a branch that cannot be examined now is not taken over without a fence (P6)', async (t) => {
  const { ref, tableId, catalog, engine, dataset } = await publishTable(
    t,
    new Table({ id: vectorFromArray([1], new Int32()) }),
  );
  const mark = { tableId, branch: undefined, acknowledgedVersion: 1, storageSession: engine.storageSession };
  await catalog.markOpenForWriting(mark);
  const logger = createLogger({ level: 'error', format: 'json', destination: { write: () => undefined } });
  const deps = { catalog, logger, newId: randomUUID };
  const recover = () => Promise.reject(new LancegateError('StorageUnavailable', 'the storage does not answer'));
  await assert.rejects(takeOverBranches({ ...deps, engine: replacing(engine, { recover }) }, ref), {
    kind: 'StorageUnavailable',
  });
  assert.equal((await catalog.recoveryMarks(ref)).length, 1);

  await takeOverBranches({ ...deps, engine }, ref);
  await dataset.refresh();
  assert.equal(await dataset.version(), 2);
  assert.deepEqual(await catalog.recoveryMarks(ref), []);
});

test('a replica that lost the table while it waited deletes no branch, which the next owner may have made (P3)', async (t) => {
  const { ref, catalog, engine, dataset } = await publishTable(t, new Table({ id: vectorFromArray([1], new Int32()) }));
  const name = 'b' as BranchName;
  await dataset.branches.create(name, { branch: undefined, version: undefined });
  const datasets = new OpenDatasets(engine, 10);
  const access = new TableAccess(catalog, engine, datasets, (read) => read());
  const remove = (confirm: () => Promise<void>) =>
    deleteBranch({
      access,
      datasets,
      locks: new TableLocks(10),
      recoveryMarks: new RecoveryMarks({ catalog, engine, owners: { confirm } }),
    })({ table: ref, name });
  await assert.rejects(
    remove(() => Promise.reject(new LancegateError('WriterMoved', 'moved'))),
    { kind: 'WriterMoved' },
  );
  assert.equal((await dataset.branches.list()).length, 1);
  await remove(async () => undefined);
  assert.deepEqual(await dataset.branches.list(), []);
});
