/** Rows are replaced by their addresses. What is there then is judged by LanceDB itself, which opens the files anew. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { connect, Index, type Table as LanceTable } from '@lancedb/lancedb';
import {
  type DataType,
  Field,
  FixedSizeList,
  Float32,
  Int32,
  Int64,
  LargeBinary,
  List,
  makeData,
  RecordBatch,
  Schema,
  Struct,
  Table,
  Utf8,
  vectorFromArray,
} from 'apache-arrow';
import type { IpcFile } from '#src/arrow/format/ipc-file.ts';
import type { LanceDataset } from '#src/engine/lance/adapter/lance-dataset.ts';
import type { LanceEngine } from '#src/engine/lance/adapter/lance-engine.ts';
import { FolderCommits } from '#src/engine/lance/commit/branch-commits.ts';
import { CommitLoop } from '#src/engine/lance/commit/commit-loop.ts';
import { FileWriter } from '#src/engine/lance/commit/file-writer.ts';
import { RowReplacement } from '#src/engine/lance/commit/row-replacement.ts';
import { Staging } from '#src/engine/lance/commit/staging.ts';
import type { Fresh } from '#src/engine/lance/commit/version-commit.ts';
import type { LiveRowMap } from '#src/engine/lance/live-rows/live-rows.ts';
import { translateEngineError } from '#src/engine/lance/native/translate-errors.ts';
import type { Dataset } from '#src/engine/port/dataset.ts';
import { isMade } from '#src/engine/port/refusal.ts';
import { addressOf, type LiveRows, type Replaced, type Replacing } from '#src/engine/port/row-address.ts';
import { ownSql } from '#src/kernel/checked-sql.ts';
import type { BranchName, Location, Properties } from '#src/kernel/ids.ts';
import type { RowAddress } from '#src/keys/address-remap.ts';
import { manifestNames, namesIn, readManifest, stagingFolder } from '#src/lance-format/manifest/manifest-files.ts';
import { parseManifest } from '#src/lance-format/manifest/parse-manifest.ts';
import { ipcFile, rowsOf } from '#test/fixtures/arrow-files.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { createIndex } from '#test/fixtures/create-index.ts';
import { engineIn } from '#test/fixtures/engine-in.ts';
import { appendTo, mergeInto } from '#test/fixtures/engine-writes.ts';
import type { Codec } from '#test/fixtures/ipc-writer.ts';
import { wholeOf } from '#test/fixtures/streams.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { upsertOn } from '#test/fixtures/upsert.ts';
import { eventually } from '#test/http/eventually.ts';
import { openStored } from '#test/http/stored.ts';
import { numbersFrom, wideRows, wideStream } from '#test/http/wide-table.ts';
import { Random } from '#test/model/random.ts';

const location = 't.lance' as Location;
const dev = 'dev' as BranchName;
const upsert = upsertOn('id');

interface Row {
  readonly id: number;
  readonly text: string;
}
interface AddressedRow extends Row {
  readonly address: RowAddress;
}

/** Keys and texts as a file of the source. */
const fileOf = (rows: readonly Row[]): IpcFile =>
  ipcFile(
    new Table({
      id: vectorFromArray(
        rows.map(({ id }) => id),
        new Int32(),
      ),
      text: vectorFromArray(
        rows.map(({ text }) => text),
        new Utf8(),
      ),
    }),
  );
const rowsFrom = (from: number, count: number, text: string): Row[] =>
  numbersFrom(from, from + count).map((id) => ({ id, text: `${text} ${id}` }));
const at = (fragment: number, ...offsets: readonly number[]): RowAddress[] =>
  offsets.map((offset) => ({ fragment, offset }));

class Stage {
  readonly folder: string;
  readonly engine: LanceEngine;

  constructor(t: TestContext) {
    this.folder = temporaryFolder((clean) => t.after(clean));
    this.engine = engineIn(this.folder);
  }

  path(...inside: readonly string[]): string {
    return join(this.folder, location, ...inside);
  }

