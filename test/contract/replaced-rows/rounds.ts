import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { Field, Int32, makeData, RecordBatch, Schema, Struct, Table, Utf8 } from 'apache-arrow';
import type { Dataset } from '#src/engine/port/dataset.ts';
import type { LiveRows } from '#src/engine/port/row-address.ts';
import { ownSql } from '#src/kernel/checked-sql.ts';
import type { RowAddress } from '#src/keys/address-remap.ts';
import { namesIn } from '#src/lance-format/manifest/manifest-files.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { createIndex } from '#test/fixtures/create-index.ts';
import { mergeInto } from '#test/fixtures/engine-writes.ts';
import type { TableStorage } from '#test/fixtures/table-places.ts';
import { numbersFrom } from '#test/http/wide-table.ts';
import { Random } from '#test/model/random.ts';
import {
  type AddressedRow,
  addressedRows,
  addressesIn,
  at,
  expectReplaced,
  fileOf,
  indexOn,
  type Row,
  replace,
  replacing,
  rowsFrom,
  type Stage,
  tablesOn,
  textsOf,
  trackedRows,
  upsert,
} from './stage.ts';

/** A table whose content is known, replaced row by row. */
class KnownTable {
  readonly stage: Stage;
  readonly dataset: Dataset;
  readonly tracked: LiveRows;
  readonly random: Random;
  rows = new Map<number, AddressedRow>();
  #nextId: number;
  #round = 0;

  constructor(stage: Stage, dataset: Dataset, tracked: LiveRows, first: readonly Row[], seed: number) {
    this.stage = stage;
    this.dataset = dataset;
    this.tracked = tracked;
    this.random = new Random(seed);
    for (const [offset, row] of first.entries()) this.rows.set(row.id, { ...row, address: { fragment: 0, offset } });
    this.#nextId = first.length;
  }

