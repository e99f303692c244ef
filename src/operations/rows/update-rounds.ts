import type { NewValue } from '../../engine/port/change.ts';
import type { CheckedSql } from '../../kernel/checked-sql.ts';
import { invalidInput } from '../../kernel/errors.ts';
import { noLimits, TokenReader } from '../../sql/tokens.ts';

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