  /** Files, not folders, with their sizes and times. What was staged is removed in a while. */
  files(): string[] {
    return readdirSync(this.path(), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .filter((path) => !path.includes('/lancegate=staging/'))
      .map((path) => `${path} ${statSync(path).size} ${statSync(path).mtimeMs}`)
      .sort();
  }

  /** The newest version, opened anew by another program. */
  async outside(branch?: BranchName): Promise<LanceTable> {
    const table = await (await connect(this.folder)).openTable('t');
    return branch === undefined ? table : (await table.branches()).checkout(branch);
  }

  /** As another program reads them, by their ids. */
  async rows(branch?: BranchName, where?: string): Promise<AddressedRow[]> {
    return addressedRows(await this.outside(branch), where);
  }

  async contents(branch?: BranchName, where?: string): Promise<string[]> {
    return (await this.rows(branch, where)).map(({ text }) => text);
  }
}

async function addressedRows(table: LanceTable, where?: string): Promise<AddressedRow[]> {
  const query = table.query().select(['id', 'text', '_rowaddr']);
  const found = (await (where === undefined ? query : query.where(where)).toArray()) as {
    id: number;
    text: string;
    _rowaddr: bigint;
  }[];
  return found
    .map(({ id, text, _rowaddr: packed }) => ({ id, text, address: rowAddressOf(packed) }))
    .sort((a, b) => a.id - b.id);
}

const rowAddressOf = (packed: bigint): RowAddress => ({
  fragment: Number(packed >> 32n),
  offset: Number(packed & 0xffff_ffffn),
});

const textsOf = (rows: readonly Row[]): string[] => rows.toSorted((a, b) => a.id - b.id).map(({ text }) => text);

async function trackedRows(dataset: Dataset): Promise<LiveRows> {
  const tracked = dataset.liveRows();
  assert.ok(tracked);
  tracked.advance(await dataset.version());
  return tracked;
}

const replacing = (
  dataset: Dataset,
  tracked: LiveRows,
  addresses: Iterable<RowAddress>,
  rows: readonly Row[],
): Promise<Replacing> => dataset.replaceRows(tracked, addresses, { file: fileOf(rows), rows: rows.length });

async function replace(...request: Parameters<typeof replacing>): Promise<Replaced> {
  return expectReplaced(await replacing(...request));
}

function expectReplaced(replaced: Replacing): Replaced {
  assert.ok(isMade(replaced), JSON.stringify(replaced));
  return replaced;
}

const isRefused = (replaced: Replacing): boolean => replaced !== 'overtaken' && !isMade(replaced);

/** Where the rows of a replacement are, in their order. */
const addressesIn = ({ fragments }: Replaced): RowAddress[] =>
  fragments.flatMap(({ id, rows }) => numbersFrom(0, rows).map((offset) => ({ fragment: id, offset })));

async function opened(
  t: TestContext,
  rows: readonly Row[],
  options: Properties = {},
): Promise<{ stage: Stage; dataset: LanceDataset; tracked: LiveRows }> {
  const stage = new Stage(t);
  const dataset = await createDataset(stage.engine, location, fileOf(rows), options);
  t.after(() => dataset.close());
  return { stage, dataset, tracked: await trackedRows(dataset) };
}

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

async function knownTable(t: TestContext, seed: number): Promise<KnownTable> {
  const first = rowsFrom(0, 200, 'first');
  const { stage, dataset, tracked } = await opened(t, first);
  return new KnownTable(stage, dataset, tracked, first, seed);
}

const indexOn = (outside: LanceTable, column: string): Promise<void> =>
  outside.createIndex(column, { config: Index.btree(), replace: true });

describe('rows are replaced by their addresses: those there go, those of the file come, and nothing else changes (P1, P2)', () => {
  for (const seed of [1, 2, 3]) {
    test(`round after round, and the addresses of the new rows are right (seed ${seed})`, async (t) => {
      const table = await knownTable(t, seed);
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
    const table = await knownTable(t, 4);
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
    assert.deepEqual(stage.files(), before);
    assert.equal(await dataset.version(), 2);
  });
});

describe('what is committed is as the engine makes it: others go on from it', () => {
  const grown = async (t: TestContext) => {
    const table = await opened(t, rowsFrom(0, 20, 'first'));
    const { dataset, tracked } = table;
    await replace(dataset, tracked, at(0, 1, 2), [...rowsFrom(1, 2, 'second'), ...rowsFrom(20, 2, 'second')]);
    await replace(
      dataset,
      tracked,
      [...at(0, 3), ...at(1, 0)],
      [...rowsFrom(3, 1, 'third'), ...rowsFrom(1, 1, 'third')],
    );
    const kept = [...rowsFrom(0, 1, 'first'), ...rowsFrom(1, 1, 'third'), ...rowsFrom(2, 1, 'second')];
    const rest = [...rowsFrom(3, 1, 'third'), ...rowsFrom(4, 16, 'first'), ...rowsFrom(20, 2, 'second')];
    return { ...table, content: textsOf([...kept, ...rest]) };
  };

  test('they merge', async (t) => {
    const { stage, content } = await grown(t);
    const outside = await stage.outside();
    const rows = new Table({
      id: vectorFromArray([1, 30], new Int32()),
      text: vectorFromArray(['theirs', 'theirs'], new Utf8()),
    });
    await outside.mergeInsert('id').whenMatchedUpdateAll().whenNotMatchedInsertAll().execute(rows);
    assert.deepEqual(await stage.contents(), [...content.with(1, 'theirs'), 'theirs']);
  });

  test('they delete and update', async (t) => {
    const { stage, content } = await grown(t);
    const outside = await stage.outside();
    await outside.delete('id = 21 OR id = 19');
    await outside.update({ where: 'id IN (0, 2)', values: { text: 'theirs' } });
    const expected = content.with(0, 'theirs').with(2, 'theirs').toSpliced(19, 1).toSpliced(20, 1);
    assert.deepEqual(await stage.contents(), expected);
  });

  test('they compact fragments', async (t) => {
    const { stage, content } = await grown(t);
    const { compaction } = await (await stage.outside()).optimize();
    assert.equal(compaction.fragmentsRemoved, 3);
    assert.deepEqual(await stage.contents(), content);
  });

  test('they remove what no version needs any more, and nothing else', async (t) => {
    const { stage, dataset, content } = await grown(t);
    await (await stage.outside()).optimize({ cleanupOlderThan: new Date(), deleteUnverified: true });
    assert.deepEqual(await stage.contents(), content);
    assert.ok(!existsSync(stage.path('_versions', manifestNames(2)[0])));
    await dataset.refresh();
    const tracked = await trackedRows(dataset);
    const [{ id = 0 } = {}] = (await dataset.layout()).fragments;
    await replace(dataset, tracked, at(id, 0), []);
    assert.equal((await stage.contents()).length, content.length - 1);
  });

  test('they add a column; then what has none of it is refused, and what has it is taken', async (t) => {
    const { stage, dataset, tracked, content } = await grown(t);
    await (await stage.outside()).addColumns([{ name: 'twice', valueSql: 'CAST(id * 2 AS INT)' }]);
    assert.deepEqual(await stage.contents(), content);
    await dataset.refresh();
    assert.equal(tracked.advance(await dataset.version()).isKnown, false);
    const [address] = await stage.rows(undefined, 'id = 4').then((rows) => rows.map((row) => row.address));
    assert.ok(isRefused(await replacing(dataset, tracked, [address!], rowsFrom(4, 1, 'fourth'))));
    const file = ipcFile(
      new Table({
        id: vectorFromArray([4], new Int32()),
        text: vectorFromArray(['fourth 4'], new Utf8()),
        twice: vectorFromArray([-1], new Int32()),
      }),
    );
    expectReplaced(await dataset.replaceRows(tracked, [address!], { file, rows: 1 }));
    assert.deepEqual(await stage.contents(undefined, 'twice = -1'), ['fourth 4']);
    assert.deepEqual(await stage.contents(), content.with(4, 'fourth 4'));
  });

  test('they restore an older version and come back', async (t) => {
    const { stage, content } = await grown(t);
    const outside = await stage.outside();
    await outside.checkout(2);
    await outside.restore();
    const second = [...rowsFrom(0, 1, 'first'), ...rowsFrom(1, 2, 'second'), ...rowsFrom(3, 17, 'first')];
    assert.deepEqual(await stage.contents(), textsOf([...second, ...rowsFrom(20, 2, 'second')]));
    await outside.checkout(3);
    await outside.restore();
    assert.deepEqual(await stage.contents(), content);
  });

  test('they tag it and branch from it', async (t) => {
    const { stage, dataset, tracked, content } = await grown(t);
    const outside = await stage.outside();
    await (await outside.tags()).create('mine', 3);
    await (await outside.branches()).create('dev');
    await replace(dataset, tracked, tracked.rowsOf(0), []);
    assert.deepEqual(await stage.contents(dev), content);
    await outside.checkout('mine');
    assert.deepEqual(await addressedRows(outside).then(textsOf), content);
  });

  const stale: readonly (readonly [
    string,
    (outside: LanceTable) => Promise<unknown>,
    (texts: string[]) => string[],
  ])[] = [
    ['deletes another row of the fragment', (outside) => outside.delete('id = 0'), (texts) => texts.slice(1)],
    [
      'updates the same row and another',
      (outside) => outside.update({ where: 'id IN (4, 5)', values: { text: 'theirs' } }),
      (texts) => texts.with(4, 'theirs').with(5, 'theirs'),
    ],
    ['adds rows', (outside) => outside.add([{ id: 40, text: 'theirs' }]), (texts) => [...texts, 'theirs']],
    ['makes an index', (outside) => indexOn(outside, 'id'), (texts) => texts],
  ];
  for (const [what, commit, change] of stale) {
    test(`a program at the version before ${what}, and both commits are there`, async (t) => {
      const { stage, dataset, tracked, content } = await grown(t);
      const outside = await stage.outside();
      await replace(dataset, tracked, at(0, 4, 10), [...rowsFrom(4, 1, 'fourth'), ...rowsFrom(10, 1, 'fourth')]);
      await commit(outside);
      const expected = change(content.with(4, 'fourth 4').with(10, 'fourth 10'));
      assert.deepEqual(await stage.contents(), expected);
      for (const id of [4, 10]) assert.equal((await stage.rows(undefined, `id = ${id}`)).length, 1);
    });
  }

  test('a program that compacts fragments of the version before loses no row of it (P1)', async (t) => {
    const { stage, dataset, tracked, content } = await grown(t);
    const outside = await stage.outside();
    await replace(dataset, tracked, at(0, 4, 10), [...rowsFrom(4, 1, 'fourth'), ...rowsFrom(10, 1, 'fourth')]);
    await outside.optimize().catch((error: unknown) => assert.match(String(error), /conflict/i));
    assert.deepEqual(await stage.contents(), content.with(4, 'fourth 4').with(10, 'fourth 10'));
  });
});

describe('on a branch', () => {
  const branched = async (t: TestContext) => {
    const { stage, dataset } = await opened(t, rowsFrom(0, 5, 'first'));
    await appendTo(dataset, fileOf(rowsFrom(5, 5, 'first')));
    await mergeInto(dataset, upsert, fileOf(rowsFrom(4, 1, 'second')));
    const content = textsOf([...rowsFrom(0, 4, 'first'), ...rowsFrom(4, 1, 'second'), ...rowsFrom(5, 5, 'first')]);
    await dataset.createBranch(dev, { branch: undefined, version: undefined });
    const onBranch = await stage.engine.open({ location, branch: dev });
    t.after(() => onBranch.close());
    return { stage, main: dataset, onBranch, content };
  };

  test('rows of the parent, whose files stay its own, are replaced, and main is as it was', async (t) => {
    const { stage, main, onBranch, content } = await branched(t);
    const before = stage.files();
    const tracked = await trackedRows(onBranch);
    await replace(onBranch, tracked, [...at(0, 0), ...at(1, 1)], [...rowsFrom(0, 1, 'dev'), ...rowsFrom(6, 1, 'dev')]);
    await replace(onBranch, tracked, [...at(0, 1), ...at(3, 1)], [...rowsFrom(1, 1, 'dev'), ...rowsFrom(10, 1, 'dev')]);
    const expected = content.with(0, 'dev 0').with(1, 'dev 1').toSpliced(6, 1);
    assert.deepEqual(await stage.contents(dev), [...expected, 'dev 10']);
    assert.equal(await onBranch.countRows(), 10);
    assert.deepEqual(await stage.contents(), content);
    assert.deepEqual(await main.countRows(ownSql("text LIKE 'dev%'")), 0);
    const mainOnly = (files: string[]) => files.filter((file) => !file.startsWith(stage.path('tree')));
    assert.deepEqual(mainOnly(stage.files()), mainOnly(before));
  });

  test('of a branch, whose rows are of three', async (t) => {
    const { stage, onBranch, content } = await branched(t);
    const inner = 'feature/inner' as BranchName;
    const tracked = await trackedRows(onBranch);
    await replace(onBranch, tracked, at(0, 0), [...rowsFrom(0, 1, 'dev'), ...rowsFrom(10, 2, 'dev')]);
    const onDev = [...content.with(0, 'dev 0'), 'dev 10', 'dev 11'];
    await onBranch.createBranch(inner, { branch: dev, version: undefined });
    const innermost = await stage.engine.open({ location, branch: inner });
    t.after(() => innermost.close());
    const rows = await stage.rows(inner);
    const addresses = [1, 4, 7, 10].map((id) => rows.find((row) => row.id === id)?.address ?? assert.fail());
    const trackedInner = await trackedRows(innermost);
    await replace(
      innermost,
      trackedInner,
      addresses,
      [1, 4, 7, 10].map((id) => ({ id, text: `inner ${id}` })),
    );
    await replace(innermost, trackedInner, at(0, 2), []);
    const expected = [1, 4, 7, 10].reduce((texts, id) => texts.with(id, `inner ${id}`), onDev).toSpliced(2, 1);
    assert.deepEqual(await stage.contents(inner), expected);
    assert.deepEqual(await stage.contents(dev), onDev);
    assert.deepEqual(await stage.contents(), content);
    const merged = await mergeInto(innermost, upsert, fileOf(rowsFrom(3, 1, 'merged')));
    assert.deepEqual([merged.numUpdatedRows, merged.numInsertedRows], [1, 0]);
  });

  test('a whole fragment of the parent goes from it, and others can compact the rest', async (t) => {
    const { stage, onBranch, content } = await branched(t);
    const tracked = await trackedRows(onBranch);
    await replace(onBranch, tracked, tracked.rowsOf(0), rowsFrom(0, 1, 'dev'));
    const expected = ['dev 0', ...content.slice(4)];
    assert.deepEqual(await stage.contents(dev), expected);
    await (await stage.outside(dev)).optimize();
    assert.deepEqual(await stage.contents(dev), expected);
    assert.deepEqual(await stage.contents(), content);
  });

  test('a branch that is made again under its name begins anew', async (t) => {
    const { stage, main, onBranch, content } = await branched(t);
    await replace(onBranch, await trackedRows(onBranch), at(0, 0), rowsFrom(0, 1, 'dev'));
    await main.deleteBranch(dev);
    assert.deepEqual(namesIn(stage.path('tree', 'dev')), []);
    await main.createBranch(dev, { branch: undefined, version: undefined });
    const again = await stage.engine.open({ location, branch: dev });
    t.after(() => again.close());
    await replace(again, await trackedRows(again), at(0, 1), rowsFrom(1, 1, 'again'));
    assert.deepEqual(await stage.contents(dev), content.with(1, 'again 1'));
  });

  test('no branch can be in the folder where rows are staged (P1)', async (t) => {
    const { main } = await branched(t);
    const inner = `dev/${basename(stagingFolder('/x'))}` as BranchName;
    await assert.rejects(main.createBranch(inner, { branch: undefined, version: undefined }), { kind: 'InvalidInput' });
  });
});

describe('another program commits in between', () => {
  const others: readonly (readonly [string, (outside: LanceTable) => Promise<unknown>])[] = [
    ['adds rows', (outside) => outside.add([{ id: 50, text: 'theirs' }])],
    ['deletes a row', (outside) => outside.delete('id = 3')],
    ['updates the same row', (outside) => outside.update({ where: 'id = 0', values: { text: 'theirs' } })],
    ['compacts fragments', (outside) => outside.optimize()],
    ['adds a column', (outside) => outside.addColumns([{ name: 'twice', valueSql: 'id * 2' }])],
    [
      'makes an index and deletes a row',
      async (outside) => {
        await indexOn(outside, 'id');
        await outside.delete('id = 3');
      },
    ],
  ];
  for (const [what, commit] of others) {
    test(`${what}: it is overtaken, nothing is written, and a merge goes on from there (P1)`, async (t) => {
      const { stage, dataset } = await opened(t, rowsFrom(0, 5, 'first'));
      await appendTo(dataset, fileOf(rowsFrom(5, 5, 'first')));
      const tracked = await trackedRows(dataset);
      await commit(await stage.outside());
      const [files, rows] = [stage.files(), await stage.rows()];
      assert.equal(await replacing(dataset, tracked, at(0, 0), rowsFrom(0, 1, 'ours')), 'overtaken');
      assert.deepEqual(stage.files(), files);
      assert.deepEqual(await stage.rows(), rows);
      await dataset.refresh();
      await mergeInto(dataset, upsert, fileOf(rowsFrom(0, 1, 'merged')));
      assert.deepEqual(await stage.contents(undefined, 'id = 0'), ['merged 0']);
      assert.equal((await stage.rows()).length, rows.length);
    });
  }

  test('what was known at another version than that of the dataset is overtaken at once', async (t) => {
    const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 5, 'first'));
    await mergeInto(dataset, upsert, fileOf(rowsFrom(0, 1, 'merged')));
    const before = stage.files();
    assert.equal(await replacing(dataset, tracked, at(0, 1), rowsFrom(1, 1, 'ours')), 'overtaken');
    assert.deepEqual(stage.files(), before);
  });

  test('an index of theirs moves no row: it is committed on top of it, and the index stays', async (t) => {
    const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 50, 'first'));
    const outside = await stage.outside();
    await indexOn(outside, 'id');
    const { version } = await replace(dataset, tracked, at(0, 7), [
      ...rowsFrom(7, 1, 'ours'),
      ...rowsFrom(50, 1, 'ours'),
    ]);
    assert.equal(version, 3);
    assert.deepEqual([await dataset.version(), tracked.version], [3, 3]);
    const expected = [...textsOf(rowsFrom(0, 50, 'first')).with(7, 'ours 7'), 'ours 50'];
    assert.deepEqual(await stage.contents(), expected);
    const after = await stage.outside();
    const { numIndexedRows, numUnindexedRows } = (await after.indexStats('id_idx')) ?? {};
    assert.deepEqual([numIndexedRows, numUnindexedRows], [49, 2]);
    for (const [id, texts] of [
      [7, ['ours 7']],
      [8, ['first 8']],
      [50, ['ours 50']],
    ] as const) {
      assert.deepEqual(await stage.contents(undefined, `id = ${id}`), texts);
    }
    await indexOn(after, 'text');
    await indexOn(after, 'id');
    assert.equal((await replace(dataset, tracked, at(0, 8), [])).version, 6);
    assert.deepEqual((await (await stage.outside()).listIndices()).map(({ name }) => name).sort(), [
      'id_idx',
      'text_idx',
    ]);
    assert.deepEqual(await stage.contents(), expected.toSpliced(8, 1));
  });

  test('a setting of theirs that makes the source unfit is no error: nothing is written, a merge can be', async (t) => {
    const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 5, 'first'));
    await (await stage.outside()).updateFieldMetadata([
      { path: 'id', metadata: { 'lance-encoding:compression': 'zstd' } },
    ]);
    const before = stage.files();
    assert.equal(await replacing(dataset, tracked, at(0, 0), rowsFrom(0, 1, 'ours')), 'overtaken');
    assert.deepEqual(stage.files(), before);
    await dataset.refresh();
    await mergeInto(dataset, upsert, fileOf(rowsFrom(0, 1, 'merged')));
    assert.deepEqual(await stage.contents(undefined, 'id = 0'), ['merged 0']);
  });
});

