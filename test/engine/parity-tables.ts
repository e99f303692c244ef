/** Tables on which a version that this service makes is compared with that of the engine. */
import { join } from 'node:path';
import { connect } from '@lancedb/lancedb';
import { Float64, Int32, RecordBatch, Schema, Table, tableToIPC, Utf8, vectorFromArray } from 'apache-arrow';
import type { IpcFile } from '#src/arrow/format/ipc-file.ts';
import { readSchemaOfIpcFile } from '#src/arrow/schema/read-schema.ts';
import { connectNative, type NativeTable, newSession } from '#src/engine/lance/native/native.ts';
import { buildNativeIndex } from '#src/engine/lance/native/native-index.ts';
import { btreeOn } from '#src/engine/port/index-spec.ts';
import { type CheckedSql, ownSql } from '#src/kernel/checked-sql.ts';
import { listVersions, readManifest } from '#src/lance-format/manifest/manifest-files.ts';
import { ipcFile, rowsOf } from '#test/fixtures/arrow-files.ts';
import { numbersFrom } from '#test/http/wide-table.ts';

const column = { id: Int32, v: Utf8, n: Float64 };
/** The key is never NULL, as a primary key has to be. */
export function rows(ids: readonly number[], v: string): Table {
  const table = new Table({
    id: vectorFromArray(ids, new column.id()),
    v: vectorFromArray(
      ids.map(() => v),
      new column.v(),
    ),
    n: vectorFromArray(ids, new column.n()),
  });
  const fields = table.schema.fields.map((field) => field.clone({ nullable: field.name !== 'id' }));
  const schema = new Schema(fields);
  return new Table(
    schema,
    table.batches.map((batch) => new RecordBatch(schema, batch.data)),
  );
}
export const file = (ids: readonly number[], v: string) => ipcFile(rows(ids, v));
/** Without column v. */
export const partial = (...ids: readonly number[]) => ipcFile(rows(ids, '').select(['id', 'n']));

/** A schema of one column that no table has yet. */
export const nullColumn = Buffer.from(
  tableToIPC(
    new Table(
      new Schema(
        rows([], '')
          .select(['n'])
          .schema.fields.map((field) => field.clone({ name: 'q' })),
      ),
    ),
    'file',
  ),
);

/** With what the service itself does not call. */
export interface AnyTable extends Omit<NativeTable, 'addColumns' | 'alterColumns' | 'updateFieldMetadata' | 'restore'> {
  addColumns(columns: { name: string; valueSql: string }[]): Promise<{ version: number }>;
  alterColumns(
    changes: { path: string; rename?: string; dataType?: string; nullable?: boolean }[],
  ): Promise<{ version: number }>;
  dropColumns(columns: string[]): Promise<{ version: number }>;
  updateFieldMetadata(
    changes: { path: string; metadata: Record<string, string | null>; replace?: boolean }[],
  ): Promise<unknown>;
  setUnenforcedPrimaryKey(columns: string[]): Promise<unknown>;
  /** To the version that is checked out. */
  restore(): Promise<unknown>;
}

export const upsert = (table: Pick<NativeTable, 'mergeInsert'>) =>
  table.mergeInsert(['id']).whenMatchedUpdateAll().whenNotMatchedInsertAll();
export interface Kind {
  readonly isIndexed: boolean;
  readonly isChanged: boolean;
  readonly branch?: string;
  readonly hasRowIds?: boolean;
}

export const kinds: Record<string, Kind> = {
  'a plain table': { isIndexed: false, isChanged: false },
  'a table with an index and deletion vectors': { isIndexed: true, isChanged: true },
  'a branch': { isIndexed: true, isChanged: true, branch: 'feature/x' },
  'a table with stable row ids': { isIndexed: true, isChanged: true, hasRowIds: true },
};

/** By how many versions the shadow is ahead, as one is that is kept: tables with an index and deletions are of both sorts. */
export const laterOn: Readonly<Record<keyof typeof kinds, number>> = {
  'a plain table': 37,
  'a table with an index and deletion vectors': 0,
  'a branch': 37,
  'a table with stable row ids': 37,
};

/** No caches: tables get the places of others. */
export async function open(folder: string, branch?: string): Promise<AnyTable> {
  const table = await (await connectNative(folder, {}, newSession(0, 0), true)).openTable('t', []);
  return (branch === undefined ? table : await (await table.branches()).checkout(branch)) as AnyTable;
}

export async function build(folder: string, { isIndexed, isChanged, branch, hasRowIds = false }: Kind): Promise<void> {
  const storageOptions = { new_table_enable_stable_row_ids: String(hasRowIds) };
  await (await connect(folder)).createTable('t', rows(numbersFrom(0, 1_000), 'a'), { storageOptions });
  const table = await open(folder);
  await table.add(file(numbersFrom(1_000, 2_000), 'b'), 'append');
  if (isIndexed) await buildNativeIndex(table, btreeOn('id'));
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

export const newestOf = (dataset: string) => {
  const versions = join(dataset, '_versions');
  return readManifest(versions, listVersions(versions).at(-1) ?? 0)?.bytes ?? Buffer.of();
};

const plainValue = (value: unknown): unknown => (typeof value === 'bigint' ? Number(value) : value);

const versions = ['_row_created_at_version', '_row_last_updated_at_version'];

/** `base`: with what a table with stable row ids keeps of each row. Versions after this one count as the one after it. */
export async function contentOf(
  table: Pick<NativeTable, 'query' | 'schema'>,
  where?: CheckedSql,
  base?: number,
): Promise<string[]> {
  const query = table.query();
  if (base !== undefined) {
    const { fields } = readSchemaOfIpcFile((await table.schema()) as IpcFile);
    query.select([...fields.map(({ name }) => name), '_rowid', ...versions].map((name) => [name, `\`${name}\``]));
  }
  const plain = (name: string, value: unknown): unknown =>
    base !== undefined && versions.includes(name) ? Math.min(Number(value), base + 1) : plainValue(value);
  if (where !== undefined) query.onlyIf(where);
  const batches = await query.execute(2 ** 16);
  const found: string[] = [];
  for (let batch = await batches.next(); batch !== null; batch = await batches.next()) {
    found.push(...rowsOf(batch).map((row) => JSON.stringify(row, plain)));
  }
  return found.sort();
}
