import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { Int32, Table, vectorFromArray } from 'apache-arrow';
import type { Catalog } from '#src/catalog/port.ts';
import { listVersions, readManifest } from '#src/lance-format/manifest/manifest-files.ts';
import { RecoveryMarks } from '#src/table/recovery-marks.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { appendTo } from '#test/fixtures/engine-writes.ts';
import { type PublishedTable, publishTable } from '#test/fixtures/published-table.ts';

const table = (...ids: readonly number[]) => new Table({ id: vectorFromArray(ids, new Int32()) });
const rows = (...ids: readonly number[]) => ipcFile(table(...ids));

interface Watched extends PublishedTable {
  readonly branches: RecoveryMarks;
  /** Versions whose manifest was synced since the last call, ascending. */
  takeSynced(): readonly number[];
}

async function newTable(t: { after(clean: () => unknown): void }): Promise<Watched> {
  const synced: string[] = [];
  const fileSync = { file: async (path: string) => void synced.push(path), folder: async () => undefined };
  const published = await publishTable(t, table(1), { fileSync });
  const versions = join(published.folder, '_versions');
  const takeSynced = (): readonly number[] => {
    const paths = synced.splice(0);
    return listVersions(versions).filter((version) => paths.includes(readManifest(versions, version)?.path ?? ''));
  };
  return { ...published, branches: new RecoveryMarks(published), takeSynced };
}

const acknowledgedIn = async (catalog: Catalog) =>
  (await catalog.recoveryMarks()).map(({ acknowledgedVersion }) => acknowledgedVersion);

describe('a commit to a branch that is open for writing', () => {
  test('makes durable what another instance has committed before it and not synced yet (P3)', async (t) => {
    const { catalog, engine, location, branches, tableId, ref, dataset, takeSynced } = await newTable(t);
    await branches.beforeCommit({ id: tableId, ref }, undefined, dataset);
    await appendTo(dataset, rows(2));
    await appendTo(dataset, rows(3));
    const later = await engine.open({ location });
    await appendTo(later, rows(4));
    takeSynced();
    await branches.acknowledge(tableId, undefined, later);
    assert.deepEqual(takeSynced(), [2, 3, 4]);
    assert.deepEqual(await acknowledgedIn(catalog), [4]);
  });

  test('makes durable what is new, once (P3)', async (t) => {
    const { branches, tableId, ref, dataset, takeSynced } = await newTable(t);
    await branches.beforeCommit({ id: tableId, ref }, undefined, dataset);
    takeSynced();
    await appendTo(dataset, rows(2));
    await branches.afterCommit(tableId, undefined, dataset);
    assert.deepEqual(takeSynced(), [2]);
    await appendTo(dataset, rows(3));
    await branches.afterCommit(tableId, undefined, dataset);
    await branches.afterCommit(tableId, undefined, dataset);
    assert.deepEqual(takeSynced(), [3]);
  });

  test('never takes back what is durable: an instance that stands at an older version syncs nothing (P3)', async (t) => {
    const { catalog, engine, location, branches, tableId, ref, dataset, takeSynced } = await newTable(t);
    await branches.beforeCommit({ id: tableId, ref }, undefined, dataset);
    const behind = await engine.open({ location });
    await appendTo(dataset, rows(2));
    await branches.acknowledge(tableId, undefined, dataset);
    takeSynced();
    await branches.acknowledge(tableId, undefined, behind);
    assert.deepEqual(takeSynced(), []);
    assert.deepEqual(await acknowledgedIn(catalog), [2]);
    await appendTo(dataset, rows(3));
    await branches.afterCommit(tableId, undefined, dataset);
    assert.deepEqual(takeSynced(), [3]);
  });
});