const columns = (...fields: readonly (readonly [Field, readonly unknown[]])[]): Table => {
  const schema = new Schema(fields.map(([field]) => field));
  const vectors = fields.map(
    ([field, values]) => [field.name, vectorFromArray(values, field.type as DataType)] as const,
  );
  const [batch] = new Table(Object.fromEntries(vectors)).batches;
  return new Table([new RecordBatch(schema, batch!.data)]);
};
const int = (name: string, isNullable = true, metadata?: Map<string, string>) =>
  new Field(name, new Int32(), isNullable, metadata);
const text = (name: string, isNullable = true) => new Field(name, new Utf8(), isNullable);

describe('where rows have ids of their own', () => {
  const options = { new_table_enable_stable_row_ids: 'true' };
  const identitiesOf = async (stage: Stage) => {
    const columns = ['id', 'text', '_rowid', '_row_created_at_version', '_row_last_updated_at_version'];
    const found = await (await stage.outside()).query().select(columns).toArray();
    const rows = found.map((row) => columns.map((name) => (name === 'text' ? row.text : Number(row[name]))));
    return rows.sort(([a], [b]) => a - b);
  };

  test('a row that another takes the place of leaves it its id, and the version that created it (P1)', async (t) => {
    const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 3, 'first'), options);
    const chunk = { file: fileOf([...rowsFrom(7, 1, 'new'), ...rowsFrom(1, 1, 'ours')]), rows: 2 };
    const updated = () => [undefined, { fragment: 0, offset: 1 }];
    const { fragments } = expectReplaced(await dataset.replaceRows(tracked, at(0, 1), chunk, { updated }));
    await replace(dataset, tracked, at(0, 0), rowsFrom(8, 1, 'other'));
    assert.deepEqual(await identitiesOf(stage), [
      [1, 'ours 1', 1, 1, 2],
      [2, 'first 2', 2, 1, 1],
      [7, 'new 7', 3, 2, 2],
      [8, 'other 8', 4, 3, 3],
    ]);
    const [appended] = fragments;
    const again = { file: fileOf(rowsFrom(1, 1, 'again')), rows: 1 };
    const whole = () => [{ fragment: appended!.id, offset: 1 }];
    expectReplaced(await dataset.replaceRows(tracked, whole(), again, { updated: whole }));
    expectReplaced(await dataset.appendRows(dataset.prepareRows({ file: fileOf(rowsFrom(9, 2, 'end')), rows: 2 })));
    const stored = await identitiesOf(stage);
    assert.deepEqual(stored[0], [1, 'again 1', 1, 1, 4]);
    assert.deepEqual(
      stored.slice(-2).map(([, , ...identity]) => identity),
      [
        [5, 5, 5],
        [6, 5, 5],
      ],
    );
  });

  test('many rows keep theirs, scattered and in a row, and a row is taken by its address', async (t) => {
    const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 5_000, 'first'), options);
    const ids = numbersFrom(0, 5_000)
      .filter((id) => id % 3 === 0 || id > 4_000)
      .reverse();
    const places = at(0, ...ids);
    const chunk = { file: fileOf(ids.map((id) => ({ id, text: `ours ${id}` }))), rows: ids.length };
    expectReplaced(await dataset.replaceRows(tracked, places, chunk, { updated: () => places }));
    for (const [id, , rowId, createdAt] of await identitiesOf(stage)) assert.deepEqual([rowId, createdAt], [id, 1]);
    const taken = dataset.take([addressOf({ fragment: 1, offset: 0 })], [{ name: 'id', expression: 'id' }]);
    const [file] = await Array.fromAsync(taken);
    assert.deepEqual(
      rowsOf(file!).map(({ id }) => id),
      [ids[0]],
    );
  });

  test('what another program appends and indexes has ids of its own, and is followed (P1)', async (t) => {
    const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 3, 'first'), options);
    const outside = await stage.outside();
    await outside.add([{ id: 20, text: 'theirs' }]);
    await dataset.refresh();
    tracked.advance(await dataset.version());
    await outside.createIndex('id', { config: Index.btree() });
    const place = () => at(0, 1);
    const chunk = { file: fileOf([...rowsFrom(1, 1, 'ours'), ...rowsFrom(30, 1, 'new')]), rows: 2 };
    expectReplaced(await dataset.replaceRows(tracked, place(), chunk, { updated: place }));
    const found = await identitiesOf(stage);
    const [ours, theirs] = [found.find(([id]) => id === 1), found.find(([id]) => id === 20)];
    assert.deepEqual(
      [ours, theirs],
      [
        [1, 'ours 1', 1, 1, 4],
        [20, 'theirs', 3, 2, 2],
      ],
    );
    assert.deepEqual(found.at(-1), [30, 'new 30', 4, 4, 4]);
    assert.deepEqual(await stage.contents(undefined, 'id = 1'), ['ours 1']);
  });
});