  /** Some rows get new values, some go, some come. */
  async replaceSome(): Promise<void> {
    this.#round += 1;
    const known = this.random.sample([...this.rows.values()], this.random.int(40));
    const [updated, gone] = [known.slice(3), known.slice(0, 3)];
    const come = rowsFrom(this.#nextId, this.random.int(10), `new in ${this.#round}`);
    this.#nextId += come.length;
    const rows = [...come, ...updated.map(({ id }) => ({ id, text: `updated in ${this.#round}: ${id}` }))];
    const addresses = known.map(({ address }) => address);
    const replaced = await replace(this.dataset, this.tracked, addresses, rows);
    assert.equal(replaced.version, await this.dataset.version());
    const written = addressesIn(replaced);
    assert.equal(written.length, rows.length);
    for (const { id } of gone) this.rows.delete(id);
    for (const [index, row] of rows.entries()) this.rows.set(row.id, { ...row, address: written[index]! });
    for (const address of addresses) assert.equal(this.tracked.has(address), false);
  }

  /** Another program has compacted fragments. */
  async follow(): Promise<void> {
    await this.dataset.refresh();
    const { isKnown, added, moved } = this.tracked.advance(await this.dataset.version());
    assert.deepEqual([isKnown, added], [true, []]);
    const addressNow = (address: RowAddress) =>
      moved === undefined ? address : (moved.newAddressOf(address) ?? assert.fail('a row is lost'));
    this.rows = new Map(this.rows.values().map((row) => [row.id, { ...row, address: addressNow(row.address) }]));
  }

  get expected(): AddressedRow[] {
    return [...this.rows.values()].sort((a, b) => a.id - b.id);
  }

  async check(): Promise<void> {
    const { expected, stage, dataset, random } = this;
    assert.deepEqual(await stage.rows(), expected);
    const outside = await stage.outside();
    assert.deepEqual([await dataset.countRows(), await outside.countRows()], [expected.length, expected.length]);
    const middle = this.#nextId >> 1;
    const low = expected.filter(({ id }) => id < middle);
    assert.deepEqual(await addressedRows(outside, `id < ${middle}`), low);
    assert.equal(await dataset.countRows(ownSql(`id < ${middle}`)), low.length);
    for (const id of [random.int(this.#nextId), random.int(this.#nextId), this.#nextId - 1, this.#nextId]) {
      assert.deepEqual(await addressedRows(outside, `id = ${id}`), [this.rows.get(id)].filter(Boolean));
    }
    for (const { address } of expected) assert.ok(this.tracked.has(address));
  }
}

async function knownTable(storage: TableStorage, t: TestContext, seed: number): Promise<KnownTable> {
  const first = rowsFrom(0, 200, 'first');
  const { stage, dataset, tracked } = await tablesOn(storage)(t, first);
  return new KnownTable(stage, dataset, tracked, first, seed);
}
export function rowsAreReplaced(storage: TableStorage): void {
  const opened = tablesOn(storage);
  const isOnStore = storage.kind === 'an object store';
  describe('rows are replaced by their addresses: those there go, those of the file come, and nothing else changes (P1, P2)', () => {
    for (const seed of isOnStore ? [5] : [1, 2, 3]) {
      test(`round after round, and the addresses of the new rows are right (seed ${seed})`, async (t) => {
        const table = await knownTable(storage, t, seed);
        const past: AddressedRow[][] = [table.expected];
        for (const _ of numbersFrom(0, 12)) {
          await table.replaceSome();
          await table.check();
          past.push(table.expected);
        }
        const outside = await table.stage.outside();
        for (const [index, expected] of past.entries()) {
          await outside.checkout(index + 1);
          assert.deepEqual(await addressedRows(outside), expected, `version ${index + 1}`);
        }
      });
    }

    test('also with an index of another program, before and after it is brought up to date, and after compaction', async (t) => {
      const table = await knownTable(storage, t, 4);
      await table.replaceSome();
      await indexOn(await table.stage.outside(), 'id');
      await table.follow();
      for (const round of numbersFrom(0, 12)) {
        await table.replaceSome();
        const outside = await table.stage.outside();
        const stats = await outside.indexStats('id_idx');
        assert.ok((stats?.numUnindexedRows ?? 0) > 0);
        assert.match(await outside.query().where('id = 7').explainPlan(true), /ScalarIndexQuery/);
        await table.check();
        if (round % 4 !== 3) continue;
        await outside.optimize();
        await table.follow();
        assert.equal((await (await table.stage.outside()).indexStats('id_idx'))?.numUnindexedRows, 0);
        await table.check();
      }
    });

    test('and merges through the engine, with the index, go on from there (P2, P4)', async (t) => {
      const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 100, 'first'));
      await createIndex(dataset, 'id');
      tracked.advance(await dataset.version());
      await replace(dataset, tracked, at(0, 5, 6), [...rowsFrom(5, 2, 'second'), ...rowsFrom(100, 1, 'second')]);
      const { version, numUpdatedRows, numInsertedRows } = await mergeInto(
        dataset,
        upsert,
        fileOf([...rowsFrom(6, 2, 'third'), ...rowsFrom(100, 2, 'third')]),
      );
      assert.deepEqual([version, numUpdatedRows, numInsertedRows], [4, 3, 1]);
      const expected = [...rowsFrom(0, 5, 'first'), ...rowsFrom(5, 1, 'second'), ...rowsFrom(6, 2, 'third')];
      const rest = [...rowsFrom(8, 92, 'first'), ...rowsFrom(100, 2, 'third')];
      assert.deepEqual(await stage.contents(), textsOf([...expected, ...rest]));
    });

    test('a fragment none of whose rows is left is gone, whether they go at once or one after the other', async (t) => {
      const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 3, 'first'));
      await replace(dataset, tracked, [], rowsFrom(3, 2, 'second'));
      await replace(dataset, tracked, at(0, 0, 2), rowsFrom(0, 1, 'third'));
      await replace(dataset, tracked, [...at(0, 1), ...at(1, 0, 1)], rowsFrom(1, 1, 'fourth'));
      const fragments = (await dataset.layout()).fragments.map(({ id, rows, deletedRows }) => ({
        id,
        rows,
        deletedRows,
      }));
      assert.deepEqual(fragments, [
        { id: 2, rows: 1, deletedRows: 0 },
        { id: 3, rows: 1, deletedRows: 0 },
      ]);
      assert.deepEqual(
        [0, 1, 2, 3].map((id) => tracked.hasFragment(id)),
        [false, false, true, true],
      );
      assert.deepEqual(await stage.contents(), ['third 0', 'fourth 1']);
    });

    test('rows that only come leave all others where they were, and write no deletions', async (t) => {
      const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 3, 'first'));
      const before = await stage.rows();
      const replaced = await replace(dataset, tracked, [], rowsFrom(3, 2, 'second'));
      assert.deepEqual(replaced, { version: 2, fragments: [{ id: 1, rows: 2 }] });
      assert.deepEqual((await stage.rows()).slice(0, 3), before);
      assert.deepEqual(namesIn(stage.path('_deletions')), []);
    });

    test('all rows of a table can go, with others in their place or without, and rows can come again', async (t) => {
      const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 3, 'first'));
      await replace(dataset, tracked, tracked.rowsOf(0), rowsFrom(0, 3, 'second'));
      assert.deepEqual(await stage.contents(), textsOf(rowsFrom(0, 3, 'second')));
      assert.deepEqual(await replace(dataset, tracked, tracked.rowsOf(1), []), { version: 3, fragments: [] });
      assert.deepEqual([await dataset.countRows(), await stage.contents()], [0, []]);
      await replace(dataset, tracked, [], rowsFrom(5, 1, 'third'));
      assert.deepEqual(await stage.rows(), [{ id: 5, text: 'third 5', address: { fragment: 2, offset: 0 } }]);
    });

    if (!isOnStore)
      test('many rows of a large fragment go, sparse and dense', async (t) => {
        const count = 140_000;
        const { stage, dataset, tracked } = await opened(t, rowsFrom(0, count, 'first'));
        const gone = numbersFrom(0, count).filter((id) => (id < 70_000 ? id % 2 === 0 : id % 1_000 === 7));
        await replace(dataset, tracked, at(0, ...gone), rowsFrom(count, 1, 'second'));
        await replace(dataset, tracked, at(0, 1, 139_999), []);
        const left = new Set(gone).add(1).add(139_999);
        const expected = numbersFrom(0, count + 1).filter((id) => !left.has(id));
        assert.deepEqual(
          (await stage.rows()).map(({ id }) => id),
          expected,
        );
      });

    if (!isOnStore)
      test('a file so large that the engine makes several of it has all of its rows where it says', async (t) => {
        const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 3, 'first'));
        const count = 1_100_000;
        const ids = makeData({ type: new Int32(), length: count, data: Int32Array.from(numbersFrom(0, count)) });
        const texts = makeData({ type: new Utf8(), length: count, valueOffsets: new Int32Array(count + 1) });
        const schema = new Schema([new Field('id', new Int32(), true), new Field('text', new Utf8(), true)]);
        const struct = makeData({ type: new Struct(schema.fields), length: count, children: [ids, texts] });
        const file = ipcFile(new Table([new RecordBatch(schema, struct)]));
        const replaced = expectReplaced(await dataset.replaceRows(tracked, at(0, 0, 1, 2), { file, rows: count }));
        assert.ok(replaced.fragments.length > 1);
        const said = addressesIn(replaced);
        const stored = await (await stage.outside()).query().select(['id', '_rowaddr']).toArrow();
        assert.equal(stored.numRows, count);
        const [idOf, addressOf] = [stored.getChild('id')!, stored.getChild('_rowaddr')!];
        const wrong = numbersFrom(0, count).filter((row) => {
          const { fragment, offset } = said[idOf.get(row)]!;
          return addressOf.get(row) !== (BigInt(fragment) << 32n) + BigInt(offset);
        });
        assert.deepEqual(wrong, []);
      });

    test('an address without a row is an error, with nothing written', async (t) => {
      const { stage, dataset } = await opened(t, rowsFrom(0, 3, 'first'));
      await replace(dataset, await trackedRows(dataset), at(0, 0), rowsFrom(0, 1, 'second'));
      const before = stage.files();
      for (const address of [...at(0, 0), ...at(0, 3), ...at(7, 0)]) {
        const tracked = await trackedRows(dataset);
        await assert.rejects(replacing(dataset, tracked, [...at(0, 1), address], rowsFrom(9, 1, 'third')), {
          kind: 'Internal',
        });
        assert.deepEqual([...tracked.rowsOf(0)], at(0, 1, 2), 'what is tracked is as it was');
      }
      await stage.requireFiles(before);
      assert.equal(await dataset.version(), 2);
    });
  });
}
