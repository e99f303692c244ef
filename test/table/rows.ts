import { Int32, Table, Utf8, vectorFromArray } from 'apache-arrow';

export type Row = readonly [id: number | null, v: string, w?: string | null];

const ids = (rows: readonly Row[]) =>
  vectorFromArray(
    rows.map(([id]) => id),
    new Int32(),
  );
const texts = (rows: readonly Row[], column: 1 | 2) =>
  vectorFromArray(
    rows.map((row) => row[column] ?? null),
    new Utf8(),
  );

/** A table of `id`, `v` and `w`. */
export const full = (...rows: Row[]): Table => new Table({ id: ids(rows), v: texts(rows, 1), w: texts(rows, 2) });
export const withoutW = (...rows: Row[]): Table => new Table({ id: ids(rows), v: texts(rows, 1) });
