import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import { Field, Int32, Struct, Table, Utf8, vectorFromArray } from 'apache-arrow';
import type { LanceEngine } from '#src/engine/lance/adapter/lance-engine.ts';
import { fenceProperty } from '#src/engine/port/change.ts';
import type { Dataset } from '#src/engine/port/dataset.ts';
import { isRefusal } from '#src/engine/port/refusal.ts';
import { addressesAmong, type RowAddressSql, rowAddress } from '#src/engine/port/row-address.ts';
import { ownSql } from '#src/kernel/checked-sql.ts';
import type { BranchName, Location } from '#src/kernel/ids.ts';
import { ipcFile, rowsOf } from '#test/fixtures/arrow-files.ts';
import { allVersions, createDataset } from '#test/fixtures/create-dataset.ts';
import { createIndex } from '#test/fixtures/create-index.ts';
import { appendTo, mergeInto } from '#test/fixtures/engine-writes.ts';
import { upsertOn } from '#test/fixtures/upsert.ts';
import { setAsideContract } from './set-aside.ts';

interface EngineUnderTest {
  readonly engine: LanceEngine;
  /** What the port says is not known on object stores must be unknown there, and known on a file system. */
  readonly storage: 'file system' | 'object store';
  /** Changes a table the way another program would, which has opened the storage itself. */
  readonly externalWriter: (location: Location) => Promise<ExternalWriter>;
}

export interface ExternalWriter {
  add(table: Table): Promise<void>;
  pruneOldVersions(): Promise<void>;
}

const main = undefined;
const dev = 'dev' as BranchName;
const upsert = upsertOn('id');

const table = (...ids: number[]): Table =>
  new Table({
    id: vectorFromArray(ids, new Int32()),
    name: vectorFromArray(
      ids.map((id) => `n${id}`),
      new Utf8(),
    ),
  });

async function idsOf(dataset: Dataset, where?: string): Promise<unknown[]> {
  const found: unknown[] = [];
  for await (const file of dataset.select(
    [{ name: 'id', expression: 'id' }],
    where === undefined ? undefined : ownSql(where),
  )) {
    found.push(...rowsOf(file).map((row) => row.id));
  }
  return found.sort((a, b) => Number(a) - Number(b));
}

async function addressesOf(dataset: Dataset, where: string): Promise<RowAddressSql[]> {
  const columns = ['id', rowAddress].map((name) => ({ name, expression: name }));
  const files = await Array.fromAsync(dataset.select(columns, ownSql(where)));
  const rows = files.flatMap((file) => rowsOf(file)).sort((a, b) => Number(a.id) - Number(b.id));
  return rows.map((row) => String(row[rowAddress]) as RowAddressSql);
}

