import assert from 'node:assert/strict';
import type { Adoption, Catalog, PageRequest, Publication, TableRecord, TransactionRecord } from '#src/catalog/port.ts';
import { type ErrorName, LancegateError } from '#src/kernel/errors.ts';
import type { Location, NamespacePath, ObjectName, TableId, TableRef, TransactionId } from '#src/kernel/ids.ts';

export const path = (...names: readonly string[]): NamespacePath => names as readonly ObjectName[];
export const table = (...names: readonly string[]): TableRef => ({
  namespace: path(...names.slice(0, -1)),
  name: names.at(-1) as ObjectName,
});
export const place = (location: string): Location => location as Location;

export const all = { after: undefined, limit: 1000, includeDeclared: true };

export function transactionOf(id: string, more: Partial<TransactionRecord> = {}): TransactionRecord {
  return {
    id: id as TransactionId,
    tableId: 'some-table' as TableId,
    ref: table('sales', 'orders'),
    operation: 'merge_insert',
    branch: undefined,
    version: 7,
    outcome: { num_inserted_rows: '3' },
    committedAtMs: 1_790_000_000_123,
    ...more,
  };
}

export function publicationOf(transactionId: string, more: Partial<Publication> = {}): Publication {
  const { tableId: _, ref: __, ...transaction } = transactionOf(transactionId, { operation: 'create_table' });
  return { properties: {}, storageOptions: {}, transaction, ...more };
}

export const refusal =
  (kind: ErrorName) =>
  (error: unknown): boolean => {
    assert.ok(error instanceof LancegateError, `a LancegateError was expected, not ${error}`);
    assert.equal(error.kind, kind);
    return true;
  };

export const rejects = (work: Promise<unknown>, kind: ErrorName): Promise<void> => assert.rejects(work, refusal(kind));

/** No table, reservation or discarded location ever had it. */
export const isFresh = async (catalog: Catalog, location: Location): Promise<boolean> =>
  (await catalog.locationsAt(location, 'exact')).every((known) => known.location !== location);

/** Walks a listing two names at a time, as a client that pages does. */
export async function paged<Item>(
  list: (page: PageRequest) => Promise<readonly Item[]>,
  keyOf: (item: Item) => string,
): Promise<readonly string[]> {
  const keys: string[] = [];
  for (;;) {
    const items = await list({ after: keys.at(-1), limit: 2 });
    if (items.length === 0) return keys;
    keys.push(...items.map(keyOf));
  }
}

/** In the order of their UTF-8 bytes, which is not that of UTF-16: U+FF5E comes before the emoji. */
export const oddNames = [
  ' leading space',
  '"quoted"',
  '%',
  "';drop table tables;--",
  'A',
  'B',
  '[a-z]*',
  '_',
  'a',
  'a b',
  'a"b',
  'ab',
  'a\u0300',
  'b',
  'é',
  '東京',
  '\uff5e',
  '🦊',
];

/** Creates a table with data; its transaction's id is `of-` and the location. */
export async function createTable(catalog: Catalog, ref: TableRef, location: Location): Promise<TableRecord> {
  const creation = await catalog.reserveCreation(ref, undefined, location);
  return catalog.publishCreation(creation, publicationOf(`of-${location}`));
}

/** Adopts a place as it is found. */
export async function register(
  catalog: Catalog,
  ref: TableRef,
  location: Location,
  more: Partial<Adoption> = {},
): Promise<TableRecord> {
  const { spelling = 'exact' } = more;
  const seen = await catalog.locationsAt(location, spelling);
  return catalog.registerTable({ ref, location, properties: {}, spelling, seen, replaces: undefined, ...more });
}