describe('what is not for replacing is refused: nothing is written, and what is tracked is as it was (P1)', () => {
  const plain = columns([int('id'), [1, 2]], [text('text'), ['a', 'b']]);
  const encoded = new Map([['lance-encoding:compression', 'zstd']]);
  const refusals: readonly (readonly [string, Table, Table, Properties?])[] = [
    ['a source with fewer columns', plain, columns([int('id'), [1]])],
    ['a source with more columns', plain, columns([int('id'), [1]], [text('text'), ['x']], [int('more'), [1]])],
    ['a source with the columns in another order', plain, columns([text('text'), ['x']], [int('id'), [1]])],
    ['a source with other names', plain, columns([int('id'), [1]], [text('TEXT'), ['x']])],
    ['a source with another type', plain, columns([new Field('id', new Int64(), true), [1n]], [text('text'), ['x']])],
    [
      'a source with NULL allowed where the table forbids it',
      columns([int('id', false), [1, 2]], [text('text'), ['a', 'b']]),
      columns([int('id'), [1]], [text('text'), ['x']]),
    ],
    [
      'a source with metadata for the encoding of a column',
      plain,
      columns([int('id', true, encoded), [1]], [text('text'), ['x']]),
    ],
    [
      'a source without the metadata for the encoding of a column',
      columns([int('id', true, encoded), [1, 2]], [text('text'), ['a', 'b']]),
      plain,
    ],
    ['a table with files of version 2.0', plain, plain, { new_table_data_storage_version: '2.0' }],
    ['a table with files of version 2.1', plain, plain, { new_table_data_storage_version: '2.1' }],
    ['a table with files of the first version', plain, plain, { new_table_data_storage_version: 'legacy' }],
  ];
  for (const [what, target, source, options] of refusals) {
    test(what, async (t) => {
      const stage = new Stage(t);
      const dataset = await createDataset(stage.engine, location, ipcFile(target), options ?? {});
      t.after(() => dataset.close());
      const tracked = await trackedRows(dataset);
      const before = stage.files();
      const chunk = { file: ipcFile(source), rows: source.numRows };
      assert.ok(isRefused(await dataset.replaceRows(tracked, at(0, 0), chunk)));
      assert.deepEqual(stage.files(), before);
      assert.deepEqual([tracked.version, [...tracked.rowsOf(0)]], [1, at(0, 0, 1)]);
      assert.equal(await dataset.countRows(), 2);
      if (options !== undefined) return;
      const fitting = { file: ipcFile(target), rows: 2 };
      expectReplaced(await dataset.replaceRows(tracked, at(0, 0, 1), fitting));
      assert.equal(await dataset.countRows(), 2);
    });
  }

  test('fewer rows than were to come', async (t) => {
    const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 3, 'first'));
    const before = stage.files();
    const chunk = { file: fileOf(rowsFrom(0, 2, 'second')), rows: 3 };
    assert.ok(isRefused(await dataset.replaceRows(tracked, at(0, 0), chunk)));
    assert.deepEqual(stage.files(), before);
  });

  test('columns after one that was dropped are taken, nested ones too: under the ids of the table', async (t) => {
    const struct = new Field('s', new Struct([int('a'), text('b')]), true);
    const values = (...ids: readonly number[]) => ids.map((id) => ({ a: id, b: `b${id}` }));
    const stage = new Stage(t);
    const target = columns([int('gone'), [0, 0]], [int('id'), [1, 2]], [struct, values(1, 2)]);
    const dataset = await createDataset(stage.engine, location, ipcFile(target), {});
    t.after(() => dataset.close());
    const outside = await stage.outside();
    await outside.dropColumns(['gone']);
    await outside.updateFieldMetadata([{ path: 's.b', metadata: { unit: 'm' } }]);
    await dataset.refresh();
    const tracked = await trackedRows(dataset);
    const source = columns([int('id'), [2, 3]], [struct, values(20, 30)]);
    expectReplaced(await dataset.replaceRows(tracked, at(0, 1), { file: ipcFile(source), rows: 2 }));
    const rows = await (await stage.outside()).query().toArray();
    assert.deepEqual(
      rows.map(({ id, s }: { id: number; s: { a: number; b: string } }) => [id, s.a, s.b]),
      [
        [1, 1, 'b1'],
        [2, 20, 'b20'],
        [3, 30, 'b30'],
      ],
    );
  });

  test('a column that was dropped and made anew without NULL', async (t) => {
    const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 3, 'first'));
    const outside = await stage.outside();
    await outside.dropColumns(['text']);
    await outside.addColumns([{ name: 'text', valueSql: "'anew'" }]);
    await dataset.refresh();
    tracked.advance(await dataset.version());
    const before = stage.files();
    assert.ok(isRefused(await replacing(dataset, tracked, at(0, 0), rowsFrom(0, 1, 'ours'))));
    assert.deepEqual(stage.files(), before);
    assert.deepEqual(await stage.contents(), ['anew', 'anew', 'anew']);
  });

  // Larger ones lie in files of their own beside the data file.
  for (const bytes of [10, 100_000, 5_000_000]) {
    const type = new Struct([new Field('data', new LargeBinary(), true), text('uri')]);
    const blob = new Field('blob', type, true, new Map([['ARROW:extension:name', 'lance.blob.v2']]));
    const rowsOf = (...ids: readonly number[]) =>
      columns([int('id'), ids], [blob, ids.map((id) => ({ data: Buffer.alloc(bytes, id), uri: null }))]);
    const storedIn = async (stage: Stage) => {
      const outside = await stage.outside();
      const found = (await outside.query().select(['id', '_rowaddr']).toArray()) as { _rowaddr: bigint }[];
      const addresses = found.map((row) => row._rowaddr);
      return (await outside.fetchBlobs('blob', addresses)).map((each) => [each?.length, each?.[0]]).sort();
    };
    const bothThere = [
      [bytes, 1],
      [bytes, 2],
    ];

    test(`a row with a blob of ${bytes} bytes has it after its replacement, unless that is refused (P1)`, async (t) => {
      const stage = new Stage(t);
      const dataset = await createDataset(stage.engine, location, ipcFile(rowsOf(1, 2)), {});
      t.after(() => dataset.close());
      const chunk = { file: ipcFile(rowsOf(1)), rows: 1 };
      const replaced = await dataset.replaceRows(await trackedRows(dataset), at(0, 0), chunk);
      if (!isRefused(replaced)) expectReplaced(replaced);
      assert.deepEqual(await storedIn(stage), bothThere);
    });

    test(`a row with a blob of ${bytes} bytes has it after it was moved, unless it was left where it is (P1)`, async (t) => {
      const stage = new Stage(t);
      const dataset = await createDataset(stage.engine, location, ipcFile(rowsOf(1)), {});
      t.after(() => dataset.close());
      await appendTo(dataset, ipcFile(rowsOf(2)));
      await (await dataset.prepareCompaction([0, 1]))?.commit();
      assert.deepEqual(await storedIn(stage), bothThere);
    });
  }
});

