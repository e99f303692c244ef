/** The engine changes a shadow, and all that it did becomes one version of the branch, or none. */
import assert from 'node:assert/strict';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { connect, Index } from '@lancedb/lancedb';
import { Field, Int32, Schema, Table, Utf8, vectorFromArray } from 'apache-arrow';
import type { IpcFile } from '#src/arrow/format/ipc-file.ts';
import type { Dataset } from '#src/engine/port/dataset.ts';
import type { Engine } from '#src/engine/port/engine.ts';
import { btreeOn } from '#src/engine/port/index-spec.ts';
import type { MergeSpec } from '#src/engine/port/merge-spec.ts';
import { isMade } from '#src/engine/port/refusal.ts';
import { addressesAmong, type RowAddressSql, rowAddress } from '#src/engine/port/row-address.ts';
import type { Shadow } from '#src/engine/port/shadow.ts';
import { ownSql } from '#src/kernel/checked-sql.ts';
import type { BranchName, Location, Properties } from '#src/kernel/ids.ts';
import { transaction, update } from '#src/lance-format/messages.ts';
import { decode } from '#src/lance-format/protobuf.ts';
import { transactionsBetween } from '#src/lance-format/transaction/transaction.ts';
import { ipcFile, rowsOf } from '#test/fixtures/arrow-files.ts';
import { allVersions, createDataset } from '#test/fixtures/create-dataset.ts';
import { createIndex } from '#test/fixtures/create-index.ts';
import { engineIn } from '#test/fixtures/engine-in.ts';
import { appendTo, mergeInto } from '#test/fixtures/engine-writes.ts';
import { externalWriterOn } from '#test/fixtures/external-writer.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { upsertOn } from '#test/fixtures/upsert.ts';
import { numbersFrom } from '#test/http/wide-table.ts';

const location = 't.lance' as Location;
const upsert = upsertOn('id');
const keyed = (ids: readonly number[], text: string): IpcFile =>
  ipcFile(
    new Table({
      id: vectorFromArray(ids, new Int32()),
      text: vectorFromArray(
        ids.map(() => text),
        new Utf8(),
      ),
    }),
  );

async function tableOf(t: TestContext, { isIndexed = true } = {}) {
  const folder = temporaryFolder((clean) => t.after(clean));
  const engine = engineIn(folder);
  const dataset = await createDataset(engine, location, keyed(numbersFrom(0, 1_000), 'first'), {});
  if (isIndexed) await createIndex(dataset, 'id');
  await appendTo(dataset, keyed(numbersFrom(1_000, 1_100), 'later'));
  await dataset.refresh();
  t.after(() => engine.close());
  return { engine, dataset, folder };
}

const columns = ['id', 'text'].map((name) => ({ name, expression: name }));

async function contentOf(dataset: Pick<Dataset, 'select'>, where?: string): Promise<Map<number, string>> {
  const files = await Array.fromAsync(dataset.select(columns, where === undefined ? undefined : ownSql(where)));
  const rows = files.flatMap((file) => rowsOf(file)) as { id: number; text: string }[];
  const content = new Map(rows.map(({ id, text }) => [id, text]));
  assert.equal(content.size, rows.length, 'a key is there twice');
  return new Map([...content].sort(([a], [b]) => a - b));
}

async function addressesOf(dataset: Pick<Dataset, 'select'>, where: string): Promise<RowAddressSql[]> {
  const address = [{ name: 'address', expression: rowAddress }];
  const files = await Array.fromAsync(dataset.select(address, ownSql(where)));
  return files.flatMap((file) => rowsOf(file)).map((row) => String(row.address) as RowAddressSql);
}

/** Every file of the table, without those of shadows that are kept. */
const filesOf = (folder: string): string[] =>
  (readdirSync(join(folder, location), { recursive: true }) as string[])
    .filter((path) => !path.startsWith('lancegate=staging') && statSync(join(folder, location, path)).isFile())
    .sort();

const reopened = (engine: Engine, branch?: BranchName): Promise<Dataset> => engine.open({ location, branch });

