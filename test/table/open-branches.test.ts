import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { Int32, Table, vectorFromArray } from 'apache-arrow';
import type { Catalog } from '#src/catalog/port.ts';
import { openSqliteCatalog } from '#src/catalog/sqlite/open-sqlite-catalog.ts';
import { LanceEngine } from '#src/engine/lance/lance-engine.ts';
import { listVersions, readManifest } from '#src/engine/lance/manifest-files.ts';
import type { Dataset } from '#src/engine/port.ts';
import type { Location, ObjectName, TableId, TransactionId } from '#src/kernel/ids.ts';
import { OpenBranches } from '#src/table/open-branches.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

const place = 't.lance' as Location;
const ref = { namespace: [], name: 't' as ObjectName };
const rows = (...ids: readonly number[]) => ipcFile(new Table({ id: vectorFromArray(ids, new Int32()) }));

interface Place {
  readonly catalog: Catalog;
  readonly engine: LanceEngine;
  readonly branches: OpenBranches;
  readonly tableId: TableId;
  readonly dataset: Dataset;
  /** Versions whose manifest was synced since the last call, ascending. */
  takeSynced(): readonly number[];
}

async function newTable(t: { after(clean: () => unknown): void }): Promise<Place> {
  const folder = temporaryFolder((clean) => t.after(clean));
  const catalog = await openSqliteCatalog(join(folder, 'catalog.sqlite'), { holder: { command: 'a test' } });
  t.after(() => catalog.close());
  const synced: string[] = [];
  const engine = new LanceEngine({
    root: join(folder, 'tables'),
    rootOptions: {},
    scratchFolder: join(folder, 'scratch'),
    indexCacheBytes: 1 << 20,
    metadataCacheBytes: 1 << 20,
    fileSync: { file: async (path) => void synced.push(path), folder: async () => undefined },
  });
  const creation = await catalog.reserveCreation(ref, undefined, place);
  const dataset = await engine.create(place, rows(1), {});
  const transaction = {
    id: 'tx' as TransactionId,
    operation: 'create_table' as const,
    branch: undefined,
    version: 1,
    outcome: {},
    committedAtMs: 0,
  };
  const details = { properties: undefined, storageOptions: {}, transaction };
  const { id: tableId } = await catalog.publishCreation(creation, details);
  const versionsFolder = join(folder, 'tables', place, '_versions');
  const takeSynced = (): readonly number[] => {
    const paths = synced.splice(0);
    return listVersions(versionsFolder).filter((version) =>
      paths.includes(readManifest(versionsFolder, version)?.path ?? ''),
    );
  };
  return { catalog, engine, branches: new OpenBranches({ catalog, engine }), tableId, dataset, takeSynced };
}

const acknowledgedIn = async (catalog: Catalog) =>
  (await catalog.openBranches()).map(({ acknowledgedVersion }) => acknowledgedVersion);

describe('a commit to a branch that is open for writing', () => {
  test('makes durable what another instance has committed before it and not synced yet (P3)', async (t) => {
    const { catalog, engine, branches, tableId, dataset, takeSynced } = await newTable(t);
    await branches.beforeCommit(tableId, undefined, dataset);
    await dataset.append(rows(2));
    await dataset.append(rows(3));
    const later = await engine.open({ location: place });
    await later.append(rows(4));
    takeSynced();
    await branches.acknowledge(tableId, undefined, later);
    assert.deepEqual(takeSynced(), [2, 3, 4]);
    assert.deepEqual(await acknowledgedIn(catalog), [4]);
  });

  test('makes durable what is new, once (P3)', async (t) => {
    const { branches, tableId, dataset, takeSynced } = await newTable(t);
    await branches.beforeCommit(tableId, undefined, dataset);
    takeSynced();
    await dataset.append(rows(2));
    await branches.afterCommit(tableId, undefined, dataset);
    assert.deepEqual(takeSynced(), [2]);
    await dataset.append(rows(3));
    await branches.afterCommit(tableId, undefined, dataset);
    await branches.afterCommit(tableId, undefined, dataset);
    assert.deepEqual(takeSynced(), [3]);
  });

  test('never takes back what is durable: an instance that stands at an older version syncs nothing (P3)', async (t) => {
    const { catalog, engine, branches, tableId, dataset, takeSynced } = await newTable(t);
    await branches.beforeCommit(tableId, undefined, dataset);
    const behind = await engine.open({ location: place });
    await dataset.append(rows(2));
    await branches.acknowledge(tableId, undefined, dataset);
    takeSynced();
    await branches.acknowledge(tableId, undefined, behind);
    assert.deepEqual(takeSynced(), []);
    assert.deepEqual(await acknowledgedIn(catalog), [2]);
    await dataset.append(rows(3));
    await branches.afterCommit(tableId, undefined, dataset);
    assert.deepEqual(takeSynced(), [3]);
  });
});