describe('values are stored as the engine stores those of a merge', () => {
  for (const codec of ['none', 'lz4', 'zstd'] satisfies readonly Codec[]) {
    test(`of every type, NULL among them, from a file with ${codec} compression`, async (t) => {
      const stage = new Stage(t);
      const chunk = (from: number, count: number, turn = 0) =>
        wholeOf(wideStream([wideRows(numbersFrom(from, from + count), turn)], codec));
      const [replaced, merged] = await Promise.all(
        ['t.lance', 'twin.lance'].map(async (name) =>
          createDataset(stage.engine, name as Location, (await chunk(0, 40)).file, {}),
        ),
      );
      t.after(() => [replaced, merged].map((dataset) => dataset?.close()));
      const tracked = await trackedRows(replaced!);
      let fragment = 0;
      for (const [from, turn] of [
        [30, 3],
        [45, 5],
      ] as const) {
        const rows = await chunk(from, 15, turn);
        const addresses = fragment === 0 ? at(0, ...numbersFrom(30, 40)) : [];
        await replaced!.replaceRows(tracked, addresses, rows).then(expectReplaced);
        await mergeInto(merged!, upsertOn('n'), rows.file);
        fragment += 1;
      }
      const stored = async (name: string) => {
        const found: Record<string, unknown[]> = await (await openStored(stage.folder, name)).rows();
        const order = (found.n ?? []).map((n, row) => ({ n: n as bigint, row })).sort((a, b) => Number(a.n - b.n));
        return Object.fromEntries(
          Object.entries(found).map(([column, of]) => [column, order.map(({ row }) => of[row])]),
        );
      };
      const expected = await stored('twin');
      assert.equal(expected.n?.length, 60);
      assert.deepEqual(await stored('t'), expected);
    });
  }

  test('columns without NULL go where NULL is allowed, nested ones too', async (t) => {
    const shape = (isNullable: boolean) => ({
      list: new List(new Field('item', new Int32(), isNullable)),
      vector: new FixedSizeList(2, new Field('item', new Float32(), isNullable)),
      struct: new Struct([
        int('a', isNullable),
        new Field('deep', new List(new Field('item', new Utf8(), isNullable)), isNullable),
      ]),
    });
    const rows = (isNullable: boolean, ...values: readonly (number | null)[]) => {
      const { list, vector, struct } = shape(isNullable);
      const each = <Value>(of: (value: number) => Value) => values.map((value) => (value === null ? null : of(value)));
      return columns(
        [int('id', false), values.map((value, index) => value ?? -index)],
        [int('int', isNullable), each((value) => value)],
        [text('text', isNullable), each(String)],
        [new Field('list', list, isNullable), each((value) => [value, value + 1])],
        // Arrow's JavaScript cannot write a NULL here.
        [new Field('vector', vector, isNullable), values.map((value) => [value ?? 0, 1])],
        [new Field('struct', struct, isNullable), each((value) => ({ a: value, deep: [`${value}`, 'x'] }))],
      );
    };
    const stage = new Stage(t);
    const read = async (name: string) => {
      const table = await (await connect(stage.folder)).openTable(name);
      const found = (await table.query().toArray()).map(
        (row: unknown) => JSON.parse(JSON.stringify(row)) as { id: number },
      );
      return found.sort((a, b) => a.id - b.id);
    };
    const [replaced, merged] = await Promise.all(
      ['t.lance', 'twin.lance'].map((name) =>
        createDataset(stage.engine, name as Location, ipcFile(rows(true, 1, null, 3, null)), {}),
      ),
    );
    t.after(() => [replaced, merged].map((dataset) => dataset?.close()));
    const source = ipcFile(rows(false, 3, 7, 8));
    const tracked = await trackedRows(replaced!);
    expectReplaced(await replaced!.replaceRows(tracked, at(0, 2), { file: source, rows: 3 }));
    await mergeInto(merged!, upsert, source);
    const expected = await read('twin');
    assert.deepEqual(
      expected.map(({ id }) => id),
      [-3, -1, 1, 3, 7, 8],
    );
    assert.deepEqual(await read('t'), expected);
    const filtered = await (await stage.outside()).query().where('struct.a = 7').select(['id', 'text']).toArray();
    assert.deepEqual(
      filtered.map(({ id, text: value }: Row) => [id, value]),
      [[7, '7']],
    );
    assert.equal(await replaced!.countRows(ownSql('int IS NULL')), 2);
  });
});

