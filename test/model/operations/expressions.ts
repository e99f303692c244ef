/** The new value of a column, in two forms: the SQL that a client writes, and what it is for a row. */
import type { Column } from '../columns.ts';
import { literalSql, nameSql } from '../conditions.ts';
import type { Random } from '../random.ts';
import type { Row, Value } from '../values.ts';

export type Expression =
  | { readonly op: 'column'; readonly name: string }
  | { readonly op: 'literal'; readonly value: Value }
  /** Of an int64: `name % 7 + 2`. */
  | { readonly op: 'remainder'; readonly name: string; readonly plus: bigint }
  /** Of a text: `name || 'x'`. */
  | { readonly op: 'appended'; readonly name: string; readonly text: string };

export function expressionSql(expression: Expression): string {
  switch (expression.op) {
    case 'column':
      return nameSql(expression.name);
    case 'literal':
      return expression.value === null ? 'NULL' : literalSql(expression.value);
    case 'remainder':
      return `${nameSql(expression.name)} % 7 + ${expression.plus}`;
    case 'appended':
      return `${nameSql(expression.name)} || ${literalSql(expression.text)}`;
  }
}

export function expressionValue(expression: Expression, row: Row): Value {
  if (expression.op === 'literal') return expression.value;
  const value = row[expression.name] ?? null;
  if (value === null || expression.op === 'column') return value;
  return expression.op === 'remainder'
    ? ((value as bigint) % 7n) + expression.plus
    : `${value as string}${expression.text}`;
}

/** The column that it reads. */
export const readBy = (expression: Expression): string | undefined =>
  expression.op === 'literal' ? undefined : expression.name;

/** The column that it makes of these, with NULL only where they have it; undefined where a column is missing. */
export function expressionType(expression: Expression, columns: readonly Column[]): Column | undefined {
  if (expression.op !== 'literal') return columns.find(({ name }) => name === expression.name);
  const type = typeof expression.value === 'bigint' ? 'int64' : typeof expression.value === 'string' ? 'utf8' : 'bool';
  return { name: '', type, nullable: expression.value === null, fields: [] };
}

const literals: Partial<Record<Column['type'], readonly Value[]>> = {
  int32: [3n, -1n],
  int64: [5n, 12n],
  utf8: ['new', "it's"],
  bool: [true, false],
};

/** One that a column of this type takes. */
export function randomExpression(
  random: Random,
  { type }: Pick<Column, 'type'>,
  columns: readonly Column[],
): Expression | undefined {
  const alike = columns.filter((column) => column.type === type && type !== 'struct');
  const values = literals[type] ?? [];
  if (alike.length === 0 && values.length === 0) return undefined;
  if (alike.length === 0 || (values.length > 0 && random.chance(35))) {
    return { op: 'literal', value: random.chance(15) ? null : random.pick(values) };
  }
  const { name } = random.pick(alike);
  if (type === 'int64' && random.chance(60)) return { op: 'remainder', name, plus: BigInt(random.int(5)) };
  if (type === 'utf8' && random.chance(60)) return { op: 'appended', name, text: random.pick(['!', "'"]) };
  return { op: 'column', name };
}