/** What every engine must do; `open` gives a fresh one on empty storage. */
export function engineContract(
  name: string,
  open: (t: { after(clean: () => void): void }) => EngineUnderTest | Promise<EngineUnderTest>,
): void {
  let places = 0;
  const place = (): Location => `folder/t${++places}.lance` as Location;

  describe(`engine: ${name}`, () => {
    test('a created dataset has its rows, is at version 1, and is there for the next who opens it', async (t) => {
      const { engine } = await open(t);
      const at = place();
      assert.equal(await engine.isVacant(at), true);
      const created = await createDataset(engine, at, ipcFile(table(1, 2)), {});
      assert.equal(await created.version(), 1);
      assert.equal(await engine.isVacant(at), false);
      assert.deepEqual(await idsOf(await engine.open({ location: at })), [1, 2]);
      await engine.remove(at);
      await engine.remove(at);
      assert.equal(await engine.isVacant(at), true);
    });

    setAsideContract(open, place);

    test('a location that is taken is not written to, and the error says so', async (t) => {
      const { engine } = await open(t);
      const at = place();
      await createDataset(engine, at, ipcFile(table(1)), {});
      await assert.rejects(createDataset(engine, at, ipcFile(table(2)), {}), (error) =>
        isRefusal(error, 'location taken'),
      );
      assert.deepEqual(await idsOf(await engine.open({ location: at })), [1]);
    });

    test('appended rows join, and an earlier version still shows what it had', async (t) => {
      const { engine } = await open(t);
      const at = place();
      const dataset = await createDataset(engine, at, ipcFile(table(1)), {});
      await appendTo(dataset, ipcFile(table(2)));
      assert.deepEqual(await idsOf(dataset), [1, 2]);
      assert.deepEqual(await idsOf(await engine.open({ location: at, version: 1 })), [1]);
    });

    test('a merge reports what it did and makes one version (P4)', async (t) => {
      const { engine } = await open(t);
      const dataset = await createDataset(engine, place(), ipcFile(table(1, 2)), {});
      const counts = await mergeInto(dataset, upsert, ipcFile(table(2, 3, 4)), 60_000);
      assert.deepEqual(counts, {
        version: 2,
        numInsertedRows: 2,
        numUpdatedRows: 1,
        numDeletedRows: 0,
      });
      assert.equal(await dataset.version(), 2);
      assert.equal(await dataset.countRows(ownSql('id > 1')), 3);
    });

    test('a merge may have been committed from its version on only where one has been begun (P6)', async (t) => {
      const { engine } = await open(t);
      const dataset = await createDataset(engine, place(), ipcFile(table(1)), {});
      assert.equal(await dataset.mayHaveCommitted(1), false);
      await mergeInto(dataset, upsert, ipcFile(table(2)));
      assert.deepEqual([await dataset.mayHaveCommitted(1), await dataset.mayHaveCommitted(2)], [true, false]);
    });

    test('the same goes for a branch, by its own commits and not those of main (P6)', async (t) => {
      const { engine } = await open(t);
      const at = place();
      const dataset = await createDataset(engine, at, ipcFile(table(1)), {});
      await mergeInto(dataset, upsert, ipcFile(table(2)));
      await dataset.branches.create(dev, { branch: undefined, version: undefined });
      const branch = await engine.open({ location: at, branch: dev });
      await mergeInto(branch, upsert, ipcFile(table(3)));
      const matched = await branch.version();
      await mergeInto(dataset, upsert, ipcFile(table(4)));
      await mergeInto(dataset, upsert, ipcFile(table(5)));
      assert.equal(await branch.mayHaveCommitted(matched), false);
      await mergeInto(branch, upsert, ipcFile(table(6)));
      assert.equal(await branch.mayHaveCommitted(matched), true);
    });

    test('commits of others are seen after a refresh, and only then', async (t) => {
      const { engine, externalWriter } = await open(t);
      const at = place();
      const dataset = await createDataset(engine, at, ipcFile(table(1)), {});
      await dataset.refresh();
      const other = await externalWriter(at);
      await other.add(table(2));
      assert.equal(await dataset.version(), 1);
      await dataset.refresh();
      assert.deepEqual(await idsOf(dataset), [1, 2]);
      await mergeInto(dataset, upsert, ipcFile(table(3)));
      await other.add(table(4));
      await dataset.refresh();
      assert.deepEqual(await idsOf(dataset), [1, 2, 3, 4]);
    });

    test('commits of others are seen even if the manifest that came next was pruned again', async (t) => {
      const { engine, externalWriter } = await open(t);
      const at = place();
      const dataset = await createDataset(engine, at, ipcFile(table(1)), {});
      await dataset.refresh();
      const other = await externalWriter(at);
      await other.add(table(2));
      await other.add(table(3));
      await other.pruneOldVersions();
      await dataset.refresh();
      assert.deepEqual(await idsOf(dataset), [1, 2, 3]);
    });

    test('rows are replaced by their addresses, fragments moved and changed rows listed', async (t) => {
      const { engine } = await open(t);
      const dataset = await createDataset(engine, place(), ipcFile(table(1, 2)), {});
      await appendTo(dataset, ipcFile(table(3)));
      const { version } = await mergeInto(dataset, upsert, ipcFile(table(2)));
      await dataset.refresh('to write');
      assert.equal((await dataset.changedRows(version, 'removed'))?.length, 1);
      const tracked = dataset.liveRows() ?? assert.fail();
      tracked.advance(version);
      const [first = assert.fail()] = tracked.rowsOf(0);
      const replaced = await dataset.replaceRows(tracked, [first], { file: ipcFile(table(7, 8)), rows: 2 });
      assert.equal(typeof replaced === 'object' && replaced.version, version + 1);
      assert.deepEqual(await idsOf(dataset), [2, 3, 7, 8]);
      const ids = (await dataset.layout()).fragments.flatMap(({ id }) => (id === undefined ? [] : [id]));
      assert.ok(ids.length > 1);
      const compaction = (await dataset.prepareCompaction(ids)) ?? assert.fail();
      await compaction.commit();
      assert.deepEqual([await idsOf(dataset), (await dataset.layout()).fragments.length], [[2, 3, 7, 8], 1]);
      const { isKnown, moved } = tracked.advance(await dataset.version());
      assert.deepEqual([isKnown, moved?.rows], [true, 4]);
      const changed = async (after: number) => {
        const { removed, added } = (await dataset.rowsBetween(after, await dataset.version())) ?? assert.fail();
        const countOf = (rows: readonly { readonly count: number }[]) =>
          rows.reduce((sum, each) => sum + each.count, 0);
        return [countOf(removed), ...added.map((each) => [each.count, each.version])];
      };
      assert.deepEqual(await changed(version), [1, [2, version + 1]]); // what the compaction moved is none of them
      assert.deepEqual(await changed(0), [0, [4, version + 2]]);
      assert.equal(await dataset.rowsBetween(version + 2, version + 9), undefined);
    });

    test('rows are deleted by their addresses, those that moved meanwhile are not', async (t) => {
      const { engine } = await open(t);
      const at = place();
      const dataset = await createDataset(engine, at, ipcFile(table(1, 2, 3)), {});
      const [first, second] = await addressesOf(dataset, 'id < 3');
      assert.ok(first !== undefined && second !== undefined);
      const other = await engine.open({ location: at });
      await mergeInto(other, upsert, ipcFile(table(2)));
      const where = addressesAmong([first, second]);
      const limits = { timeoutMs: undefined, principal: undefined };
      const { numDeletedRows } = await dataset.change({ kind: 'delete', where }, undefined, limits);
      assert.equal(numDeletedRows, 1);
      assert.deepEqual(await idsOf(dataset), [2, 3]);
    });

    test('rows can be read by their addresses, those that are not there are passed over', async (t) => {
      const { engine } = await open(t);
      const dataset = await createDataset(engine, place(), ipcFile(table(1, 2, 3)), {});
      const [first, second] = await addressesOf(dataset, 'id < 3');
      assert.ok(first !== undefined && second !== undefined);
      await mergeInto(dataset, upsert, ipcFile(table(2)));
      const columns = [{ name: 'doubled', expression: 'id * 2' }];
      const read = async (rows: readonly RowAddressSql[]) => {
        const files = await Array.fromAsync(dataset.take(rows, columns));
        assert.ok(files.length > 0);
        return files.flatMap((file) => rowsOf(file)).map(({ doubled }) => Number(doubled));
      };
      assert.deepEqual(await read([second, first]), [2]);
      assert.deepEqual(await read([]), []);
    });

    test('an update can be held to rows at certain addresses', async (t) => {
      const { engine } = await open(t);
      const dataset = await createDataset(engine, place(), ipcFile(table(1, 2)), {});
      const [second] = await addressesOf(dataset, 'id = 2');
      const filter = ownSql(`target._rowaddr IN (${second})`);
      const spec = { ...upsert, whenMatchedUpdateAll: { filter }, whenNotMatchedInsertAll: false, useIndex: false };
      assert.equal((await mergeInto(dataset, spec, ipcFile(table(1, 2)))).numUpdatedRows, 1);
      assert.notDeepEqual(await addressesOf(dataset, 'id = 2'), [second]);
    });

    test('a selection promotes nested fields, filters, and has a schema even without rows', async (t) => {
      const { engine } = await open(t);
      const meta = new Struct([new Field('k', new Int32(), true)]);
      const nested = new Table({ meta: vectorFromArray([{ k: 1 }, { k: 2 }, null], meta) });
      const dataset = await createDataset(engine, place(), ipcFile(nested), {});
      const keys = async (where: string) => {
        const files = await Array.fromAsync(dataset.select([{ name: 'key', expression: 'meta.k' }], ownSql(where)));
        assert.ok(files.length > 0);
        return files.flatMap((file) => rowsOf(file));
      };
      assert.deepEqual(await keys('meta.k > 1'), [{ key: 2 }]);
      assert.deepEqual(await keys('meta.k > 9'), []);
    });

    test('a branch has a version chain of its own, and lists where it came from', async (t) => {
      const { engine } = await open(t);
      const at = place();
      const dataset = await createDataset(engine, at, ipcFile(table(1)), {});
      await dataset.branches.create(dev, { branch: main, version: undefined });
      const branch = await engine.open({ location: at, branch: dev });
      await mergeInto(branch, upsert, ipcFile(table(2)));
      assert.deepEqual(await idsOf(branch), [1, 2]);
      await dataset.refresh();
      assert.deepEqual(await idsOf(dataset), [1]);
      const [listed] = await dataset.branches.list();
      assert.deepEqual(
        { name: listed?.name, parentBranch: listed?.parentBranch, parentVersion: listed?.parentVersion },
        { name: 'dev', parentBranch: undefined, parentVersion: 1 },
      );
      assert.ok(Math.abs((listed?.createdAtSeconds ?? 0) - Date.now() / 1000) < 3600);
      await dataset.branches.delete(dev);
      assert.deepEqual(await dataset.branches.list(), []);
    });

    test('scratch datasets live until they are discarded', async (t) => {
      const { engine } = await open(t);
      const scratch = await engine.scratch();
      const dataset = await scratch.create('a', ipcFile(table(1, 2)));
      assert.equal(await dataset.countRows(), 2);
      await scratch.discard();
    });

    test('a page of versions holds those that come after the last page, in either order, and of its branch only', async (t) => {
      const { engine, storage } = await open(t);
      const location = place();
      const dataset = await createDataset(engine, location, ipcFile(table(1)), {});
      await appendTo(dataset, ipcFile(table(2)));
      await dataset.branches.create(dev, { branch: main, version: 1 });
      await appendTo(dataset, ipcFile(table(3)));
      const numbers = async (
        of: Dataset,
        after: number | undefined,
        limit: number,
        order: 'ascending' | 'descending',
      ) => (await of.versionPage({ after, limit, order })).map(({ version }) => version);
      assert.deepEqual(await numbers(dataset, undefined, 2, 'ascending'), [1, 2]);
      assert.deepEqual(await numbers(dataset, 2, 2, 'ascending'), [3]);
      assert.deepEqual(await numbers(dataset, undefined, 2, 'descending'), [3, 2]);
      assert.deepEqual(await numbers(dataset, 2, 9, 'descending'), [1]);
      const branch = await engine.open({ location, branch: dev });
      await appendTo(branch, ipcFile(table(4)));
      const page = await branch.versionPage({ after: undefined, limit: 1, order: 'descending' });
      assert.match(page[0]?.manifestPath ?? '', /^tree\/dev\/_versions\/\d+\.manifest$/);
      const times = new Map((await branch.versionPage(allVersions)).map((each) => [each.version, each.committedAtMs]));
      const [{ version, committedAtMs, manifestBytes = 0, manifestTag } = assert.fail()] = page;
      assert.deepEqual([committedAtMs, manifestBytes > 0], [times.get(version), true]);
      assert.equal(manifestTag !== undefined, storage !== 'file system');
      assert.deepEqual(await numbers(dataset, 2, 1, 'ascending'), [3]);
      assert.deepEqual(await numbers(dataset, 3, 1, 'ascending'), []);
    });

    test('an older version is restored as the next one, and one that is not there is refused', async (t) => {
      const { engine, externalWriter } = await open(t);
      const at = place();
      const dataset = await createDataset(engine, at, ipcFile(table(1, 2)), {});
      await appendTo(dataset, ipcFile(table(3)));
      assert.deepEqual(await dataset.commitManifest({ kind: 'restore', version: 1 }), { version: 3 });
      assert.deepEqual([await dataset.version(), await idsOf(dataset)], [3, [1, 2]]);
      await appendTo(dataset, ipcFile(table(4)));
      assert.deepEqual(await idsOf(dataset), [1, 2, 4]);
      await assert.rejects(dataset.commitManifest({ kind: 'restore', version: 9 }), { kind: 'TableVersionNotFound' });
      assert.equal(await dataset.version(), 4);
      await (await externalWriter(at)).add(table(5));
      const late = await dataset.commitManifest({ kind: 'restore', version: 2 });
      assert.equal(late, 'overtaken');
    });

    test('metadata of the schema is replaced, and lasts', async (t) => {
      const { engine } = await open(t);
      const dataset = await createDataset(engine, place(), ipcFile(table(1)), {});
      const set = (metadata: Record<string, string>) => dataset.commitManifest({ kind: 'schema metadata', metadata });
      await set({ a: 'b', c: 'd' });
      await set({ a: 'e' });
      await appendTo(dataset, ipcFile(table(2)));
      assert.deepEqual([...(await dataset.schema()).metadata], [['a', 'e']]);
      assert.equal(await dataset.version(), 4);
    });

    test('a fence takes the next number, changes nothing, and says who made it (P1)', async (t) => {
      const { engine } = await open(t);
      const at = place();
      const dataset = await createDataset(engine, at, ipcFile(table(1, 2)), {});
      await dataset.refresh('to write');
      const tracked = dataset.liveRows() ?? assert.fail();
      tracked.advance(1);
      const other = await engine.open({ location: at });
      const fence = { transactionId: randomUUID(), properties: { epoch: '7', owner: 'ö' } };
      assert.deepEqual(await other.commitManifest({ kind: 'fence', ...fence }), { version: 2 });
      const facts = { id: fence.transactionId, properties: { [fenceProperty]: 'true', ...fence.properties } };
      assert.deepEqual(await dataset.transactionOf(2), facts);
      assert.equal(await dataset.transactionOf(3), undefined);
      assert.equal(
        await other
          .commitManifest({ kind: 'fence', ...fence, transactionId: randomUUID() })
          .then((made) => typeof made),
        'object',
      );
      await dataset.refresh('to write');
      assert.deepEqual([await dataset.version(), await idsOf(dataset)], [3, [1, 2]]);
      assert.equal(tracked.advance(3).isKnown, false);
      assert.equal((await mergeInto(dataset, upsert, ipcFile(table(2, 3)))).numUpdatedRows, 1);
    });

    test('statistics count the rows, fragments and indexes of the version', async (t) => {
      const { engine } = await open(t);
      const dataset = await createDataset(engine, place(), ipcFile(table(1, 2)), {});
      await appendTo(dataset, ipcFile(table(3)));
      await createIndex(dataset, 'id');
      const { bytes, ...counted } = await dataset.statistics();
      assert.ok(bytes > 0);
      const fragmentRows = { min: 1, max: 2, mean: 1, p25: 1, p50: 2, p75: 2, p99: 2 };
      assert.deepEqual(counted, { rows: 3, indexes: 1, fragments: 2, smallFragments: 2, fragmentRows });
    });

    test('a location is resolved to itself where no link leads elsewhere', async (t) => {
      const { engine } = await open(t);
      const location = engine.locationOf('folder/x.lance');
      (await createDataset(engine, location, ipcFile(table(1)), {})).close();
      assert.deepEqual(await engine.resolve(location), { location, spelling: 'exact' });
    });

    test('no path or URI leads outside the root (P9)', async (t) => {
      const { engine } = await open(t);
      const inside = engine.locationOf('folder/x.lance');
      assert.equal(inside, 'folder/x.lance');
      assert.equal(engine.locationOf(engine.uriOf(inside)), inside);
      const outside = ['../x.lance', 'a/../../x.lance', '/etc/x.lance', 'file:///etc/x.lance', 's3://other/x.lance'];
      const misshapen = ['', 'x', 'x.txt', 'a//x.lance', './x.lance', 'a/.lance', 'x\0.lance', 'file://host/x.lance'];
      const ambiguous = ['a%2fb.lance/x.lance', '%2e%2e/x.lance', 'a?b/x.lance', 'a#b/x.lance', 'a\\b/x.lance'];
      const inDatasets = ['t.lance/tree/x.lance', 'a/T.LANCE/x.lance', 't.lance/../t.lance/x.lance'];
      for (const path of [...outside, ...misshapen, ...ambiguous, ...inDatasets]) {
        assert.throws(() => engine.locationOf(path), { kind: 'InvalidInput' }, path);
      }
    });
  });
}
