/** Filter conditions in two forms: the SQL that a client writes, and what they mean for a row (three-valued logic). */
import { type Row, textOf, type Value, valueAt } from './values.ts';

export type Side = 'target' | 'source';
export interface Reference {
  /** Undefined in a delete filter, which writes bare names of the target's columns. */
  readonly side: Side | undefined;
  readonly segments: readonly string[];
  readonly isQuoted: boolean;
}
export type Operand = { readonly column: Reference } | { readonly literal: Value };
export type Condition =
  | { readonly op: '=' | '<>' | '<'; readonly left: Operand; readonly right: Operand }
  | { readonly op: 'is null' | 'is not null'; readonly of: Operand }
  | { readonly op: 'in'; readonly of: Operand; readonly values: readonly Value[] }
  | { readonly op: 'and' | 'or'; readonly left: Condition; readonly right: Condition }
  | { readonly op: 'not'; readonly of: Condition };

export const quoted = (segment: string): string => `\`${segment.replaceAll('`', '``')}\``;

/** SQL's own words among the names of columns; a client has to quote them. */
const keywords = ['select', 'from', 'in'];
const needsQuotes = (name: string): boolean => !/^\w+$/.test(name) || keywords.includes(name);

export const nameSql = (name: string): string => (needsQuotes(name) ? quoted(name) : name);

function columnSql({ side, segments, isQuoted }: Reference): string {
  const names = segments.map((name) => (isQuoted ? quoted(name) : nameSql(name)));
  return [...(side === undefined ? [] : [side]), ...names].join('.');
}

export function literalSql(value: Value): string {
  if (typeof value === 'string') return `'${value.replaceAll("'", "''")}'`;
  return String(value);
}

const operandSql = (operand: Operand): string =>
  'column' in operand ? columnSql(operand.column) : literalSql(operand.literal);

export function conditionSql(condition: Condition): string {
  switch (condition.op) {
    case '=':
    case '<>':
    case '<':
      return `${operandSql(condition.left)} ${condition.op} ${operandSql(condition.right)}`;
    case 'is null':
    case 'is not null':
      return `${operandSql(condition.of)} ${condition.op.toUpperCase()}`;
    case 'in':
      return `${operandSql(condition.of)} IN (${condition.values.map(literalSql).join(', ')})`;
    case 'and':
    case 'or':
      return `(${conditionSql(condition.left)}) ${condition.op.toUpperCase()} (${conditionSql(condition.right)})`;
    case 'not':
      return `NOT (${conditionSql(condition.of)})`;
  }
}

interface RowPair {
  readonly target: Row;
  readonly source?: Row;
}
/** null is SQL's unknown. */
type Truth = boolean | null;

function operandValue(operand: Operand, rows: RowPair): Value {
  if ('literal' in operand) return operand.literal;
  const { side = 'target', segments } = operand.column;
  return valueAt(rows[side] ?? {}, segments);
}

function compare(op: '=' | '<>' | '<', left: Value, right: Value): Truth {
  if (left === null || right === null) return null;
  if (op === '<') return left < right;
  return (textOf(left) === textOf(right)) === (op === '=');
}

const not = (truth: Truth): Truth => (truth === null ? null : !truth);
const and = (a: Truth, b: Truth): Truth =>
  a === false || b === false ? false : a === null || b === null ? null : true;

function truthOf(condition: Condition, rows: RowPair): Truth {
  switch (condition.op) {
    case '=':
    case '<>':
    case '<':
      return compare(condition.op, operandValue(condition.left, rows), operandValue(condition.right, rows));
    case 'is null':
      return operandValue(condition.of, rows) === null;
    case 'is not null':
      return operandValue(condition.of, rows) !== null;
    case 'in': {
      const value = operandValue(condition.of, rows);
      return value === null ? null : condition.values.some((other) => textOf(other) === textOf(value));
    }
    case 'and':
      return and(truthOf(condition.left, rows), truthOf(condition.right, rows));
    case 'or':
      return not(and(not(truthOf(condition.left, rows)), not(truthOf(condition.right, rows))));
    case 'not':
      return not(truthOf(condition.of, rows));
  }
}

/** Unknown is not true. */
export const holds = (condition: Condition, rows: RowPair): boolean => truthOf(condition, rows) === true;

export function references(condition: Condition): readonly Reference[] {
  const of = (operand: Operand): Reference[] => ('column' in operand ? [operand.column] : []);
  switch (condition.op) {
    case '=':
    case '<>':
    case '<':
      return [...of(condition.left), ...of(condition.right)];
    case 'is null':
    case 'is not null':
    case 'in':
      return of(condition.of);
    case 'and':
    case 'or':
      return [...references(condition.left), ...references(condition.right)];
    case 'not':
      return references(condition.of);
  }
}