describe('manifests named by their version, as early releases of Lance did', () => {
  test('are followed by others named so', async (t) => {
    const { stage, dataset } = await opened(t, rowsFrom(0, 3, 'first'));
    dataset.close();
    const [newName, oldName] = manifestNames(1);
    renameSync(stage.path('_versions', newName), stage.path('_versions', oldName));
    rmSync(stage.path('_versions', 'latest_version_hint.json'), { force: true });
    const reopened = await stage.engine.open({ location });
    t.after(() => reopened.close());
    const tracked = await trackedRows(reopened);
    await replace(reopened, tracked, at(0, 0), rowsFrom(0, 1, 'second'));
    await replace(reopened, tracked, at(0, 1), rowsFrom(1, 1, 'third'));
    const names = readdirSync(stage.path('_versions')).filter((name) => name.endsWith('.manifest'));
    assert.deepEqual(names.sort(), ['1.manifest', '2.manifest', '3.manifest']);
    assert.deepEqual(await stage.contents(), ['second 0', 'third 1', 'first 2']);
    await (await stage.outside()).delete('id = 2');
    await reopened.refresh();
    assert.equal(await reopened.version(), 4);
    assert.deepEqual(await stage.contents(), ['second 0', 'third 1']);
  });
});

describe('what fails in the middle leaves the newest version as it was, and no file (P1, P6)', () => {
  /** A file takes the place of the folder while `run` does. */
  const without = async (folder: string, run: () => Promise<void>): Promise<void> => {
    renameSync(folder, `${folder} elsewhere`);
    writeFileSync(folder, '');
    await run().finally(() => {
      rmSync(folder);
      renameSync(`${folder} elsewhere`, folder);
    });
  };

  for (const folder of ['_deletions', 'data', '_transactions', '_versions']) {
    test(`where nothing can be written to ${folder}`, async (t) => {
      const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 5, 'first'));
      await replace(dataset, tracked, at(0, 0), rowsFrom(0, 1, 'second'));
      const before = stage.files();
      const content = await stage.contents();
      await without(stage.path(folder), async () => {
        await assert.rejects(replacing(dataset, tracked, [...at(0, 1), ...at(1, 0)], rowsFrom(0, 2, 'third')), {
          kind: 'Internal',
        });
      });
      assert.deepEqual(stage.files(), before);
      assert.deepEqual(await stage.contents(), content);
      assert.equal(await dataset.version(), 2);
      assert.deepEqual([...tracked.rowsOf(0), ...tracked.rowsOf(1)], [...at(0, 1, 2, 3, 4), ...at(1, 0)]);
      await mergeInto(dataset, upsert, fileOf(rowsFrom(0, 1, 'merged')));
      await replace(dataset, await trackedRows(dataset), at(0, 1), rowsFrom(1, 1, 'fourth'));
      assert.deepEqual(await stage.contents(undefined, 'id < 3'), ['merged 0', 'fourth 1', 'first 2']);
    });
  }

  test('where nothing can be staged at first, and later it can', async (t) => {
    const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 5, 'first'));
    const before = stage.files();
    writeFileSync(stage.path(basename(stagingFolder('/x'))), '');
    await assert.rejects(replacing(dataset, tracked, at(0, 0), rowsFrom(0, 1, 'second')), { kind: 'Internal' });
    rmSync(stage.path(basename(stagingFolder('/x'))));
    assert.deepEqual(stage.files(), before);
    await replace(dataset, tracked, at(0, 0), rowsFrom(0, 1, 'third'));
    assert.deepEqual(await stage.contents(undefined, 'id = 0'), ['third 0']);
  });

  test('where the file is none that the engine takes', async (t) => {
    const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 5, 'first'));
    const before = stage.files();
    const chunk = { file: Buffer.from('ARROW1') as IpcFile, rows: 1 };
    await assert.rejects(dataset.replaceRows(tracked, at(0, 0), chunk));
    assert.deepEqual(stage.files(), before);
    assert.equal(await dataset.countRows(), 5);
    await replace(dataset, tracked, at(0, 0), rowsFrom(0, 1, 'second'));
    assert.equal(await dataset.countRows(), 5);
  });

  test('and a storage that is full, or takes nothing, is named as such', () => {
    const kindOf = (code: string) =>
      translateEngineError('replace', Object.assign(new Error(`${code}: no, open '/x'`), { code }), '').kind;
    assert.deepEqual(['ENOSPC', 'EDQUOT'].map(kindOf), ['StorageFull', 'StorageFull']);
    assert.deepEqual(['EMFILE', 'ENFILE', 'EROFS', 'EACCES'].map(kindOf), Array(4).fill('StorageUnavailable'));
    assert.equal(kindOf('EIO'), 'Internal');
    const text = 'lance error: LanceError(IO): No space left on device (os error 28), /usr/local/cargo/x.rs:188:9';
    assert.equal(translateEngineError('replace', new Error(text), '').kind, 'StorageFull');
  });
});

