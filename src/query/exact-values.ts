/**
 * Finds the rows for which the engine computes an expression wrongly and reports no error: a sum or product of integers overflows and
 * wraps around, one of decimals has more digits than its type, and a short float becomes infinity where a longer one does not.
 */
import { quoteSegment } from '../arrow/schema/field-path.ts';
import type { DataType, Field } from '../arrow/schema/schema.ts';
import { type CheckedSql, ownSql } from '../kernel/checked-sql.ts';
import { type Computation, parseArithmetic, textOf } from '../sql/arithmetic.ts';
import { noLimits, type Token, TokenReader } from '../sql/tokens.ts';

/** The engine makes these types of each part of an expression that computes, by the text of the part. */
export type TypesOfSteps = ReadonlyMap<string, DataType>;

/** Returns the sums, differences and products in an expression, whose types say where to fear a loss. */
export const stepsOf = (expression: CheckedSql): readonly CheckedSql[] =>
  [...stepsIn(parseArithmetic(expression))].map(ownSql);

const stepsIn = (expression: Computation): ReadonlySet<string> =>
  new Set([
    ...(computes(expression) ? [textOf(expression)] : []),
    ...partsOf(expression).flatMap((part) => [...stepsIn(part)]),
  ]);

/**
 * Returns a condition on rows in which the expression, whose values are of the type `given`, is not what it says, or is no
 * value of `target`; undefined where there is no loss to fear. The engine makes `b + 1` as long as `b` where that is the whole
 * of an expression, and longer elsewhere: so its range counts too.
 */
export function lossOf(
  expression: CheckedSql,
  types: TypesOfSteps,
  fields: readonly Field[],
  given: DataType,
  target: DataType,
): CheckedSql | undefined {
  const losses = [
    ...integerLosses(parseArithmetic(expression), types, given, target),
    ...floatLosses(expression, fields, given),
    ...decimalLosses(expression, types, given),
    ...timestampLosses(expression, given),
  ];
  return losses.length === 0 ? undefined : ownSql([...new Set(losses)].join(' OR '));
}

function integerLosses(
  expression: Computation,
  types: TypesOfSteps,
  given: DataType,
  target: DataType,
): readonly string[] {
  const written = textOf(expression);
  if (asLongInteger(expression, types, absent) === written) return [];
  // A function such as `greatest` passes over NULL. The second form has each step three times.
  const isShort = written.length * 3 ** stepsIn(expression).size < mostText;
  const beyond = isShort ? [absent, nearest] : [absent];
  if (given.kind !== 'int') return beyond.map((each) => isOther(written, asLongInteger(expression, types, each)));
  return beyond.flatMap((each) => {
    const decimals = asDecimal(expression, types, each);
    const ranges = [given, target].flatMap((type) => beyondRange(decimals, type));
    return [isOther(decimal(written), decimals), ...ranges];
  });
}

const mostText = 100_000;

/** The engine takes the comparison inside of functions only. */
const isOther = (value: string, exact: string): string => `coalesce((${value}) IS DISTINCT FROM (${exact}), true)`;

/** Writes, in decimals, what stands for an integer that is beyond its type. */
type Beyond = (decimals: string, type: LongInteger) => string;
type LongInteger = 'Int64' | 'UInt64';

const absent: Beyond = (decimals, type) => `arrow_try_cast(${decimals}, '${type}')`;
const nearest: Beyond = (decimals, type) => {
  const [least, most] = ends(64, type === 'Int64');
  const end = (value: bigint): string => decimal(`'${value}'`);
  return `CASE WHEN ${decimals} > ${end(most)} THEN ${integer(most, type)} WHEN ${decimals} < ${end(least)} THEN ${integer(least, type)} ELSE ${absent(decimals, type)} END`;
};

const integer = (value: bigint, type: LongInteger): string => `arrow_cast('${value}', '${type}')`;

