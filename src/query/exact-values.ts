/**
 * Finds the rows for which the engine computes an expression wrongly and reports no error: a sum or product of integers overflows and
 * wraps around, and a cast to a short float makes infinity of a number that is too large for it.
 */
import { quoteSegment } from '../arrow/schema/field-path.ts';
import type { DataType, Field } from '../arrow/schema/schema.ts';
import { type CheckedSql, ownSql } from '../kernel/checked-sql.ts';
import { noLimits, type Token, TokenReader } from '../sql/tokens.ts';

/** An expression computed without loss; undefined where there is none to fear, or none that is known. */
export interface ExactForms {
  /** In decimals: known of whole columns of integers and what `neutral` has. */
  readonly integers: CheckedSql | undefined;
  /** In floats of 64 bits. */
  readonly floats: CheckedSql | undefined;
}

export const exactFormsOf = (expression: CheckedSql, fields: readonly Field[]): ExactForms => ({
  integers: computes(expression) ? rewritten(expression, (...at) => exactInteger(fields, ...at)) : undefined,
  floats: rewritten(expression, longFloat),
});

/**
 * A condition on rows in which the expression, whose values are of the type `given`, is not what it says, or is no value of `target`.
 * The engine makes `b + 1` as long as `b` where that is the whole of an expression, and longer elsewhere: so its range counts too.
 */
export function lossOf(
  expression: CheckedSql,
  { integers, floats }: ExactForms,
  given: DataType,
  target: DataType,
): CheckedSql | undefined {
  if (given.kind === 'int' && integers !== undefined) {
    const beyond = [given, target].flatMap((type) => beyondRange(integers, type));
    return ownSql([`(${expression}) <> (${integers})`, ...beyond].join(' OR '));
  }
  if (given.kind !== 'float' || floats === undefined) return undefined;
  return ownSql(`${magnitude(expression)} = ${infinity} AND ${magnitude(floats)} < ${infinity}`);
}

function beyondRange(exact: CheckedSql, type: DataType): readonly string[] {
  if (type.kind !== 'int') return [];
  const values = 2n ** BigInt(type.bitWidth);
  const least = type.signed ? -(values / 2n) : 0n;
  return [`(${exact}) < ${decimal(`'${least}'`)}`, `(${exact}) > ${decimal(`'${least + values - 1n}'`)}`];
}

const computes = (expression: string): boolean => /[-+*]/.test(expression) && !/^\s*[-+]?\s*\d+\s*$/.test(expression);

/** Holds the product of three of the longest integers. */
const decimal = (value: string): string => `arrow_cast(${value}, 'Decimal256(40, 0)')`;
const infinity = `CAST('inf' AS DOUBLE)`;
const magnitude = (expression: string): string => `abs(CAST((${expression}) AS DOUBLE))`;

/** What stands for a token: undefined where nothing is known of it. */
type Rewrite = (token: Token, before: Token | undefined) => string | undefined;

/** undefined where one of the tokens has no meaning, or all stay. */
function rewritten(expression: CheckedSql, rewrite: Rewrite): CheckedSql | undefined {
  const tokens = new TokenReader(expression, noLimits);
  const [parts, written]: [string[], string[]] = [[], []];
  let before: Token | undefined;
  while (tokens.peek().kind !== 'end') {
    const token = tokens.take();
    const part = rewrite(token, before);
    if (part === undefined) return undefined;
    parts.push(part);
    written.push(token.written);
    before = token;
  }
  return parts.join(' ') === written.join(' ') ? undefined : ownSql(parts.join(' '));
}

function exactInteger(fields: readonly Field[], token: Token, before: Token | undefined): string | undefined {
  if (isType(before)) return integerTypes.has(token.value) ? 'DECIMAL(38, 0)' : undefined;
  const { kind, value, written } = token;
  const name = kind === 'word' ? written : kind === 'name' ? value : undefined;
  const column = fields.find((field) => field.name === name);
  switch (column?.type.kind) {
    case 'int':
      return decimal(quoteSegment(column.name));
    case 'utf8':
    case 'large_utf8':
    case 'bool':
      return written;
    case undefined:
      break;
    default:
      return undefined;
  }
  if (kind === 'number') return isInteger(value) ? decimal(value) : undefined;
  if (kind === 'text') return /^U?Int(?:8|16|32|64)$/.test(value) ? `'Decimal256(40, 0)'` : written;
  return isNeutral(token) ? written : undefined;
}

const integerTypes: ReadonlySet<string> = new Set(['BIGINT', 'INT', 'INTEGER', 'SMALLINT', 'TINYINT']);

/** Whether a type comes next, or what may be a name instead. */
const isType = (before: Token | undefined): boolean => before?.value === '::' || before?.value === 'AS';

/** As many digits as every integer has: the engine makes floats of longer ones. */
const isInteger = (value: string): boolean => /^\d{1,19}$/.test(value);

/** Mean the same of decimals as of integers. */
const neutral: ReadonlySet<string> = new Set(
  `+ - * ( ) , = == <> != < <= > >= :: AND AS BETWEEN CASE CAST ARROW_CAST COALESCE ELSE END FALSE GREATEST IFNULL IN IS LEAST NOT
  NULL NULLIF NVL OR THEN TRUE WHEN`.split(/\s+/),
);

const isNeutral = ({ kind, value }: Token): boolean => (kind === 'word' || kind === 'symbol') && neutral.has(value);

function longFloat({ kind, value, written }: Token, before: Token | undefined): string {
  if (isType(before) && value === 'FLOAT') return 'DOUBLE';
  return kind === 'text' && /^Float(?:16|32)$/.test(value) ? `'Float64'` : written;
}
