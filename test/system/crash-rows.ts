/** Rows that the loads of the crash tests write and find again. Those of subjects have negative requests, those of upserts positive. */
import { Field, FixedSizeList, Float32, Int32, List, Table, tableToIPC, Utf8, vectorFromArray } from 'apache-arrow';
import { bodyOf, multipart, type Part } from '#test/http/multipart-body.ts';
import type { Asked, CrashService, Json } from './crash-service.ts';

export const dimensions = 8;
const vectorType = new FixedSizeList(dimensions, new Field('item', new Float32(), true));
const labelsType = new List(new Field('item', new Utf8(), true));

/** Different for each id, so that no two rows are equally near. */
export const vectorOf = (id: number): readonly number[] =>
  Array.from({ length: dimensions }, (_, at) => Math.fround(Math.sin((id + 1) * (at + 1.7) * 1.13) * 10));
export const textOf = (id: number): string => `every w${id % 7} text`;
export const labelsOf = (id: number): readonly string[] => [`l${id % 5}`, 'all'];

/** `isWide`: with the columns that indexes are on. */
export function rowsOf(ids: readonly number[], request: number, isWide = false): Uint8Array {
  const ints = (values: readonly number[]) => vectorFromArray(values, new Int32());
  const narrow = { id: ints(ids), n: ints(ids.map(() => 0)), request: ints(ids.map(() => request)) };
  const wide = () => ({
    text: vectorFromArray(ids.map(textOf), new Utf8()),
    labels: vectorFromArray(ids.map(labelsOf), labelsType),
    vector: vectorFromArray(ids.map(vectorOf), vectorType),
  });
  return tableToIPC(new Table({ ...narrow, ...(isWide ? wide() : {}) }), 'stream');
}

export const idsFrom = (first: number, count: number): readonly number[] =>
  Array.from({ length: count }, (_, at) => first + at);

/** Rows by `request:n`. */
export type RowCounts = Readonly<Record<string, number>>;

export async function rowCounts(service: CrashService, table: string, body: Json = {}): Promise<RowCounts> {
  const rows = await service.query(table, { columns: ['request', 'n'], filter: 'request < 0', ...body });
  const counts: Record<string, number> = {};
  for (const row of rows) {
    const name = `${row.request}:${row.n}`;
    counts[name] = (counts[name] ?? 0) + 1;
  }
  return counts;
}

export async function makeTable(service: CrashService, table: string, rows: number, isWide = false): Promise<void> {
  await service.get({ path: `/v1/table/${table}/create`, body: rowsOf(idsFrom(0, rows), 0, isWide) });
}

export function transactOf(table: string, parts: readonly Part[]): Asked {
  const body = new Uint8Array(bodyOf(parts));
  return { path: `/v1/table/${table}/transact`, body, headers: multipart };
}

export function without<Value>(record: Readonly<Record<string, Value>>, name: string): Readonly<Record<string, Value>> {
  const { [name]: _, ...others } = record;
  return others;
}
