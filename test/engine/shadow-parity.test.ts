/**
 * What a shadow makes of an operation of the engine is what the engine makes of it on the table itself: rows, manifest, indexes
 * and recorded transaction. With `LANCEGATE_PARITY` set to a folder, the tables stay there for `test/clients/shadow_parity.py`,
 * which has other versions of Lance read and write them.
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { cpSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import { Float64, Int32, Schema, Table, tableToIPC, Utf8, vectorFromArray } from 'apache-arrow';
import { connectNative, type NativeTable, nativeBtree, newSession } from '#src/engine/lance/native/native.ts';
import { type CheckedSql, ownSql } from '#src/kernel/checked-sql.ts';
import { branchFolder, listVersions, manifestNames, readManifest } from '#src/lance-format/manifest/manifest-files.ts';
import { liftedVersion } from '#src/lance-format/shadow/lifted-version.ts';
import { shadowManifest } from '#src/lance-format/shadow/shadow-manifest.ts';
import { transactionsBetween } from '#src/lance-format/transaction/transaction.ts';
import { ipcFile, rowsOf } from '#test/fixtures/arrow-files.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { numbersFrom } from '#test/http/wide-table.ts';
import { plainManifest } from './plain-manifest.ts';

const column = { id: Int32, v: Utf8, n: Float64 };
const rows = (ids: readonly number[], v: string) =>
  new Table({
    id: vectorFromArray(ids, new column.id()),
    v: vectorFromArray(
      ids.map(() => v),
      new column.v(),
    ),
    n: vectorFromArray(ids, new column.n()),
  });
const file = (ids: readonly number[], v: string) => ipcFile(rows(ids, v));
/** Without column v. */
const partial = (...ids: readonly number[]) => ipcFile(rows(ids, '').select(['id', 'n']));

type Operation = (table: NativeTable) => Promise<unknown>;

const upsert = (table: NativeTable) => table.mergeInsert(['id']).whenMatchedUpdateAll().whenNotMatchedInsertAll();
const updates = (table: NativeTable) => table.mergeInsert(['id']).whenMatchedUpdateAll();

const operations: Record<string, Operation> = {
  upsert: (table) => upsert(table).execute(file([5, 1_500, 9_000, 9_001], 'up')),
  'an upsert without the index': (table) =>
    upsert(table)
      .useIndex(false)
      .execute(file([5, 1_500, 9_000], 'up')),
  'an upsert of a whole fragment': (table) => upsert(table).execute(file(numbersFrom(2_000, 2_500), 'up')),
  'inserts only': (table) =>
    table
      .mergeInsert(['id'])
      .whenNotMatchedInsertAll()
      .execute(file([5, 9_000], 'ins')),
  'updates only': (table) => updates(table).execute(file([5, 7, 9_000], 'upd')),
  'an upsert with a filter': (table) =>
    table
      .mergeInsert(['id'])
      .whenMatchedUpdateAll(ownSql('target.id > 6'))
      .whenNotMatchedInsertAll()
      .execute(file([5, 7, 9_000], 'filtered')),
  'deletes by source': (table) =>
    upsert(table)
      .whenNotMatchedBySourceDelete(ownSql('n < 100'))
      .execute(file([5, 7, 9_000], 'source')),
  'some columns': (table) => updates(table).execute(partial(5, 7, 1_500)),
  'some columns and inserts': (table) => upsert(table).execute(partial(5, 7, 9_000)),
  'a merge that matches nothing': (table) => updates(table).execute(file([99_999], 'none')),
  append: (table) => table.add(file([70_000, 70_001], 'app'), 'append'),
  'a delete': (table) => table.delete(ownSql('id = 8 OR (id > 1400 AND id < 1410)')),
  'a delete of whole fragments': (table) => table.delete(ownSql('id >= 1000 AND id < 2000')),
  'a delete of all rows': (table) => table.delete(ownSql('true')),
  'a delete by row id': (table) => table.delete(ownSql('_rowid IN (11, 12, 4294967300)')),
  'an update': (table) => table.update(ownSql('id = 9 OR id = 1501'), [['v', "'upd'"]]),
  'a new column of NULL': (table) => table.addColumnsWithSchema(nullColumn),
  'a dropped column': (table) => table.dropColumns(['n']),
  'a new index': (table) => table.createIndex(nativeBtree(), 'n', true),
  'an index built anew': (table) => table.createIndex(nativeBtree(), 'id', true),
};

const nullColumn = Buffer.from(
  tableToIPC(
    new Table(
      new Schema(
        rows([], '')
          .select(['n'])
          .schema.fields.map((field) => named(field, 'q')),
      ),
    ),
    'file',
  ),
);

function named<Field extends { clone(props: { name: string }): Field }>(field: Field, name: string): Field {
  return field.clone({ name });
}

interface Kind {
  readonly isIndexed: boolean;
  readonly isChanged: boolean;
  readonly branch?: string;
}

const kinds: Record<string, Kind> = {
  'a plain table': { isIndexed: false, isChanged: false },
  'a table with an index and deletion vectors': { isIndexed: true, isChanged: true },
  'a branch': { isIndexed: true, isChanged: true, branch: 'feature/x' },
};

/** No caches: tables get the places of others. */
async function open(folder: string, branch?: string): Promise<NativeTable> {
  const table = await (await connectNative(folder, {}, newSession(0, 0))).openTable('t', []);
  return (branch === undefined ? table : await (await table.branches()).checkout(branch)) as NativeTable;
}

