/** Which addresses have rows, and where rows have gone, by the manifests; compared with what LanceDB itself reads. */
import assert from 'node:assert/strict';
import { readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { connect, Index, type Table as LanceTable } from '@lancedb/lancedb';
import { Int32, Table, Utf8, vectorFromArray } from 'apache-arrow';
import type { IpcFile } from '#src/arrow/format/ipc-file.ts';
import type { LanceDataset } from '#src/engine/lance/adapter/lance-dataset.ts';
import type { LanceEngine } from '#src/engine/lance/adapter/lance-engine.ts';
import { isMade } from '#src/engine/port/refusal.ts';
import type { LiveRows, LiveRowsChange } from '#src/engine/port/row-address.ts';
import type { BranchName, Location } from '#src/kernel/ids.ts';
import type { RowAddress } from '#src/keys/address-remap.ts';
import { manifestNames } from '#src/lance-format/manifest/manifest-files.ts';
import { WireWriter } from '#src/lance-format/protobuf.ts';
import { rewriteGroupsOf } from '#src/lance-format/transaction/transaction.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { engineIn } from '#test/fixtures/engine-in.ts';
import { appendTo, mergeInto } from '#test/fixtures/engine-writes.ts';
import { addNullColumn, dropColumn } from '#test/fixtures/null-column.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { upsertOn } from '#test/fixtures/upsert.ts';
import { numbersFrom } from '#test/http/wide-table.ts';
import { Random } from '#test/model/random.ts';

const location = 't.lance' as Location;
const dev = 'dev' as BranchName;
const upsert = upsertOn('id');

const tableOf = (ids: readonly number[], text: string): Table =>
  new Table({
    id: vectorFromArray(ids, new Int32()),
    text: vectorFromArray(
      ids.map((id) => `${text} ${id}`),
      new Utf8(),
    ),
  });
const fileOf = (ids: readonly number[], text: string): IpcFile => ipcFile(tableOf(ids, text));

type AddressText = `${number}, ${number}`;
const addressText = ({ fragment, offset }: RowAddress): AddressText => `${fragment}, ${offset}`;
const rowAddressOf = (packed: bigint): RowAddress => ({
  fragment: Number(packed >> 32n),
  offset: Number(packed & 0xffff_ffffn),
});

interface StoredRow {
  readonly id: number;
  readonly text: string;
  readonly address: RowAddress;
}

/** A table, what is tracked of it, and what the key index would know of its rows by that. */
class TrackedTable {
  readonly folder: string;
  readonly engine: LanceEngine;
  readonly dataset: LanceDataset;
  readonly tracked: LiveRows;
  readonly #branch: BranchName | undefined;
  #remembered = new Map<AddressText, StoredRow>();

  constructor(folder: string, engine: LanceEngine, dataset: LanceDataset, branch?: BranchName) {
    this.folder = folder;
    this.engine = engine;
    this.dataset = dataset;
    this.tracked = dataset.liveRows() ?? assert.fail();
    this.#branch = branch;
  }

  static async create(t: TestContext, count: number): Promise<TrackedTable> {
    const folder = temporaryFolder((clean) => t.after(clean));
    const engine = engineIn(folder);
    const dataset = await createDataset(engine, location, fileOf(numbersFrom(0, count), 'first'), {});
    t.after(() => dataset.close());
    return new TrackedTable(folder, engine, dataset);
  }

  get #database() {
    return connect(this.folder);
  }

  /** The newest version, opened anew by another program. */
  async outside(): Promise<LanceTable> {
    const table = await (await this.#database).openTable('t');
    return this.#branch === undefined ? table : (await table.branches()).checkout(this.#branch);
  }

  async overwrite(ids: readonly number[]): Promise<void> {
    await (await this.#database).createTable('t', tableOf(ids, 'overwritten'), { mode: 'overwrite' });
  }

  async rows(): Promise<Map<AddressText, StoredRow>> {
    const found = await (await this.outside()).query().select(['id', 'text', '_rowaddr']).toArray();
    return new Map(
      found.map(({ id, text, _rowaddr: packed }: { id: number; text: string; _rowaddr: bigint }) => {
        const address = rowAddressOf(packed);
        return [addressText(address), { id, text, address }];
      }),
    );
  }

  merge(ids: readonly number[], text: string) {
    return mergeInto(this.dataset, upsert, fileOf(ids, text));
  }

  /** Of the newest version, whose addresses are tracked. Those of the new rows are remembered as they are given. */
  async replace(replaced: readonly StoredRow[], text: string): Promise<void> {
    const ids = replaced.map(({ id }) => id);
    const chunk = { file: fileOf(ids, text), rows: ids.length };
    const addresses = replaced.map(({ address }) => address);
    const result = await this.dataset.replaceRows(this.tracked, addresses, chunk);
    assert.ok(isMade(result), JSON.stringify(result));
    const at = result.fragments.flatMap(({ id, rows }) =>
      numbersFrom(0, rows).map((offset) => ({ fragment: id, offset })),
    );
    for (const address of addresses) this.#remembered.delete(addressText(address));
    for (const [index, address] of at.entries()) {
      const id = ids[index] ?? assert.fail('more addresses than rows');
      this.#remembered.set(addressText(address), { id, text: `${text} ${id}`, address });
    }
  }

  /** Compacts fragments, with other commits between the two steps. */
  async move(ids: readonly number[], meanwhile: () => Promise<unknown>): Promise<void> {
    const move = await this.dataset.prepareCompaction(ids);
    await meanwhile();
    await this.dataset.refresh();
    await move?.commit();
    move?.discard();
  }

  /** Moves on to the newest version. What was said of the way is held against all rows, before and after. */
  async advance(): Promise<LiveRowsChange> {
    await this.dataset.refresh();
    const moves = this.tracked.advance(await this.dataset.version());
    const rows = await this.rows();
    this.#assertTracked(rows);
    for (const id of moves.added) assert.ok(this.tracked.hasFragment(id), `fragment ${id}`);
    const known = new Map(this.#settled(moves).map((row) => [addressText(row.address), row]));
    const added = new Set(moves.added);
    for (const row of known.values()) assert.ok(!added.has(row.address.fragment), 'a fragment is added, and known');
    for (const [at, row] of rows) if (added.has(row.address.fragment)) known.set(at, row);
    assert.deepEqual(inOrder(known), inOrder(rows));
    this.#remembered = rows;
    return moves;
  }

  /** What is known of the rows after such moves. */
  #settled({ isKnown, moved }: LiveRowsChange): StoredRow[] {
    if (!isKnown) return [];
    return [...this.#remembered.values()].flatMap((row) => {
      const address = moved === undefined ? row.address : moved.newAddressOf(row.address);
      if (address !== undefined && moved?.hasMoved(row.address.fragment) === true) {
        assert.ok(moved.fragmentsOf(row.address.fragment).includes(address.fragment));
      } else if (address !== undefined) assert.deepEqual(address, row.address);
      return address === undefined || !this.tracked.has(address) ? [] : [{ ...row, address }];
    });
  }

  #assertTracked(rows: ReadonlyMap<AddressText, StoredRow>): void {
    const fragments = new Set(rows.values().map(({ address }) => address.fragment));
    const largest = Math.max(-1, ...fragments, ...this.#remembered.values().map(({ address }) => address.fragment));
    const perFragment = Map.groupBy(rows.values(), ({ address }) => address.fragment);
    for (const id of numbersFrom(0, largest + 2)) {
      const { length: count } = perFragment.get(id) ?? [];
      assert.deepEqual(
        [this.tracked.hasFragment(id), this.tracked.countRows(id)],
        [count > 0, count],
        `fragment ${id}`,
      );
    }
    const addresses = [...fragments].flatMap((fragment) => [...this.tracked.rowsOf(fragment)]);
    assert.deepEqual(new Set(addresses.map(addressText)), new Set(rows.keys()));
    for (const { address } of rows.values()) assert.ok(this.tracked.has(address));
    for (const [at, { address }] of this.#remembered) assert.equal(this.tracked.has(address), rows.has(at));
    for (const fragment of fragments) {
      assert.equal(this.tracked.has({ fragment, offset: 1_000_000 }), false);
    }
  }
}

const inOrder = (rows: ReadonlyMap<AddressText, StoredRow>): string[] =>
  [...rows].map(([address, { text }]) => `${address}: ${text}`).sort();

async function advanced(t: TestContext, count: number): Promise<TrackedTable> {
  const table = await TrackedTable.create(t, count);
  await table.advance();
  return table;
}

const indexOn = (table: LanceTable): Promise<void> => table.createIndex('id', { config: Index.btree(), replace: true });

/** For the address of each row of before, the remap has the one of now, and none for a row that is gone. */
async function assertMoved(table: TrackedTable, run: () => Promise<unknown>): Promise<LiveRowsChange> {
  const before = await table.rows();
  await run();
  const moves = await table.advance();
  const { moved = assert.fail('nothing has moved') } = moves;
  const after = new Map([...(await table.rows()).values()].map(({ id, address }) => [id, address]));
  for (const { id, address } of before.values())
    assert.deepEqual(moved.newAddressOf(address), after.get(id), `row ${id}`);
  return moves;
}

describe('which addresses have rows is known, version after version (P2)', () => {
  test('at first of nothing, then of all fragments, none of which was known before', async (t) => {
    const { dataset, tracked } = await TrackedTable.create(t, 10);
    await appendTo(dataset, fileOf([10, 11], 'second'));
    await mergeInto(dataset, upsert, fileOf([3], 'third'));
    assert.deepEqual(
      [tracked.version, tracked.hasFragment(0), tracked.has({ fragment: 0, offset: 0 })],
      [0, false, false],
    );
    const moves = tracked.advance(await dataset.version());
    const added = [0, 1, 2];
    assert.deepEqual(moves, { isKnown: false, added, moved: undefined });
    assert.equal(tracked.version, 3);
  });

  test('after merges, deletions and updates, of any program', async (t) => {
    const table = await advanced(t, 100);
    await table.merge([5, 6, 100], 'merged');
    assert.deepEqual((await table.advance()).added, [1]);
    await (await table.outside()).delete('id % 7 = 0');
    assert.deepEqual(await table.advance(), { isKnown: true, added: [], moved: undefined });
    await (await table.outside()).update({ where: 'id < 50 AND id > 40', values: { text: 'theirs' } });
    assert.equal((await table.advance()).added.length, 1);
    await (await table.outside()).delete('id >= 0');
    assert.deepEqual(await table.advance(), { isKnown: true, added: [], moved: undefined });
    await appendTo(table.dataset, fileOf([1], 'again'));
    assert.equal((await table.advance()).added.length, 1);
  });

  test('after new values for some of the columns, for which the engine moves the rows', async (t) => {
    const table = await advanced(t, 100);
    await (await table.outside()).addColumns([{ name: 'twice', valueSql: 'id * 2' }]);
    await table.advance();
    const rows = tableOf([3, 4, 5], 'theirs');
    await (await table.outside()).mergeInsert('id').whenMatchedUpdateAll().execute(rows);
    assert.deepEqual(await table.advance(), { isKnown: true, added: [1], moved: undefined });
  });

  test('after several commits at once', async (t) => {
    const table = await advanced(t, 100);
    await table.merge([5, 6, 100], 'merged');
    await table.merge([6, 7, 101], 'merged again');
    await (await table.outside()).delete('id = 6 OR id = 8');
    await indexOn(await table.outside());
    const { isKnown, added, moved } = await table.advance();
    const expected = [1, 2];
    assert.deepEqual([isKnown, added, moved], [true, expected, undefined]);
  });

  test('after a replacement, which tracks its own rows', async (t) => {
    const table = await advanced(t, 10);
    const addresses = [0, 9].map((offset) => ({ fragment: 0, offset }));
    const chunk = { file: fileOf([0, 10], 'ours'), rows: 2 };
    const replaced = await table.dataset.replaceRows(table.tracked, addresses, chunk);
    assert.deepEqual(replaced, { version: 2, fragments: [{ id: 1, rows: 2 }] });
    assert.equal(table.tracked.version, 2);
    assert.deepEqual([...table.tracked.rowsOf(1)].map(addressText), ['1, 0', '1, 1']);
    assert.deepEqual(
      addresses.map((address) => table.tracked.has(address)),
      [false, false],
    );
    const other = table.dataset.liveRows() ?? assert.fail();
    other.advance(2);
    for (const id of [0, 1]) assert.deepEqual([...table.tracked.rowsOf(id)], [...other.rowsOf(id)]);
  });

  test('of a branch, whose older files are those of main', async (t) => {
    const main = await advanced(t, 20);
    await main.merge([3, 4, 20], 'merged');
    await main.dataset.branches.create(dev, { branch: undefined, version: undefined });
    const dataset = await main.engine.open({ location, branch: dev });
    t.after(() => dataset.close());
    const branch = new TrackedTable(main.folder, main.engine, dataset, dev);
    assert.deepEqual((await branch.advance()).added, [0, 1]);
    await branch.merge([5, 20, 21], 'on the branch');
    assert.deepEqual((await branch.advance()).added, [2]);
    await assertMoved(branch, async () => (await branch.outside()).optimize());
    await main.merge([7], 'on main');
    assert.deepEqual(await branch.advance(), { isKnown: true, added: [], moved: undefined });
  });

  test('in a bit for each row at the most (P7)', async (t) => {
    const count = 200_000;
    const table = await TrackedTable.create(t, count);
    table.tracked.advance(1);
    const few = table.tracked.bytes;
    assert.ok(few < 1_000, `${few}`);
    await (await table.outside()).delete('id % 2 = 0');
    await table.dataset.refresh();
    table.tracked.advance(await table.dataset.version());
    const { bytes } = table.tracked;
    assert.ok(bytes > count / 8 && bytes < (count / 8) * 1.25, `${bytes}`);
    assert.equal(Array.from(table.tracked.rowsOf(0)).length, count / 2);
  });
});

describe('where rows have gone is known (P2)', () => {
  test('after compaction, without those that were deleted', async (t) => {
    const table = await advanced(t, 50);
    await table.merge([5, 6, 50], 'merged');
    await table.merge([6, 50, 51], 'merged again');
    await (await table.outside()).delete('id > 20 AND id < 30');
    await table.advance();
    const { added } = await assertMoved(table, async () => (await table.outside()).optimize());
    assert.deepEqual(added, []);
  });

  test('after compaction of groups by themselves, those in an index and those that came later', async (t) => {
    const table = await advanced(t, 50);
    await appendTo(table.dataset, fileOf(numbersFrom(50, 60), 'second'));
    await indexOn(await table.outside());
    for (const from of [60, 70, 80]) await appendTo(table.dataset, fileOf(numbersFrom(from, from + 10), 'later'));
    await (await table.outside()).delete('id % 10 = 3');
    await table.advance();
    const { added } = await assertMoved(table, async () => (await table.outside()).optimize());
    assert.deepEqual([added, (await table.dataset.layout()).fragments.length], [[], 2]);
  });

  test('after compaction of one fragment that has lost many rows', async (t) => {
    const table = await advanced(t, 1_000);
    await (await table.outside()).delete('id % 3 = 0');
    await table.advance();
    const { added, moved } = await assertMoved(table, async () => (await table.outside()).optimize());
    assert.deepEqual(added, []);
    for (const offset of [0, 3, 999]) assert.equal(moved?.newAddressOf({ fragment: 0, offset }), undefined);
  });

  test('after compaction of more rows than one fragment has', async (t) => {
    const folder = temporaryFolder((clean) => t.after(clean));
    const third = 720_000;
    const ids = (from: number) => new Table({ id: vectorFromArray(Int32Array.from(numbersFrom(from, from + third))) });
    const outside = await (await connect(folder)).createTable('t', ids(0));
    for (const from of [third, 2 * third]) await outside.add(ids(from));
    await outside.delete('id % 100000 = 7');
    const dataset = await engineIn(folder).open({ location });
    t.after(() => dataset.close());
    const tracked = dataset.liveRows() ?? assert.fail();
    tracked.advance(await dataset.version());
    await outside.optimize();
    await dataset.refresh();
    const { added, moved } = tracked.advance(await dataset.version());
    assert.deepEqual([added, moved?.fragmentsOf(1)], [[], [3, 4]]);
    const stored = await outside.query().select(['id', '_rowaddr']).toArrow();
    const [idOf, addresses] = [stored.getChild('id'), stored.getChild('_rowaddr')];
    assert.equal(stored.numRows, 3 * third - 22);
    let misplaced = 0;
    for (const row of numbersFrom(0, stored.numRows)) {
      const id = Number(idOf?.get(row));
      const now = moved?.newAddressOf({ fragment: Math.floor(id / third), offset: id % third });
      const { fragment, offset } = rowAddressOf(addresses?.get(row) as bigint);
      if (now?.fragment !== fragment || now.offset !== offset) misplaced += 1;
    }
    assert.equal(misplaced, 0);
  });

  test('after compaction with commits of rows before it or after it, if not row by row, then as added rows', async (t) => {
    const table = await advanced(t, 50);
    await appendTo(table.dataset, fileOf(numbersFrom(50, 60), 'second'));
    await table.advance();
    await (await table.outside()).optimize();
    await table.dataset.refresh();
    await table.merge([5, 55, 70], 'after');
    const { isKnown, added } = await table.advance();
    assert.deepEqual([isKnown, table.tracked.countRows(added.at(-1) ?? 0)], [true, 3]);
    await table.merge([6, 56, 71], 'before');
    await (await table.outside()).optimize();
    assert.equal((await table.advance()).isKnown, true);
  });

  test('after one compaction of what another one made, the rows count as added', async (t) => {
    const table = await advanced(t, 50);
    for (const from of [50, 60]) {
      await appendTo(table.dataset, fileOf(numbersFrom(from, from + 10), 'more'));
      await (await table.outside()).optimize();
      await table.dataset.refresh();
    }
    const { isKnown, added } = await table.advance();
    assert.deepEqual([isKnown, added.map((id) => table.tracked.countRows(id))], [true, [70]]);
  });

  test('after a compaction concurrent with commits that removed some of its rows', async (t) => {
    const table = await advanced(t, 50);
    await appendTo(table.dataset, fileOf(numbersFrom(50, 60), 'second'));
    await appendTo(table.dataset, fileOf(numbersFrom(60, 70), 'third'));
    await (await table.outside()).delete('id = 52');
    await table.advance();
    const move = (await table.dataset.prepareCompaction([1, 2])) ?? assert.fail('nothing to compact');
    await table.merge([51, 65, 3, 70], 'meanwhile');
    await table.advance();
    const { added, moved } = await assertMoved(table, () => move.commit());
    move.discard();
    assert.deepEqual(added, []);
    assert.deepEqual(
      [0, 1, 2, 3].map((id) => moved?.hasMoved(id)),
      [false, true, true, false],
    );
    assert.deepEqual([moved?.rows, [...(moved?.fragments() ?? [])]], [17, [1, 2]]);
  });
});

/** A commit that no engine makes, and that moves no row. */
const remark = (table: TrackedTable, number: number) =>
  table.dataset.commitManifest({ kind: 'schema metadata', metadata: { remark: `${number}` } });

describe('nothing is known any more', () => {
  const unknown: readonly (readonly [string, (table: TrackedTable) => Promise<unknown>])[] = [
    [
      'after the return to an older version',
      async (table) => {
        const outside = await table.outside();
        await outside.checkout(1);
        await outside.restore();
      },
    ],
    ['after all was overwritten', (table) => table.overwrite([1, 2, 3])],
    [
      'after a column was added',
      async (table) => (await table.outside()).addColumns([{ name: 'twice', valueSql: 'id * 2' }]),
    ],
    ['after a column was dropped', (table) => dropColumn(table.folder, table.dataset, 'other')],
    [
      'after more commits than are looked at',
      async (table) => {
        for (const id of numbersFrom(0, 1_025)) await remark(table, id);
      },
    ],
    [
      'after versions in between were removed',
      async (table) => {
        await appendTo(table.dataset, fileOf([50], 'more'));
        await (await table.outside()).optimize({ cleanupOlderThan: new Date(), deleteUnverified: true });
        await table.dataset.refresh();
        await appendTo(table.dataset, fileOf([51], 'more'));
        rmSync(join(table.folder, location, '_versions', manifestNames((await table.dataset.version()) - 1)[0]));
      },
    ],
  ];
  for (const [what, commit] of unknown) {
    test(what, async (t) => {
      const table = await TrackedTable.create(t, 30);
      await addNullColumn(table.folder, table.dataset, 'other');
      await table.merge([3, 30], 'merged');
      await table.advance();
      await commit(table);
      const { isKnown, added, moved } = await table.advance();
      assert.deepEqual([isKnown, moved], [false, undefined]);
      const fragments = (await table.dataset.layout()).fragments.map(({ id }) => id);
      assert.deepEqual(added, fragments);
      await table.merge([4], 'afterwards');
      assert.equal((await table.advance()).isKnown, true);
    });
  }

  test('after 1,024 commits all is known still', async (t) => {
    const table = await advanced(t, 30);
    for (const id of numbersFrom(0, 1_020)) await remark(table, id);
    for (const id of numbersFrom(0, 4)) await appendTo(table.dataset, fileOf([1_000 + id], 'one of the last'));
    const { isKnown, added } = await table.advance();
    assert.deepEqual([isKnown, added.length], [true, 4]);
  });
});

describe('where the files do not tell it throws, and stands where it stood', () => {
  const stands = async (t: TestContext, spoil: (folder: string, version: number) => void) => {
    const table = await advanced(t, 10);
    const { version } = await table.merge([3], 'merged');
    spoil(join(table.folder, location), version);
    assert.throws(() => table.tracked.advance(version));
    assert.deepEqual([table.tracked.version, Array.from(table.tracked.rowsOf(0)).length], [1, 10]);
    assert.equal(table.tracked.hasFragment(1), false);
  };
  const deletions = (folder: string): string => {
    const [name = ''] = readdirSync(join(folder, '_deletions'));
    return join(folder, '_deletions', name);
  };

  test('as without the manifest', (t) =>
    stands(t, (folder, version) => rmSync(join(folder, '_versions', manifestNames(version)[0]))));
  test('as with half a manifest', (t) =>
    stands(t, (folder, version) => writeFileSync(join(folder, '_versions', manifestNames(version)[0]), 'LANC')));
  test('as without a list of deleted rows', (t) => stands(t, (folder) => rmSync(deletions(folder))));
  test('as with a list that is none', (t) => stands(t, (folder) => writeFileSync(deletions(folder), 'ARROW1')));
});

describe('a move that was prepared is given up, with nothing changed, where others have done more than delete and add (P1)', () => {
  const others: readonly (readonly [string, (table: TrackedTable) => Promise<unknown>])[] = [
    [
      'returned to a version with rows that were deleted since',
      async (table) => {
        const outside = await table.outside();
        await outside.checkout(2);
        await outside.restore();
      },
    ],
    ['overwritten all', (table) => table.overwrite([1, 2, 3])],
    [
      'added a column',
      async (table) => (await table.outside()).addColumns([{ name: 'twice', valueSql: 'CAST(id * 2 AS INT)' }]),
    ],
  ];
  for (const [what, commit] of others) {
    test(what, async (t) => {
      const table = await TrackedTable.create(t, 10);
      await appendTo(table.dataset, fileOf([10, 11, 12], 'second'));
      await (await table.outside()).delete('id IN (1, 11)');
      await table.dataset.refresh();
      const move = (await table.dataset.prepareCompaction([0, 1])) ?? assert.fail('nothing to compact');
      await commit(table);
      await table.dataset.refresh();
      const [rows, version] = [await table.rows(), await table.dataset.version()];
      assert.equal(await move.commit(), 'overtaken');
      move.discard();
      assert.deepEqual([...(await table.rows()).values()], [...rows.values()]);
      await table.dataset.refresh();
      assert.equal(await table.dataset.version(), version);
    });
  }
});

describe('whatever is committed, in whatever order, all rows are accounted for (P2)', () => {
  type Operation = (table: TrackedTable, random: Random, step: number) => Promise<unknown>;
  const someIds = (random: Random): number[] => random.sample(numbersFrom(0, 120), 1 + random.int(12));
  const telling: readonly (readonly [number, Operation])[] = [
    [6, (table, random, step) => table.merge(someIds(random), `merged in ${step}`)],
    [
      2,
      async (table, random, step) =>
        appendTo(table.dataset, fileOf([1_000 * (step + 1) + random.int(999)], 'appended')),
    ],
    [3, async (table, random) => (await table.outside()).delete(`id % 11 = ${random.int(11)}`)],
    [
      2,
      async (table, random, step) =>
        (await table.outside()).update({
          where: `id % 13 = ${random.int(13)}`,
          values: { text: `updated in ${step}` },
        }),
    ],
    [3, async (table) => (await table.outside()).optimize()],
    [1, async (table) => indexOn(await table.outside())],
    [
      2,
      async (table, random, step) => {
        const small = (await table.dataset.layout()).fragments.filter(({ rows }) => rows < 20);
        const ids = small.flatMap(({ id }) => id ?? []);
        return table.move(ids, () => table.merge(someIds(random), `merged during a move in ${step}`));
      },
    ],
    [
      4,
      async (table, random, step) => {
        if (table.tracked.version !== (await table.dataset.version())) return;
        await table.replace(random.sample([...(await table.rows()).values()], random.int(8)), `replaced in ${step}`);
      },
    ],
  ];
  const silencing: readonly (readonly [number, Operation])[] = [
    [
      1,
      async (table, random) => {
        const outside = await table.outside();
        const versions = await outside.listVersions();
        await outside.checkout(random.pick(versions).version);
        await outside.restore();
      },
    ],
  ];

  for (const seed of [1, 2, 3, 4, 5, 6]) {
    test(`seed ${seed}`, async (t) => {
      const random = new Random(seed);
      const table = await advanced(t, 100);
      for (const step of numbersFrom(0, 15)) {
        let wasSilenced = false;
        for (const _ of numbersFrom(0, 1 + random.int(3))) {
          const isSilencing = random.chance(5);
          wasSilenced ||= isSilencing;
          await table.dataset.refresh();
          await random.weighted(isSilencing ? silencing : telling)(table, random, step);
        }
        const { isKnown } = await table.advance();
        assert.equal(isKnown, !wasSilenced);
      }
    });
  }
});

describe('what a transaction did to the addresses of rows', () => {
  const transaction = (operation: number, content = new WireWriter()): Uint8Array =>
    new WireWriter().number(1, 7).text(2, 'an id').message(operation, content).finish();

  test('is that it moved none, for those that only bring, delete, index or configure', () => {
    for (const operation of [100, 101, 103, 107, 108, 110]) {
      assert.deepEqual(rewriteGroupsOf(transaction(operation)), [], `${operation}`);
    }
    assert.deepEqual(rewriteGroupsOf(transaction(104)), []);
  });

  test('is not known for all others, also those that are not thought of yet', () => {
    for (const operation of [102, 105, 106, 109, 111, 112, 113, 114, 115, 116, 150, 199, 500]) {
      assert.equal(rewriteGroupsOf(transaction(operation)), undefined, `${operation}`);
    }
  });

  test('is not known for an update of columns in place', () => {
    const update = (fill: (content: WireWriter) => WireWriter) =>
      rewriteGroupsOf(transaction(108, fill(new WireWriter())));
    assert.equal(
      update((content) => content.packed(4, [0])),
      undefined,
    );
    assert.equal(
      update((content) => content.number(4, 2)),
      undefined,
    );
    assert.equal(
      update((content) => content.number(7, 1)),
      undefined,
    );
    assert.deepEqual(
      update((content) => content.packed(4, []).number(7, 0).number(1, 3)),
      [],
    );
  });

  test('learns of a compaction by its groups', () => {
    const fragment = (id: number, rows: number, deletions?: bigint) => {
      const message = new WireWriter();
      if (id !== 0) message.number(1, id);
      message.number(4, rows).text(2, 'a data file');
      if (deletions !== undefined) message.message(3, new WireWriter().number(1, 1).uint64(3, deletions).number(4, 2));
      return message;
    };
    const group = new WireWriter()
      .message(1, fragment(0, 10, 2n ** 63n + 1n))
      .message(1, fragment(4, 5))
      .message(2, fragment(9, 13))
      .number(6, 1);
    const rewrite = new WireWriter()
      .message(3, group)
      .message(3, new WireWriter().message(2, fragment(10, 1)))
      .number(9, 1);
    const fragmentOf = (id: number, rows: number, deletionsId?: bigint) => ({ id, rows, deletionsId });
    assert.deepEqual(rewriteGroupsOf(transaction(104, rewrite)), [
      { before: [fragmentOf(0, 10, 2n ** 63n + 1n), fragmentOf(4, 5)], after: [fragmentOf(9, 13)] },
      { before: [], after: [fragmentOf(10, 1)] },
    ]);
  });
});