/** Writes an expression of the same values, but for those integers. */
function asLongInteger(expression: Computation, types: TypesOfSteps, beyond: Beyond): string {
  const type = typeOfInteger(expression, types);
  if (type !== undefined) return beyond(asDecimal(expression, types, beyond), type);
  switch (expression.kind) {
    case 'words':
      return expression.parts
        .map((part) => (typeof part === 'string' ? part : asLongInteger(part, types, beyond)))
        .join(' ');
    case 'brackets':
      return `( ${asLongInteger(expression.inner, types, beyond)} )`;
    case 'negated':
      return `- ${asLongInteger(expression.operand, types, beyond)}`;
    case 'joined':
      return `${asLongInteger(expression.left, types, beyond)} ${expression.operator} ${asLongInteger(expression.right, types, beyond)}`;
  }
}

function asDecimal(expression: Computation, types: TypesOfSteps, beyond: Beyond): string {
  if (expression.kind === 'brackets') return `( ${asDecimal(expression.inner, types, beyond)} )`;
  if (typeOfInteger(expression, types) === undefined) return decimal(asLongInteger(expression, types, beyond));
  if (expression.kind === 'negated') return `( - ${asDecimal(expression.operand, types, beyond)} )`;
  if (expression.kind !== 'joined') return decimal(textOf(expression));
  return `( ${asDecimal(expression.left, types, beyond)} ${expression.operator} ${asDecimal(expression.right, types, beyond)} )`;
}

function typeOfInteger(expression: Computation, types: TypesOfSteps): LongInteger | undefined {
  const type = computes(expression) ? types.get(textOf(expression)) : undefined;
  if (type?.kind !== 'int') return undefined;
  return type.signed || type.bitWidth < 64 ? 'Int64' : 'UInt64';
}

function computes(expression: Computation): boolean {
  if (expression.kind === 'negated') return !/^[\d.]+$/.test(textOf(expression.operand));
  return expression.kind === 'joined' && '+-*'.includes(expression.operator);
}

function partsOf(expression: Computation): readonly Computation[] {
  switch (expression.kind) {
    case 'words':
      return expression.parts.filter((part) => typeof part !== 'string');
    case 'brackets':
      return [expression.inner];
    case 'negated':
      return [expression.operand];
    case 'joined':
      return [expression.left, expression.right];
  }
}

function beyondRange(exact: string, type: DataType): readonly string[] {
  if (type.kind !== 'int') return [];
  const [least, most] = ends(type.bitWidth, type.signed);
  return [`(${exact}) < ${decimal(`'${least}'`)}`, `(${exact}) > ${decimal(`'${most}'`)}`];
}

function ends(bits: number, isSigned: boolean): readonly [least: bigint, most: bigint] {
  const values = 2n ** BigInt(bits);
  const least = isSigned ? -(values / 2n) : 0n;
  return [least, least + values - 1n];
}

/** Holds the product of three of the longest integers. */
const decimal = (value: string): string => `arrow_cast(${value}, 'Decimal256(40, 0)')`;

/** The engine computes decimals of the most digits into more, as far as their bits go. */
function decimalLosses(expression: CheckedSql, types: TypesOfSteps, given: DataType): readonly string[] {
  if (given.kind !== 'decimal' || types.size === 0 || given.precision >= mostDigits) return [];
  const wide = `Decimal256(${mostDigits}, ${given.scale})`;
  const beyond = `1${'0'.repeat(given.precision - given.scale)}`;
  return [`abs(arrow_cast((${expression}), '${wide}')) >= arrow_cast('${beyond}', '${wide}')`];
}

const mostDigits = 76;

/** The engine makes the first or the last time that there is of a float that is too large. */
function timestampLosses(expression: CheckedSql, given: DataType): readonly string[] {
  if (given.kind !== 'timestamp' || !/\bto_timestamp\b/i.test(expression)) return [];
  return [
    `arrow_cast((${expression}), 'Int64') IN (${ends(64, true)
      .map((end) => integer(end, 'Int64'))
      .join(', ')})`,
  ];
}

/**
 * It is a loss if the value is infinite where the columns that were computed with are finite, or a longer float is. What
 * divides, or has a pole, makes infinity by its definition.
 */
