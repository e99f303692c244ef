/**
 * Types of columns that `lancegate arrow` makes. Chosen to be the same for any part of the same data: every whole
 * number is an int64 however small, every text plain utf8, and everything may be null.
 */
import { CliError } from '../command.ts';

type ScalarKind = 'bool' | 'int32' | 'int64' | 'float32' | 'float64' | 'utf8';

export type ColumnType =
  | { readonly kind: ScalarKind }
  | { readonly kind: 'list'; readonly item: ColumnType }
  /** What a vector index can be built on: a fixed number of float32, none of them null. */
  | { readonly kind: 'vector'; readonly length: number }
  | { readonly kind: 'struct'; readonly fields: ReadonlyMap<string, ColumnType> };

/** Where a value stands, for errors. Rows count from 1. */
export interface Cell {
  readonly row: number;
  readonly column: string;
}

export const at = ({ row, column }: Cell): string => `row ${row}, column ${JSON.stringify(column)}`;

/** The type that all values of a column share. */
export function inferType(column: string, values: readonly unknown[]): ColumnType {
  const evidence = new Evidence();
  for (const [index, value] of values.entries()) evidence.see(value, { row: index + 1, column });
  return evidence.type();
}

type SeenKind = 'bool' | 'int64' | 'float64' | 'utf8' | 'list' | 'struct';

/** What the values seen so far show of their common type. */
class Evidence {
  #kind: SeenKind | undefined;
  #item: Evidence | undefined;
  readonly #fields = new Map<string, Evidence>();

  /** Throws `CliError` for a value that does not go with the ones before. */
  see(value: unknown, cell: Cell): void {
    if (value === null || value === undefined) return;
    this.#kind = commonKind(this.#kind, kindOf(value), cell);
    if (Array.isArray(value)) this.#seeItems(value, cell);
    else if (typeof value === 'object') this.#seeFields(value, cell);
  }

  #seeItems(items: readonly unknown[], cell: Cell): void {
    this.#item ??= new Evidence();
    for (const item of items) this.#item.see(item, { ...cell, column: `${cell.column}[]` });
  }

  #seeFields(struct: object, cell: Cell): void {
    for (const [name, value] of Object.entries(struct)) {
      const field = this.#fields.get(name) ?? new Evidence();
      this.#fields.set(name, field);
      field.see(value, { ...cell, column: `${cell.column}.${name}` });
    }
  }

  /** Where there was never a value, utf8: the engine has little use for a column of the null type. */
  type(): ColumnType {
    if (this.#kind === 'list') return { kind: 'list', item: this.#item?.type() ?? { kind: 'utf8' } };
    if (this.#kind !== 'struct') return { kind: this.#kind ?? 'utf8' };
    return { kind: 'struct', fields: new Map([...this.#fields].map(([name, field]) => [name, field.type()])) };
  }
}

function kindOf(value: unknown): SeenKind {
  if (typeof value === 'boolean') return 'bool';
  if (typeof value === 'string') return 'utf8';
  if (typeof value === 'bigint') return 'int64';
  if (typeof value === 'number') return Number.isInteger(value) ? 'int64' : 'float64';
  return Array.isArray(value) ? 'list' : 'struct';
}

function commonKind(known: SeenKind | undefined, seen: SeenKind, cell: Cell): SeenKind {
  if (known === undefined || known === seen) return seen;
  const isNumber = (kind: SeenKind): boolean => kind === 'int64' || kind === 'float64';
  if (isNumber(known) && isNumber(seen)) return 'float64';
  throw new CliError(`${at(cell)}: ${seen} here, ${known} in the rows before; --types can say what the column is`);
}

const scalarKinds: readonly ScalarKind[] = ['bool', 'int32', 'int64', 'float32', 'float64', 'utf8'];

/** `utf8`, `int64`, …, and `float32[384]` for a vector; undefined for anything else. */
export function parseColumnType(text: string): ColumnType | undefined {
  const length = /^float32\[([1-9]\d{0,5})\]$/.exec(text)?.[1];
  if (length !== undefined) return { kind: 'vector', length: Number(length) };
  const kind = scalarKinds.find((scalar) => scalar === text);
  return kind && { kind };
}
