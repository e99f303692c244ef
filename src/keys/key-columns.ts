/**
 * The keys of a source: what a merge must know of its rows before it may queue. Only the key columns are decompressed
 * and decoded. Equality is the engine's: NULL equals nothing, NaN equals NaN whatever its payload, -0.0 differs from 0.0.
 */
import { type FieldPath, quoteSegment } from '../arrow/schema/field-path.ts';
import type { IpcChunk } from '../arrow/schema/schema.ts';
import { type CanonicalKey, canonicalReader, showValue, sqlLiteral } from './key-value.ts';
import { equalKeys, type KeyMeasure, type KeyValues, measureKeys } from './key-values.ts';
import { normaliseNaNs } from './normalise-nan.ts';
import { type KeyColumn, readKeyColumn } from './read-key-column.ts';

export type { CanonicalKey };

export class Keys {
  readonly rows: number;
  readonly columns: readonly KeyColumn[];
  /** A group asks for each key several times. */
  readonly #canonical: CanonicalKey[] = [];
  readonly #readers: readonly ((row: number) => CanonicalKey)[];

  constructor(rows: number, columns: readonly KeyColumn[]) {
    this.rows = rows;
    this.columns = columns;
    this.#readers = columns.map(canonicalReader);
  }

  /** Whether any row's key is NULL, in any of its columns. */
  get hasNull(): boolean {
    return this.columns.some(({ nulls }) => nulls?.includes(1) ?? false);
  }

  isNull(row: number): boolean {
    return this.columns.some(({ nulls }) => nulls !== undefined && nulls[row] === 1);
  }

  measure(): KeyMeasure {
    return measureKeys(this.#values, this.rows);
  }

  /** Whether two rows, whose keys are not NULL, have the same. */
  isEqual(a: number, b: number): boolean {
    return equalKeys(this.#values, a, b);
  }

  get #values(): readonly KeyValues[] {
    return this.columns.map(({ values }) => values);
  }

  /**
   * A value that equals another row's exactly where the keys are equal, also across requests for one table; undefined
   * for NULL.
   */
  canonical(row: number): CanonicalKey | undefined {
    if (this.isNull(row)) return undefined;
    const known = this.#canonical[row];
    if (known !== undefined) return known;
    const key = this.#canonicalOf(row);
    this.#canonical[row] = key;
    return key;
  }

  #canonicalOf(row: number): CanonicalKey {
    const [only] = this.#readers;
    if (only !== undefined && this.#readers.length === 1) return only(row);
    return this.#readers.map((read) => lengthPrefixed(read(row))).join('');
  }

  /** The value of one key column as SQL, or undefined for NULL. */
  sqlLiteral(row: number, column: number): string | undefined {
    const of = this.#column(column);
    return of.nulls !== undefined && of.nulls[row] === 1 ? undefined : sqlLiteral(of, row);
  }

  /** All values of one key column that are not NULL, each once, as SQL for `path IN (…)`. */
  sqlLiterals(column: number): string[] {
    const literals = new Set<string>();
    for (let row = 0; row < this.rows; row++) {
      const literal = this.sqlLiteral(row, column);
      if (literal !== undefined) literals.add(literal);
    }
    return [...literals];
  }

  show(row: number): string {
    return this.columns.map((column) => (column.nulls?.[row] === 1 ? 'NULL' : showValue(column, row))).join(', ');
  }

  #column(index: number): KeyColumn {
    const column = this.columns[index];
    if (column === undefined) throw new Error(`there is no key column ${index}`);
    return column;
  }
}

/** Parts of a composite key must not run into each other; a text and a number never stand in the same place. */
function lengthPrefixed(value: CanonicalKey): string {
  const text = String(value);
  return `${text.length}:${text}`;
}

/**
 * `paths` name key columns of the chunk. Throws `TableColumnNotFound` for a path that names none, `InvalidInput` naming
 * the path for a type that cannot be a key and for malformed values.
 */
export const readKeys = (chunk: IpcChunk, paths: readonly FieldPath[]): Keys =>
  new Keys(
    chunk.rows,
    paths.map((path) => normaliseNaNs(readKeyColumn(chunk, path))),
  );

/** A path as the engine's SQL wants it: every segment quoted, so that no name is a keyword or loses its case. */
export const sqlFieldPath = (path: FieldPath): string => path.segments.map(quoteSegment).join('.');
