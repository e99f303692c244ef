import { type Column, columnAt, randomValue, type ScalarType, scalarPaths } from './columns.ts';
import type { Condition, Operand, Reference, Side } from './conditions.ts';
import type { Random } from './random.ts';
import type { Value } from './values.ts';

/** Types whose literals need no cast in SQL. Of the others, conditions only ask whether they are NULL. */
const plainTypes: readonly Column['type'][] = ['int32', 'int64', 'utf8', 'bool'] satisfies ScalarType[];

type Path = readonly string[];

/** What a condition may speak of: one row's columns by bare name, or both rows'. */
interface Scope {
  readonly target: readonly Column[];
  /** Undefined for a delete filter. */
  readonly source: readonly Column[] | undefined;
}

export function randomCondition(random: Random, scope: Scope, depth = 2): Condition {
  if (depth > 0 && random.chance(30)) {
    const [left, right] = [randomCondition(random, scope, depth - 1), randomCondition(random, scope, depth - 1)];
    return { op: random.pick(['and', 'or'] as const), left, right };
  }
  if (depth > 0 && random.chance(12)) return { op: 'not', of: randomCondition(random, scope, depth - 1) };
  return randomComparison(random, scope);
}

function randomComparison(random: Random, scope: Scope): Condition {
  const side: Side | undefined = scope.source === undefined ? undefined : random.pick(['target', 'source'] as const);
  const columns = side === 'source' ? (scope.source ?? []) : scope.target;
  const path = random.pick(scalarPaths(columns));
  const column = columnAt(columns, path) as Column;
  const of: Operand = { column: reference(random, side, path) };
  if (!plainTypes.includes(column.type) || random.chance(20)) {
    return { op: random.pick(['is null', 'is not null'] as const), of };
  }
  const literal = () => literalOf(randomValue(random, { ...column, nullable: false }));
  if (random.chance(15)) return { op: 'in', of, values: [literal(), literal()] };
  return {
    op: random.pick(['=', '<>', '<'] as const),
    left: of,
    right: otherSide(random, scope, side, path) ?? { literal: literal() },
  };
}

/** The engine's parser takes the smallest int64 for a float, and refuses to compare it with whole numbers. */
const literalOf = (value: Value): Value => (value === -(2n ** 63n) ? -5n : value);

/** The same column of the other row, sometimes. */
function otherSide(random: Random, { target, source }: Scope, side: Side | undefined, path: Path): Operand | undefined {
  if (side === undefined || source === undefined || random.chance(50)) return undefined;
  const [other, columns] = side === 'source' ? (['target', target] as const) : (['source', source] as const);
  return columnAt(columns, path) === undefined ? undefined : { column: reference(random, other, path) };
}

const reference = (random: Random, side: Side | undefined, segments: Path): Reference => ({
  side,
  segments,
  isQuoted: random.chance(50),
});