describe('rows that were on their way when the process ended', () => {
  const leave = (folder: string): string => {
    const path = join(folder, basename(stagingFolder('/x')), 'x.lance', 'data');
    mkdirSync(path, { recursive: true });
    writeFileSync(join(path, 'x.lance'), 'half a file');
    return join(folder, basename(stagingFolder('/x')));
  };

  test('are removed by recovery, of the table and of a branch', async (t) => {
    const { stage, dataset } = await opened(t, rowsFrom(0, 5, 'first'));
    await dataset.createBranch(dev, { branch: undefined, version: undefined });
    const { storageSession } = stage.engine;
    const [ofMain, ofBranch] = [leave(stage.path()), leave(stage.path('tree', dev))];
    await stage.engine.recover({ location, branch: dev, acknowledgedVersion: 1, storageSession });
    assert.deepEqual([existsSync(ofMain), existsSync(ofBranch)], [true, false]);
    const recovery = await stage.engine.recover({
      location,
      branch: undefined,
      acknowledgedVersion: 1,
      storageSession,
    });
    assert.deepEqual([existsSync(ofMain), recovery.version, recovery.removed], [false, 1, []]);
    assert.deepEqual(await stage.contents(), textsOf(rowsFrom(0, 5, 'first')));
  });

  test('do no harm until then, and those that arrive leave nothing behind', async (t) => {
    const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 5, 'first'));
    const left = leave(stage.path());
    for (const round of numbersFrom(0, 5)) await replace(dataset, tracked, at(round, 0), rowsFrom(round, 1, 'second'));
    await eventually('all that was staged is gone', () => namesIn(left).every((name) => name === 'x.lance'));
    const expected = [...rowsFrom(1, 4, 'first'), ...rowsFrom(4, 1, 'second')];
    assert.deepEqual(await stage.contents(), textsOf(expected));
  });

  test('and while they are on their way, a dataset that is opened shows nothing of them', async (t) => {
    const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 5, 'first'));
    leave(stage.path());
    assert.deepEqual(await (await connect(stage.folder)).tableNames(), ['t']);
    await (await stage.outside()).optimize({ cleanupOlderThan: new Date(), deleteUnverified: true });
    tracked.advance(await dataset.version());
    await replace(dataset, tracked, at(0, 0), rowsFrom(0, 1, 'second'));
    assert.equal((await stage.contents()).length, 5);
  });
});

