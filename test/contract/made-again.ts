/** Another process deletes a branch and makes one of its name: readers here see the new one, and nothing of the old one (P11). */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { Int32, Table, vectorFromArray } from 'apache-arrow';
import type { Dataset } from '#src/engine/port/dataset.ts';
import type { BranchName, Location, Properties } from '#src/kernel/ids.ts';
import { OpenDatasets } from '#src/table/open-datasets.ts';
import { ipcFile, rowsOf } from '#test/fixtures/arrow-files.ts';
import { allVersions, createDataset } from '#test/fixtures/create-dataset.ts';
import { engineOn } from '#test/fixtures/engine-on.ts';
import { mergeInto } from '#test/fixtures/engine-writes.ts';
import { upsertOn } from '#test/fixtures/upsert.ts';

const location = 't.lance' as Location;
const branch = 'b' as BranchName;
const fromMain = { branch: undefined, version: undefined };
const rows = (...ids: number[]) => ipcFile(new Table({ id: vectorFromArray(ids, new Int32()) }));

async function upsert(dataset: Dataset, ...ids: number[]): Promise<void> {
  await dataset.refresh('to write');
  const shadow = await dataset.shadow();
  await mergeInto(shadow, { ...upsertOn('id'), useIndex: false }, rows(...ids));
  assert.notEqual(await shadow.commit(), 'overtaken');
}

/** All that a reader is told of the branch. */
async function contentOf(dataset: Dataset) {
  const files = await Array.fromAsync(dataset.select([{ name: 'id', expression: 'id' }], undefined));
  const ids = files.flatMap((file) => rowsOf(file).map(({ id }) => Number(id))).sort((a, b) => a - b);
  const versions = (await dataset.versionPage(allVersions)).map(({ version }) => version);
  return { ids, count: await dataset.countRows(), version: await dataset.version(), versions };
}

interface Storage {
  readonly root: string;
  readonly options: Properties;
}

/** What readers of every kind of storage must see. `storageOf` gives an empty place. */
export function madeAgainContract(name: string, storageOf: (t: TestContext) => Storage): void {
  const opened = async (t: TestContext, { root, options }: Storage) => {
    const engine = await engineOn(t, root, options);
    t.after(() => engine.close());
    return engine;
  };

  describe(`a branch on ${name} that is made again`, () => {
    for (const { length, commits } of [
      { length: 'longer than', commits: 3 },
      { length: 'as long as', commits: 2 },
      { length: 'shorter than', commits: 1 },
    ]) {
      test(`one that is ${length} the old one is read, and written to`, async (t) => {
        const storage = storageOf(t);
        const [owner, other] = [await opened(t, storage), await opened(t, storage)];
        const main = await createDataset(owner, location, rows(1, 2, 3), {});
        await main.branches.create(branch, fromMain);
        const old = await owner.open({ location, branch });
        for (const id of [10, 11, 12]) await upsert(old, id);
        const datasets = new OpenDatasets(other, 10);
        const seen = await datasets.latest(location, branch);
        assert.equal(await seen.countRows(), 6);

        await main.branches.delete(branch);
        await upsert(main, 4);
        await main.branches.create(branch, fromMain);
        const made = await owner.open({ location, branch });
        for (let id = 20; id < 20 + commits; id++) await upsert(made, id);

        const now = await datasets.latest(location, branch);
        assert.deepEqual(await contentOf(now), await contentOf(made));
        assert.notEqual(now.lineage, seen.lineage);
        await assert.rejects(upsert(seen, 30), { kind: 'ConcurrentModification' });
        await upsert(now, 1, 30);
        await made.refresh();
        assert.deepEqual(await contentOf(made), await contentOf(now));
      });
    }
  });
}
