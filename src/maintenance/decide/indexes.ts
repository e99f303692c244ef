/** Which columns get a BTREE index. */
import type { DataType, Schema } from '../../arrow/schema/schema.ts';
import type { Layout } from '../../engine/port/engine.ts';

/** The first merge may be the only one; the second says that more will come. */
export const indexFromMerges = 2;

/** The key columns that should get an index now. Only for main: merges into other branches use none. */
export function columnsToIndex(
  mergesOn: ReadonlyMap<string, number>,
  { layout, schema }: { readonly layout: Layout; readonly schema: Schema },
  { indexFromRows }: { readonly indexFromRows: number },
): readonly string[] {
  if (layout.rows < indexFromRows) return [];
  return [...mergesOn]
    .filter(([column, merges]) => merges >= indexFromMerges && !hasIndex(layout, column) && isIndexable(schema, column))
    .map(([column]) => column);
}

/** Those that have an index as this service builds it. */
export const plainColumns = (indexes: Layout['indexes']): readonly string[] =>
  indexes.filter(({ isPlain }) => isPlain).flatMap(({ columns }) => columns);

const hasIndex = ({ indexes }: Layout, column: string): boolean =>
  indexes.some(({ columns }) => columns.length === 1 && columns[0] === column);

const isIndexable = (schema: Schema, column: string): boolean =>
  schema.fields.some((field) => field.name === column && field.dictionary === undefined && indexable(field.type));

/**
 * Types with one order only. Floats have several (NaN, and zero with and without a sign); of `large_utf8` the engine builds
 * no BTREE; the others are rare as keys and were not compared with the merge without an index.
 */
function indexable(type: DataType): boolean {
  switch (type.kind) {
    case 'int':
    case 'utf8':
    case 'date':
    case 'timestamp':
      return true;
    default:
      return false;
  }
}