async function build(folder: string, { isIndexed, isChanged, branch }: Kind): Promise<void> {
  await (await connect(folder)).createTable('t', rows(numbersFrom(0, 1_000), 'a'));
  const table = await open(folder);
  await table.add(file(numbersFrom(1_000, 2_000), 'b'), 'append');
  if (isIndexed) await table.createIndex(nativeBtree(), 'id', true);
  await table.add(file(numbersFrom(2_000, 2_500), 'c'), 'append');
  if (isChanged) {
    await table.delete(ownSql('id = 3 OR id = 1700'));
    await upsert(table).execute(file([6, 1_600, 8_000], 'd'));
  }
  if (branch === undefined) return;
  const own = await (await table.branches()).create(branch, null, null);
  await upsert(own).execute(file([10, 11, 7_777], 'e'));
  await own.delete(ownSql('id = 12'));
}

const newestOf = (dataset: string) => {
  const versions = join(dataset, '_versions');
  return readManifest(versions, listVersions(versions).at(-1) ?? 0)?.bytes ?? Buffer.of();
};

/** `later`: by how many versions the shadow is ahead, as one is that is kept. */
async function inShadow(dataset: string, operation: Operation, later: number): Promise<void> {
  const original = newestOf(dataset);
  const version = (listVersions(join(dataset, '_versions')).at(-1) ?? 0) + later;
  const shadow = join(dataset, 'lancegate=staging', 't.lance');
  mkdirSync(join(shadow, '_versions'), { recursive: true });
  const manifest = shadowManifest(original, { folder: dataset, version });
  writeFileSync(join(shadow, '_versions', manifestNames(version)[0]), manifest);
  await operation(await open(dirname(shadow)));
  const newest = listVersions(join(shadow, '_versions')).at(-1) ?? 0;
  const steps = transactionsBetween(join(shadow, '_versions'), version, newest).filter((step) => step !== undefined);
  const made = { transactionId: randomUUID(), committedAtMs: Date.now() };
  const lifted = liftedVersion({ original, result: newestOf(shadow), steps, ...made });
  for (const { from, to } of lifted.files) {
    mkdirSync(dirname(join(dataset, to)), { recursive: true });
    renameSync(join(shadow, from), join(dataset, to));
  }
  writeFileSync(join(dataset, '_transactions', lifted.transactionFile), lifted.transaction);
  writeFileSync(join(dataset, '_versions', manifestNames(lifted.version)[0]), lifted.bytes);
  rmSync(dirname(shadow), { recursive: true });
}

async function contentOf(table: NativeTable, where?: CheckedSql): Promise<string[]> {
  const query = table.query();
  if (where !== undefined) query.onlyIf(where);
  const batches = await query.execute(2 ** 16);
  const found: string[] = [];
  for (let batch = await batches.next(); batch !== null; batch = await batches.next()) {
    found.push(...rowsOf(batch).map((row) => JSON.stringify(row)));
  }
  return found.sort();
}

const keptFolder = process.env.LANCEGATE_PARITY;

for (const [name, kind] of Object.entries(kinds)) {
  describe(`on ${name}, a shadow makes what the engine makes`, () => {
    const saved = join(temporaryFolder(after), 'saved');
    const folder = keptFolder === undefined ? join(dirname(saved), 'ö %') : join(keptFolder, name);
    before(async () => {
      mkdirSync(folder, { recursive: true });
      await build(folder, kind);
      cpSync(folder, saved, { recursive: true });
    });

    /** A branch names the folder of main by its path, so every run is in the same place. */
    async function resultOf(run: (dataset: string) => Promise<unknown>, kept: string) {
      rmSync(folder, { recursive: true });
      cpSync(saved, folder, { recursive: true });
      const dataset = branchFolder(join(folder, 't.lance'), kind.branch);
      await run(dataset);
      const table = await open(folder, kind.branch);
      const found = await contentOf(table, ownSql('id < 20 OR id IN (1500, 9000)'));
      if (keptFolder !== undefined) cpSync(folder, join(keptFolder, 'results', name, kept), { recursive: true });
      return { all: await contentOf(table), found, ...plainManifest(newestOf(dataset)) };
    }

    for (const [title, operation] of Object.entries(operations)) {
      test(`of ${title}`, async () => {
        const ofEngine = await resultOf(async () => operation(await open(folder, kind.branch)), `${title}/engine`);
        for (const later of [0, 37]) {
          const ofShadow = await resultOf((dataset) => inShadow(dataset, operation, later), `${title}/shadow`);
          assert.deepEqual(ofShadow, ofEngine);
        }
      });
    }

    test('of several operations, as far as rows and fragments go', async () => {
      const several: Operation = async (table) => {
        for (const step of ['upsert', 'some columns', 'a delete', 'append', 'an update'])
          await operations[step]?.(table);
      };
      const ofEngine = await resultOf(async () => several(await open(folder, kind.branch)), 'several/engine');
      const ofShadow = await resultOf((dataset) => inShadow(dataset, several, 0), 'several/shadow');
      assert.deepEqual([ofShadow.all, ofShadow.found], [ofEngine.all, ofEngine.found]);
      const operation = ofShadow.transaction?.filter((field) => field.startsWith('108:'));
      assert.equal(operation?.length, 1);
    });
  });
}
