import type { FieldPath } from '../arrow/field-path.ts';
import { type CanonicalKey, readKeys, sqlFieldPath } from '../arrow/key-columns.ts';
import { pieceOfFile } from '../arrow/piece-of-file.ts';
import type { Dataset, Projection } from '../engine/port.ts';
import type { RowsBefore, SharedRows } from './merge-group.ts';
import type { MergeRequest } from './merge-request.ts';

/** About 60 MB of numbers, or 150 MB of short texts; a larger table is asked about the keys at hand instead. */
const maxKnownKeys = 1_000_000;

/**
 * The keys of one table branch at one version, held in memory so that a group can tell whose rows were new without asking
 * the engine: 1 ms for 6,400 keys, where a lookup takes 33 ms with an index. Built from the key columns when first needed
 * (100,000 rows: some 20 ms) and carried from commit to commit; any version it did not see makes it worthless.
 */
export class KnownKeys {
  #version: number;
  readonly #columns: string;
  readonly #rows: Map<CanonicalKey, number>;

  private constructor(version: number, columns: string, rows: Map<CanonicalKey, number>) {
    this.#version = version;
    this.#columns = columns;
    this.#rows = rows;
  }

  /** undefined for a table with too many keys. */
  static async read(dataset: Dataset, on: readonly FieldPath[]): Promise<KnownKeys | undefined> {
    if ((await dataset.countRows()) > maxKnownKeys) return undefined;
    return new KnownKeys(await dataset.version(), columnsOf(on), await countKeys(dataset, on, undefined));
  }

  isOf(version: number, on: readonly FieldPath[]): boolean {
    return this.#version === version && this.#columns === columnsOf(on);
  }

  rowsBefore(): RowsBefore {
    return (key) => this.#rows.get(key) ?? 0;
  }

  /** Takes in what a group inserted. False where the keys would become too many: forget them then. */
  advance(version: number, { spec }: MergeRequest, { firstWith }: SharedRows): boolean {
    this.#version = version;
    if (!spec.whenNotMatchedInsertAll) return true;
    for (const key of firstWith.keys()) if (!this.#rows.has(key)) this.#rows.set(key, 1);
    return this.#rows.size <= maxKnownKeys;
  }
}

/** Asks a dataset about the keys of a group alone. `dataset` is at the version before it. */
export async function lookUp(
  dataset: Dataset,
  on: readonly FieldPath[],
  requests: readonly MergeRequest[],
): Promise<RowsBefore> {
  const terms = on.map((path, column) => {
    const literals = new Set(requests.flatMap(({ keys }) => keys.sqlLiterals(column)));
    return literals.size === 0 ? 'false' : `${sqlFieldPath(path)} IN (${[...literals].join(', ')})`;
  });
  const rows = await countKeys(dataset, on, terms.join(' AND '));
  return (key) => rows.get(key) ?? 0;
}

async function countKeys(
  dataset: Dataset,
  on: readonly FieldPath[],
  where: string | undefined,
): Promise<Map<CanonicalKey, number>> {
  const columns: Projection[] = on.map((path, index) => ({ name: `key_${index}`, expression: sqlFieldPath(path) }));
  const paths = columns.map(({ name }) => ({ segments: [name] }));
  const rows = new Map<CanonicalKey, number>();
  for await (const file of dataset.select(columns, where)) {
    const keys = readKeys(pieceOfFile(file), paths);
    for (let row = 0; row < keys.rows; row++) {
      const key = keys.canonical(row);
      if (key !== undefined) rows.set(key, (rows.get(key) ?? 0) + 1);
    }
  }
  return rows;
}

const columnsOf = (on: readonly FieldPath[]): string => JSON.stringify(on.map(({ segments }) => segments));