describe('what the engine does in a shadow', () => {
  test('is one version of the table, however many steps it took (P1)', async (t) => {
    const { engine, dataset } = await tableOf(t);
    const before = await contentOf(dataset);
    const shadow = await dataset.shadow();
    const totals = await mergeInto(shadow, upsert, keyed([5, 1_050, 2_000], 'merged'));
    assert.deepEqual([totals.numUpdatedRows, totals.numInsertedRows, totals.numDeletedRows], [2, 1, 0]);
    const limits = { timeoutMs: undefined, principal: undefined };
    await shadow.change({ kind: 'append', rows: 1 }, keyed([3_000], 'appended'), limits);
    assert.equal(await shadow.deleteWhere(addressesAmong(await addressesOf(shadow, 'id = 6 OR id = 3000'))), 2);
    assert.equal(await shadow.deleteWhere(ownSql('id < 3')), 3);
    assert.deepEqual(await contentOf(await reopened(engine)), before, 'a step is seen before the commit');
    const version = await dataset.version();
    assert.deepEqual(await shadow.commit(), { version: version + 1 });
    const expected = new Map(before);
    for (const id of [5, 1_050, 2_000]) expected.set(id, 'merged');
    for (const id of [0, 1, 2, 6]) expected.delete(id);
    assert.equal(await dataset.version(), version + 1);
    assert.deepEqual(await contentOf(dataset), expected);
    assert.deepEqual(await contentOf(await reopened(engine)), expected);
  });

  test('lists the keys of the step that inserted them, where they are a declared primary key (P2)', async (t) => {
    const folder = temporaryFolder((clean) => t.after(clean));
    const engine = engineIn(folder);
    t.after(() => engine.close());
    const key = new Field('id', new Int32(), false, new Map([['lance-schema:unenforced-primary-key', 'true']]));
    const schema = new Schema([key, new Field('text', new Utf8())]);
    const declared = (...ids: number[]): IpcFile =>
      ipcFile(
        new Table(schema, {
          id: vectorFromArray(ids, new Int32()),
          text: vectorFromArray(ids.map(String), new Utf8()),
        }),
      );
    const dataset = await createDataset(engine, location, declared(1, 2), {});
    await appendTo(dataset, declared(2));
    await dataset.refresh();
    const shadow = await dataset.shadow();
    await mergeInto(shadow, upsert, declared(2, 3));
    assert.equal(await shadow.deleteWhere(addressesAmong((await addressesOf(shadow, 'id = 2')).slice(1))), 1);
    assert.deepEqual(await shadow.commit(), { version: 3 });
    assert.deepEqual([...(await contentOf(dataset)).keys()], [1, 2, 3]);
    const [recorded] = transactionsBetween(join(folder, location, '_versions'), 2, 3);
    const { update: change = Buffer.of() } = decode(transaction, recorded!);
    assert.ok(decode(update, change).insertedRows, 'other programs cannot see which keys were inserted');
  });

  test('is found through the index as without it', async (t) => {
    const { dataset, folder } = await tableOf(t);
    const shadow = await dataset.shadow();
    await mergeInto(shadow, upsert, keyed([5, 1_050, 2_000], 'merged'));
    await shadow.commit();
    const table = await (await connect(folder)).openTable('t');
    const plan = await table.query().where('id IN (5, 2000)').explainPlan(true);
    assert.match(plan, /id_idx/);
    const found = await table.query().where('id IN (4, 5, 1050, 2000)').toArray();
    assert.deepEqual(found.map(({ text }) => text).sort(), ['first', 'merged', 'merged', 'merged']);
  });

  test('leaves nothing where another program was first, and can be done again (P2)', async (t) => {
    const { dataset, folder } = await tableOf(t);
    const shadow = await dataset.shadow();
    await mergeInto(shadow, upsert, keyed([5, 2_000], 'merged'));
    await (await externalWriterOn(folder, location)).add(
      new Table({ id: vectorFromArray([2_000], new Int32()), text: vectorFromArray(['theirs'], new Utf8()) }),
    );
    const files = filesOf(folder);
    assert.equal(await shadow.commit(), 'overtaken');
    assert.deepEqual(filesOf(folder), files);
    await dataset.refresh();
    const again = await dataset.shadow();
    const { numUpdatedRows } = await mergeInto(again, upsert, keyed([5, 2_000], 'merged'));
    assert.equal(numUpdatedRows, 2);
    assert.notEqual(await again.commit(), 'overtaken');
    assert.equal((await contentOf(dataset)).get(2_000), 'merged');
  });

  test('leaves nothing once it is discarded or has failed (P6)', async (t) => {
    const { dataset, folder } = await tableOf(t);
    const files = filesOf(folder);
    const before = await contentOf(dataset);
    const shadow = await dataset.shadow();
    await mergeInto(shadow, upsert, keyed([5, 2_000], 'merged'));
    shadow.discard();
    const failing = await dataset.shadow();
    const broken: MergeSpec = { ...upsert, on: ['id', 'nowhere'] };
    await assert.rejects(mergeInto(failing, broken, keyed([5], 'x')), { name: 'LancegateError' });
    failing.discard();
    assert.deepEqual(filesOf(folder), files);
    await dataset.refresh();
    assert.deepEqual(await contentOf(dataset), before);
  });

  test('goes to its branch and not to main', async (t) => {
    const { engine, dataset } = await tableOf(t);
    const name = 'feature/x' as BranchName;
    await dataset.branches.create(name, { branch: undefined, version: undefined });
    const main = await contentOf(dataset);
    const branch = await reopened(engine, name);
    for (const text of ['once', 'twice']) {
      const shadow = await branch.shadow();
      await mergeInto(shadow, upsert, keyed([5, 1_050, 2_000], text));
      assert.notEqual(await shadow.commit(), 'overtaken');
    }
    const expected = new Map(main);
    for (const id of [5, 1_050, 2_000]) expected.set(id, 'twice');
    assert.deepEqual(await contentOf(await reopened(engine, name)), expected);
    assert.deepEqual(await contentOf(await reopened(engine)), main);
  });

  test('a table with an index that takes part in commits is changed by commits of the engine', async (t) => {
    const folder = temporaryFolder((clean) => t.after(clean));
    const engine = engineIn(folder);
    const dataset = await createDataset(engine, location, keyed(numbersFrom(0, 10), 'first'), {});
    await (await (await connect(folder)).openTable('t')).createIndex('id', { config: Index.btree(), name: '__own' });
    await dataset.refresh();
    const shadow = await dataset.shadow();
    await mergeInto(shadow, upsert, keyed([5, 20], 'merged'));
    assert.deepEqual(await shadow.commit(), { version: 3 });
    assert.equal((await contentOf(await reopened(engine))).get(20), 'merged');
    const limits = { timeoutMs: undefined, principal: undefined };
    const [first, second] = ["'a'", "'b'"].map((value) => [{ column: 'text', value: ownSql(value) }]);
    const rounds = { kind: 'update', where: undefined, set: first!, laterRounds: [second!] } as const;
    await assert.rejects((await dataset.shadow()).change(rounds, undefined, limits), { kind: 'InvalidInput' });
    assert.equal((await contentOf(await reopened(engine))).get(20), 'merged', 'no round was made');
  });
});

