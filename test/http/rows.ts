/** Rows as bodies, and tables as rows. */
import { connect } from '@lancedb/lancedb';
import { type DataType, Int32, Table, tableToIPC, Utf8, type Vector, vectorFromArray } from 'apache-arrow';
import type { TestService } from '#test/fixtures/service.ts';

type Columns = Readonly<Record<string, readonly unknown[] | Vector>>;
export type Row = Record<string, unknown>;

/** An Arrow IPC stream; texts become utf8 and numbers int32, any other type comes as a vector. */
export const stream = (columns: Columns): Buffer =>
  Buffer.from(
    tableToIPC(
      new Table(Object.fromEntries(Object.entries(columns).map(([name, values]) => [name, toVector(values)]))),
      'stream',
    ),
  );

const toVector = (values: readonly unknown[] | Vector): Vector => {
  if (!Array.isArray(values)) return values as Vector;
  const type: DataType = values.some((value) => typeof value === 'string') ? new Utf8() : new Int32();
  return vectorFromArray(values, type) as Vector;
};

/** Keys 1, 2, … of `ids`, each with the same text. */
export const people = (ids: readonly number[], name: string): Buffer =>
  stream({
    id: ids,
    name: vectorFromArray(
      ids.map(() => name),
      new Utf8(),
    ),
  });

/** What plain LanceDB finds on the storage root, ordered by the JSON of the rows. */
export async function storedRows(service: TestService, path: string): Promise<Row[]> {
  const cut = path.lastIndexOf('/');
  const folder = cut < 0 ? service.tablesFolder : `${service.tablesFolder}/${path.slice(0, cut)}`;
  const table = await (await connect(folder)).openTable(path.slice(cut + 1));
  const rows = (await table.query().toArray()).map((row) => JSON.stringify(row, numbersForBigints));
  return rows.sort().map((row) => JSON.parse(row) as Row);
}

const numbersForBigints = (_: string, value: unknown): unknown => (typeof value === 'bigint' ? Number(value) : value);
