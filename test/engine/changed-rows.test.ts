/** What commits did to the rows, by their files, compared with all rows of both versions. */
import assert from 'node:assert/strict';
import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import { Int32, Table, tableFromIPC, vectorFromArray } from 'apache-arrow';
import type { LanceEngine } from '#src/engine/lance/adapter/lance-engine.ts';
import type { Dataset } from '#src/engine/port/dataset.ts';
import { type RowAddressSql, rowAddress } from '#src/engine/port/row-address.ts';
import type { BranchName, Location } from '#src/kernel/ids.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { createIndex } from '#test/fixtures/create-index.ts';
import { engineIn } from '#test/fixtures/engine-in.ts';
import { mergeInto } from '#test/fixtures/engine-writes.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { upsertOn } from '#test/fixtures/upsert.ts';

const location = 't.lance' as Location;
const dev = 'dev' as BranchName;
const upsert = upsertOn('id');

class Stage {
  readonly folder: string;
  readonly engine: LanceEngine;

  constructor(t: TestContext) {
    this.folder = temporaryFolder((clean) => t.after(clean));
    this.engine = engineIn(this.folder, join(this.folder, 'tables'));
  }

  /** The rows of the newest version that the one before has not, and the other way round, by reading both. */
  async truth(dataset: Dataset, branch?: BranchName): Promise<{ removed: RowAddressSql[]; added: RowAddressSql[] }> {
    const version = await dataset.version();
    const past = await this.engine.open({ location, branch, version: version - 1 });
    const [before, after] = [await addressesOf(past), await addressesOf(dataset)];
    past.close();
    return { removed: [...before.difference(after)], added: [...after.difference(before)] };
  }

  async assertChangedRows(dataset: Dataset, branch?: BranchName): Promise<{ removed: number; added: number }> {
    const { removed, added } = await this.truth(dataset, branch);
    const version = await dataset.version();
    assert.deepEqual((await dataset.changedRows(version, 'removed'))?.toSorted(), removed.sort());
    assert.deepEqual((await dataset.changedRows(version, 'added'))?.toSorted(), added.sort());
    return { removed: removed.length, added: added.length };
  }
}

async function addressesOf(dataset: Dataset): Promise<Set<RowAddressSql>> {
  const files = await Array.fromAsync(dataset.select([{ name: 'at', expression: rowAddress }], undefined));
  return new Set(files.flatMap((file) => [...columnOf(file)].map((at) => String(at) as RowAddressSql)));
}

const columnOf = (file: Uint8Array): Iterable<bigint> => tableFromIPC(file).getChild('at')?.toArray() ?? [];
const table = (ids: readonly number[]): Table => new Table({ id: vectorFromArray(ids, new Int32()) });
const range = (from: number, to: number, step = 1): number[] =>
  Array.from({ length: Math.ceil((to - from) / step) }, (_, i) => from + i * step);

describe('the rows that a commit took away and brought', () => {
  test('are known for every commit, by deletion vectors as arrays and as bitmaps, until whole fragments go (P4)', async (t) => {
    const stage = new Stage(t);
    const dataset = await createDataset(stage.engine, location, ipcFile(table(range(0, 70_000))), {});
    const merge = async (ids: readonly number[]) => {
      const { numInsertedRows, numUpdatedRows } = await mergeInto(dataset, upsert, ipcFile(table(ids)));
      const changed = await stage.assertChangedRows(dataset);
      assert.deepEqual(changed, { removed: numUpdatedRows, added: numInsertedRows + numUpdatedRows });
    };
    await merge([3, 69_999, 100_000]);
    await merge([3, 4, 66_000]);
    await merge(range(300_000, 300_010));
    await merge(range(40_000, 70_000, 3));
    await merge(range(40_000, 70_000, 2));
    await merge(range(5, 6_000));
    await merge(range(0, 70_000));
    const deletions = readdirSync(join(stage.folder, 'tables', location, '_deletions'));
    for (const kind of ['.arrow', '.bin'])
      assert.ok(
        deletions.some((name) => name.endsWith(kind)),
        kind,
      );
    await createIndex(dataset, 'id');
    assert.deepEqual(await stage.assertChangedRows(dataset), { removed: 0, added: 0 });
    await merge([4, 5, 400_000]);
  });

  test('are known for a branch, whose older files are those of main', async (t) => {
    const stage = new Stage(t);
    const main = await createDataset(stage.engine, location, ipcFile(table(range(0, 100))), {});
    await mergeInto(main, upsert, ipcFile(table([1, 2])));
    await main.branches.create(dev, { branch: undefined, version: undefined });
    const branch = await stage.engine.open({ location, branch: dev });
    await mergeInto(branch, upsert, ipcFile(table([2, 3, 500])));
    assert.deepEqual(await stage.assertChangedRows(branch, dev), { removed: 2, added: 3 });
  });

  test('are known where rows have ids of their own', async (t) => {
    const stage = new Stage(t);
    const database = await connect(join(stage.folder, 'tables'));
    await database.createTable('t', table([1, 2, 3]), { storageOptions: { new_table_enable_stable_row_ids: 'true' } });
    const dataset = await stage.engine.open({ location });
    await mergeInto(dataset, upsert, ipcFile(table([2, 9])));
    assert.deepEqual(await stage.assertChangedRows(dataset), { removed: 1, added: 2 });
  });

  test('are not known where a deletion vector is gone, nor where the version before is', async (t) => {
    const stage = new Stage(t);
    const dataset = await createDataset(stage.engine, location, ipcFile(table([1, 2, 3])), {});
    assert.equal(await dataset.changedRows(1, 'added'), undefined);
    await mergeInto(dataset, upsert, ipcFile(table([1])));
    rmSync(join(stage.folder, 'tables', location, '_deletions'), { recursive: true });
    assert.equal(await dataset.changedRows(2, 'removed'), undefined);
    assert.equal((await dataset.changedRows(2, 'added'))?.length, 1);
  });
});