/** A table, an external writer, and a map of what the table should have; `random` repeats with the same seed. */
class Model {
  readonly content: Map<number, string>;
  readonly #stage: Awaited<ReturnType<typeof tableOf>>;
  readonly #externalWriter: Awaited<ReturnType<typeof externalWriterOn>>;
  #seed = 7;

  constructor(
    stage: Awaited<ReturnType<typeof tableOf>>,
    externalWriter: Awaited<ReturnType<typeof externalWriterOn>>,
    content: Map<number, string>,
  ) {
    this.#stage = stage;
    this.#externalWriter = externalWriter;
    this.content = content;
  }

  random(below: number): number {
    this.#seed = (this.#seed * 1_103_515_245 + 12_345) % 2 ** 31;
    return this.#seed % below;
  }

  async round(round: number, isIndexed: boolean): Promise<void> {
    const { dataset } = this.#stage;
    if (this.random(6) === 0) await this.#commitOutside(10_000 + round, `round ${round}`);
    if (this.random(8) === 0 && isIndexed) await createIndex(dataset, 'id');
    await dataset.refresh();
    const shadow = await dataset.shadow();
    const ids = [...new Set(Array.from({ length: 1 + this.random(20) }, () => this.random(1_300)))];
    const { numUpdatedRows } = await mergeInto(shadow, upsert, keyed(ids, `round ${round}`));
    assert.equal(numUpdatedRows, ids.filter((id) => this.content.has(id)).length, `round ${round}`);
    if (this.random(5) === 0) return shadow.discard();
    for (const id of ids) this.content.set(id, `round ${round}`);
    if (this.random(3) === 0) await this.#deleteSome(shadow);
    assert.deepEqual(await shadow.commit(), { version: await dataset.version() });
  }

  async #commitOutside(id: number, text: string): Promise<void> {
    await this.#externalWriter.add(
      new Table({ id: vectorFromArray([id], new Int32()), text: vectorFromArray([text], new Utf8()) }),
    );
    this.content.set(id, text);
  }

  async #deleteSome(shadow: Shadow): Promise<void> {
    const from = this.random(1_200);
    await shadow.deleteWhere(ownSql(`id >= ${from} AND id < ${from + 5}`));
    for (const id of numbersFrom(from, from + 5)) this.content.delete(id);
  }
}

describe('shadows one after the other, concurrently with other commits', () => {
  for (const isIndexed of [true, false]) {
    test(`leave what a map would have, ${isIndexed ? 'with' : 'without'} an index`, async (t) => {
      const stage = await tableOf(t, { isIndexed });
      const model = new Model(stage, await externalWriterOn(stage.folder, location), await contentOf(stage.dataset));
      for (let round = 0; round < 60; round += 1) await model.round(round, isIndexed);
      const expected = new Map([...model.content].sort(([a], [b]) => a - b));
      assert.deepEqual(await contentOf(stage.dataset), expected);
      assert.deepEqual(await contentOf(await reopened(stage.engine)), expected);
    });
  }
});