function floatLosses(expression: CheckedSql, fields: readonly Field[], given: DataType): readonly string[] {
  if (given.kind !== 'float') return [];
  const floats = inLongFloats(expression, fields);
  const lost = [
    ...(floats === undefined ? [] : [isBounded(floats)]),
    ...(infiniteByDefinition.test(expression) ? [] : [finiteInputs(expression, fields)]),
  ];
  return lost.map((condition) => `${magnitude(expression)} = ${infinity} AND ${condition}`);
}

/** Finds expressions whose definition can give infinity, and those with infinity in their text. */
export const infiniteByDefinition = /[/%]|inf|\b(?:ln|log|log2|log10|atanh|cot)\b/i;

const infinity = `CAST('inf' AS DOUBLE)`;
const magnitude = (expression: string): string => `abs(CAST((${expression}) AS DOUBLE))`;

const isBounded = (expression: string): string => `${magnitude(expression)} < ${infinity}`;

/** An expression computes with these columns. */
export function inputsOf(expression: CheckedSql, fields: readonly Field[]): readonly Field[] {
  const names = namesIn(expression);
  return fields.filter(({ name }) => names.has(name));
}

/** It is false where floats are inside of other columns. */
function finiteInputs(expression: CheckedSql, fields: readonly Field[]): string {
  const inputs = inputsOf(expression, fields);
  if (inputs.some(({ children }) => children.length > 0)) return 'false';
  const floats = inputs.filter(({ type }) => type.kind === 'float');
  return ['true', ...floats.map(({ name }) => `coalesce(${isBounded(quoteSegment(name))}, true)`)].join(' AND ');
}

function namesIn(expression: CheckedSql): ReadonlySet<string> {
  const tokens = new TokenReader(expression, noLimits);
  const names = new Set<string>();
  while (tokens.peek().kind !== 'end') {
    const { kind, value, written } = tokens.take();
    if (kind === 'word' || kind === 'name') names.add(kind === 'word' ? written : value);
  }
  return names;
}

/** The engine reads a number with a point, or beyond the longest integer, as a float, which holds so many digits. */
const digitsOfFloat = 15;
const mostInteger = 2n ** 64n - 1n;

/** Says whether the engine makes another decimal of a number in the expression. */
export function hasInexactNumber(expression: CheckedSql): boolean {
  const tokens = new TokenReader(expression, noLimits);
  while (tokens.peek().kind !== 'end') {
    const { kind, written } = tokens.take();
    const [digits = ''] = written.toLowerCase().split('e');
    const isInteger = /^\d+$/.test(written) && BigInt(written) <= mostInteger;
    const counted = digits.replace('.', '').replace(/^0+|0+$/g, '');
    if (kind === 'number' && !isInteger && counted.length > digitsOfFloat) return true;
  }
  return false;
}

/** Returns undefined where all stays as it is. */
function inLongFloats(expression: CheckedSql, fields: readonly Field[]): string | undefined {
  const short = new Set(
    fields.flatMap(({ name, type }) => (type.kind === 'float' && type.bitWidth < 64 ? [name] : [])),
  );
  const tokens = new TokenReader(expression, noLimits);
  const parts: string[] = [];
  let isOther = false;
  for (let before: Token | undefined; tokens.peek().kind !== 'end'; ) {
    const token = tokens.take();
    const part = longFloat(token, before, short);
    parts.push(part);
    isOther ||= part !== token.written;
    before = token;
  }
  return isOther && parts.length > 1 ? parts.join(' ') : undefined;
}

function longFloat(
  { kind, value, written }: Token,
  before: Token | undefined,
  shortFloats: ReadonlySet<string>,
): string {
  if (isType(before)) return value === 'FLOAT' || value === 'REAL' ? 'DOUBLE' : written;
  if (kind === 'text' && /^Float(?:16|32)$/.test(value)) return `'Float64'`;
  const name = kind === 'word' ? written : kind === 'name' ? value : undefined;
  return name !== undefined && shortFloats.has(name) ? `arrow_cast(${quoteSegment(name)}, 'Float64')` : written;
}

/** Says whether a type comes next, or what may be a name instead. */
const isType = (before: Token | undefined): boolean => before?.value === '::' || before?.value === 'AS';