test('the hint of the newest version names it', async (t) => {
  const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 5, 'first'));
  const hint = stage.path('_versions', 'latest_version_hint.json');
  await replace(dataset, tracked, at(0, 0), []);
  assert.deepEqual(JSON.parse(readFileSync(hint, 'utf8')), { version: 2 });
  await appendTo(dataset, fileOf(rowsFrom(5, 1, 'engine')));
  assert.deepEqual(JSON.parse(readFileSync(hint, 'utf8')), { version: 3 });
  writeFileSync(hint, '{"version":18446744073709551615}');
  tracked.advance(3);
  await replace(dataset, tracked, at(0, 1), []);
  assert.deepEqual(JSON.parse(readFileSync(hint, 'utf8')), { version: 4 }, 'nothing is left of a longer one');
});

test('rows that the engine wrote once are committed by the attempt that is not overtaken (P1)', async (t) => {
  const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 5, 'first'));
  const prepared = dataset.prepareRows({ file: fileOf(rowsFrom(0, 1, 'ours')), rows: 1 });
  const outside = await stage.outside();
  await outside.delete('id = 3');
  assert.equal(await dataset.replaceRows(tracked, at(0, 0), prepared), 'overtaken');
  await dataset.refresh();
  tracked.advance(await dataset.version());
  expectReplaced(await dataset.replaceRows(tracked, at(0, 0), prepared));
  prepared.discard();
  assert.deepEqual(await stage.contents(), ['ours 0', 'first 1', 'first 2', 'first 4']);
});

test('rows that no attempt committed leave no file when they are discarded', async (t) => {
  const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 5, 'first'));
  const prepared = dataset.prepareRows({ file: fileOf(rowsFrom(0, 1, 'ours')), rows: 1 });
  await (await stage.outside()).delete('id = 3');
  const before = stage.files();
  assert.equal(await dataset.replaceRows(tracked, at(0, 0), prepared), 'overtaken');
  prepared.discard();
  assert.deepEqual(stage.files(), before);
});

test('another table in the same folder is left as it is, though its version has the same number (P1)', async (t) => {
  const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 5, 'first'));
  const outside = await connect(stage.folder);
  await outside.dropTable('t');
  await outside.createTable(
    't',
    rowsFrom(0, 5, 'theirs').map((row) => ({ ...row })),
  );
  const chunk = { file: fileOf(rowsFrom(0, 1, 'ours')), rows: 1 };
  assert.equal(await dataset.replaceRows(tracked, [{ fragment: 0, offset: 0 }], chunk), 'overtaken');
  assert.equal(await (await outside.openTable('t')).countRows("text LIKE 'theirs%'"), 5);
});

test('nor are its rows taken for those of before, once it has more versions (P1, P2)', async (t) => {
  const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 5, 'first'));
  const outside = await connect(stage.folder);
  await outside.dropTable('t');
  const theirs = await outside.createTable(
    't',
    rowsFrom(0, 5, 'theirs').map((row) => ({ ...row })),
  );
  await theirs.add([{ id: 6, text: 'theirs 6' }]);
  await dataset.refresh();
  assert.equal(dataset.isReplaced, true);
  assert.equal(tracked.advance(2).isKnown, false);
});

test('a table that lists its new keys for other writers is for the engine to write to (P2)', async (t) => {
  const keyed = (...ids: readonly number[]): IpcFile => {
    const [batch] = new Table({ id: vectorFromArray(ids, new Int32()) }).batches;
    const key = new Field('id', new Int32(), false, new Map([['lance-schema:unenforced-primary-key', 'true']]));
    return ipcFile(new Table([new RecordBatch(new Schema([key]), batch!.data)]));
  };
  const stage = new Stage(t);
  const dataset = await createDataset(stage.engine, location, keyed(1, 2), {});
  t.after(() => dataset.close());
  await appendTo(dataset, keyed(3));
  const tracked = await trackedRows(dataset);
  assert.ok(isRefused(await dataset.replaceRows(tracked, [], { file: keyed(4), rows: 1 })));
  await (await dataset.prepareCompaction([0, 1]))?.commit();
  assert.equal((await dataset.layout()).fragments.length, 1, 'its fragments can be compacted');
  assert.equal(await dataset.countRows(), 3);
});

function replacementIn(folder: string, dataset: Dataset, commits: FolderCommits, fresh: Fresh): RowReplacement {
  const head = {
    isReplaced: false,
    requireWritable: () => undefined,
    readableVersion: () => dataset.version(),
    committedPastHandle: () => undefined,
  };
  const versionsFolder = join(folder, '_versions');
  return new RowReplacement({
    ...{ versionsFolder, commits, fresh, staging: new Staging(folder) },
    loop: new CommitLoop({ head, versionsFolder, commits, fresh }),
    readStaged: () => assert.fail('nothing is read'),
  });
}

test('a version is dated before whatever time is noted after its commit, in whole milliseconds', async (t) => {
  const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 5, 'first'));
  const folder = join(stage.folder, 't.lance');
  const nowMs = 1_800_000_000_000;
  const fresh = { nowMs: () => nowMs, uuid: randomUUID };
  const replacement = replacementIn(folder, dataset, new FolderCommits(folder, new FileWriter()), fresh);
  const made = await replacement.replace(tracked as LiveRowMap, [], { file: fileOf(rowsFrom(5, 1, 'ours')), rows: 1 });
  const file = readManifest(join(folder, '_versions'), expectReplaced(made).version);
  assert.equal(parseManifest(file?.bytes ?? Buffer.of()).committedAtMs, nowMs - 1);
});

test('a commit that was overtaken leaves no time for another program at its next attempt', async (t) => {
  const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 2, 'first'));
  for (const n of numbersFrom(1, 10)) await appendTo(dataset, fileOf(rowsFrom(2 * n, 2, 'first')));
  tracked.advance(await dataset.version());
  const folder = stage.path();
  const wereThere: boolean[] = [];
  const outcomes = [false, true].values();
  class Watched extends FolderCommits {
    override place(...of: Parameters<FolderCommits['place']>): ReturnType<FolderCommits['place']> {
      const placed = super.place(...of);
      if (of[0].length > 8) wereThere.push(of[0].every(({ to }) => existsSync(join(folder, to))));
      return placed;
    }

    override async make(...of: Parameters<FolderCommits['make']>): Promise<boolean> {
      return outcomes.next().value === true && super.make(...of);
    }
  }
  const files = new FileWriter();
  t.after(() => files.close());
  const fresh = { nowMs: Date.now, uuid: randomUUID };
  const replacement = replacementIn(folder, dataset, new Watched(folder, files), fresh);
  const replaceFirstOfEach = () => {
    const old = numbersFrom(0, 10).flatMap((fragment) => at(fragment, 0));
    return replacement.replace(tracked as LiveRowMap, old, { file: fileOf(rowsFrom(0, 10, 'ours')), rows: 10 });
  };
  assert.equal(await replaceFirstOfEach(), 'overtaken');
  assert.equal(typeof (await replaceFirstOfEach()), 'object');
  assert.deepEqual(wereThere, [false, true], 'the second one writes before anything else can happen');
  assert.equal(await dataset.countRows(), 20);
});