/** The commit of the index may come first. */
async function untilCommitted(dataset: Dataset, file: IpcFile): Promise<void> {
  for (;;) {
    await dataset.refresh();
    const shadow = await dataset.shadow();
    await mergeInto(shadow, upsert, file);
    if ((await shadow.commit()) !== 'overtaken') return;
  }
}

describe('an index', () => {
  test('is built concurrently with commits, and covers what was there when it began (P8)', async (t) => {
    const { engine, dataset, folder } = await tableOf(t, { isIndexed: false });
    const externalWriter = await externalWriterOn(folder, location);
    const theirs = (id: number) =>
      new Table({ id: vectorFromArray([id], new Int32()), text: vectorFromArray(['theirs'], new Utf8()) });
    const other = await reopened(engine);
    const index = await other.prepareIndex(btreeOn('id'));
    for (const id of [5_000, 5_001]) {
      await externalWriter.add(theirs(id));
      await untilCommitted(dataset, keyed([id, 7], 'merged'));
    }
    assert.ok(isMade(await index.commit()));
    await dataset.refresh();
    const { indexes, rows } = await dataset.layout();
    assert.deepEqual(
      indexes.map(({ columns, isPlain }) => [columns, isPlain]),
      [[['id'], true]],
    );
    assert.equal(rows, 1_102);
    const found = await contentOf(dataset, 'id IN (7, 8, 5000, 5001)');
    assert.deepEqual([...found.values()], ['merged', 'first', 'merged', 'merged']);
  });

  test('is not made of a column that has got other values meanwhile', async (t) => {
    const folder = temporaryFolder((clean) => t.after(clean));
    const engine = engineIn(folder);
    const column = () => vectorFromArray(numbersFrom(0, 100), new Int32());
    const rows = new Table({ id: column(), n: column(), other: column() });
    const dataset = await createDataset(engine, location, ipcFile(rows), {});
    await createIndex(dataset, 'id'); // with it, the engine writes columns anew for rows that stay where they are
    const [ofOther, ofChanged] = [
      await dataset.prepareIndex(btreeOn('other')),
      await dataset.prepareIndex(btreeOn('n')),
    ];
    const [id, n] = [vectorFromArray([5], new Int32()), vectorFromArray([-5], new Int32())];
    const shadow = await dataset.shadow();
    const updates = { ...upsert, whenNotMatchedInsertAll: false };
    await mergeInto(shadow, updates, ipcFile(new Table({ id, n })));
    assert.notEqual(await shadow.commit(), 'overtaken');
    assert.equal(await ofChanged.commit(), 'overtaken');
    assert.ok(isMade(await ofOther.commit()));
  });
});

describe('a new table', () => {
  const pieces = [numbersFrom(0, 100), numbersFrom(100, 150), [], numbersFrom(150, 400)];

  async function created(t: TestContext, options: Properties) {
    const folder = temporaryFolder((clean) => t.after(clean));
    const engine = engineIn(folder);
    const table = await engine.newTable(location, options);
    for (const piece of pieces) await table.append(keyed(piece, 'new'));
    assert.equal(await table.countRows(), 400);
    return { folder, engine, table };
  }

  const kinds: Record<string, Properties> = {
    'as the engine makes it by default': {},
    'with rows that have identifiers of their own': { new_table_enable_stable_row_ids: 'true' },
    'with manifests under their old names': { new_table_enable_v2_manifest_paths: 'false' },
  };
  for (const [kind, options] of Object.entries(kinds)) {
    test(`${kind} is version 1, in any number of appends (P1)`, async (t) => {
      const { engine, table } = await created(t, options);
      await assert.rejects(engine.open({ location }), { kind: 'TableNotFound' });
      assert.equal(await table.commit(), 1);
      const dataset = await engine.open({ location });
      assert.deepEqual(
        (await dataset.versionPage(allVersions)).map(({ version }) => version),
        [1],
      );
      assert.deepEqual([...(await contentOf(dataset)).keys()], numbersFrom(0, 400));
      await dataset.sync();
      await appendTo(dataset, keyed([400], 'later'));
      assert.equal((await contentOf(await reopened(engine))).size, 401);
    });
  }

  test('refuses to take the place of another one, and leaves nothing of its own', async (t) => {
    const { folder, engine, table } = await created(t, {});
    await createDataset(engine, location, keyed([7], 'theirs'), {});
    const files = filesOf(folder);
    await assert.rejects(table.commit(), { kind: 'ConcurrentCreate' });
    assert.deepEqual(filesOf(folder), files);
    assert.deepEqual([...(await contentOf(await reopened(engine))).keys()], [7]);
  });
});
