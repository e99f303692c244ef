import { quoteSegment } from '../../arrow/schema/field-path.ts';
import type { Field } from '../../arrow/schema/schema.ts';
import type { NewValue } from '../../engine/port/change.ts';
import { type CheckedSql, ownSql } from '../../kernel/checked-sql.ts';
import { invalidInput } from '../../kernel/errors.ts';
import { noLimits, type Token, TokenReader } from '../../sql/tokens.ts';

/** Each round but the first writes all updated rows once more. */
const mostRounds = 8;

/**
 * The assignments of one update in rounds, so that each expression sees the old row: it is evaluated before the columns that it
 * mentions are set. (The engine evaluates the assignments of one update one after the other, in an order that changes.) Any name in an
 * expression that is spelt like a column counts as one, also if it is a function. `InvalidInput` where no order will do.
 */
export function roundsOf(assignments: readonly NewValue[]): readonly (readonly NewValue[])[] {
  const mentions = new Map(assignments.map((each) => [each, namesIn(each.value)]));
  const rounds: (readonly NewValue[])[] = [];
  let left = assignments;
  while (left.length > 0) {
    const round = left.filter(
      (each) => !left.some((other) => other !== each && mentions.get(other)?.has(folded(each.column)) === true),
    );
    if (round.length === 0) throw circular(left);
    rounds.push(round);
    left = left.filter((each) => !round.includes(each));
  }
  if (rounds.length <= mostRounds) return rounds;
  throw invalidInput(
    `updates: more than ${mostRounds} columns get their values from one another in a chain: send several`,
  );
}

/** Whether an expression may say something else of one row than of another; `columns` are those of the table. */
export function readsRow(expression: CheckedSql, columns: readonly string[]): boolean {
  const names = namesIn(expression);
  return columns.some((name) => names.has(folded(name))) || [...names].some((name) => name.startsWith('_row'));
}

/**
 * A condition on rows whose new value is beyond the integers that it is computed in, or those of its column: the engine begins again at
 * their other end. Known of expressions that add, subtract or multiply whole columns of integers; undefined for any other.
 */
export function overflowOf(
  expression: CheckedSql,
  target: Field | undefined,
  fields: readonly Field[],
): CheckedSql | undefined {
  const { exact, ranges } = computedExactly(expression, fields) ?? { ranges: [] };
  const [widest] = ranges.toSorted((a, b) => (a.to < b.to ? 1 : -1));
  if (exact === undefined || widest === undefined) return undefined;
  if (ranges.some(({ from }) => from < 0n !== widest.from < 0n)) return undefined;
  const beyond = [widest, rangeOf(target) ?? widest].flatMap(({ from, to }) => [
    `${exact} < ${decimal(`'${from}'`)}`,
    `${exact} > ${decimal(`'${to}'`)}`,
  ]);
  return ownSql(`(${beyond.join(' OR ')})`);
}

/** undefined for any expression but those. */
function computedExactly(expression: CheckedSql, fields: readonly Field[]) {
  const parts: string[] = [];
  const ranges: IntegerBounds[] = [];
  const tokens = new TokenReader(expression, noLimits);
  while (tokens.peek().kind !== 'end') {
    const token = tokens.take();
    const name = token.kind === 'word' ? token.written : token.value;
    const range = isNamed(token) ? rangeOf(fields.find((field) => field.name === name)) : undefined;
    if (range === undefined && !isArithmetic(token)) return undefined;
    if (range !== undefined) ranges.push(range);
    parts.push(range === undefined ? token.value : decimal(quoteSegment(name)));
  }
  return parts.some((part) => signs.includes(part)) ? { exact: `(${parts.join(' ')})`, ranges } : undefined;
}

const signs = ['+', '-', '*'];

const isNamed = ({ kind }: Token): boolean => kind === 'word' || kind === 'name';

const isArithmetic = ({ kind, value }: Token): boolean =>
  kind === 'number' ? /^\d{1,18}$/.test(value) : kind === 'symbol' && ['(', ')', ...signs].includes(value);

interface IntegerBounds {
  readonly from: bigint;
  readonly to: bigint;
}

const rangeOf = (field: Field | undefined): IntegerBounds | undefined =>
  field?.type.kind === 'int' ? integers(field.type.bitWidth, field.type.signed) : undefined;

const integers = (bits: number, isSigned: boolean): IntegerBounds =>
  isSigned
    ? { from: -(2n ** BigInt(bits - 1)), to: 2n ** BigInt(bits - 1) - 1n }
    : { from: 0n, to: 2n ** BigInt(bits) - 1n };

const decimal = (value: string): string => `CAST(${value} AS DECIMAL(20, 0))`;

/** First segments only: a column is set as a whole. */
function namesIn(expression: CheckedSql): ReadonlySet<string> {
  const names = new Set<string>();
  const tokens = new TokenReader(expression, noLimits);
  while (tokens.peek().kind !== 'end') {
    const { kind, value } = tokens.take();
    if (kind === 'word') names.add(folded(value));
    if (kind === 'name') for (const name of [value, ...value.split('.')]) names.add(folded(name));
  }
  return names;
}

const folded = (name: string): string => name.toUpperCase().toLowerCase();

const circular = (left: readonly NewValue[]) =>
  invalidInput(
    `updates: the new values of ${left
      .slice(0, 3)
      .map(({ column }) => column)
      .join(', ')} need each other's old ones; set one of them in a request of its own, or through another column`,
  );
