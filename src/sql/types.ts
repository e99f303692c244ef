/** Clients may cast to these types, with parameters that the engine can stand: some make it panic. */
import { SqlMistake, type Token, type TokenReader, unexpected } from './tokens.ts';

/** The names of types in SQL, in upper case. */
export const sqlTypes: ReadonlySet<string> = new Set(
  `BIGINT BINARY BOOLEAN BYTEA DATE DATETIME DECIMAL DOUBLE FLOAT INT INTEGER JSONB NUMERIC REAL SMALLINT STRING TEXT TIME
  TIMESTAMP TINYINT VARCHAR`.split(/\s+/),
);

/** A text of twice the length can be made of them, and bytes again of that. */
const byteTypes: ReadonlySet<string> = new Set(['BINARY', 'BYTEA']);

/** These types may stand before a literal: `DATE '2026-01-01'`. */
export const literalTypes: ReadonlySet<string> = new Set('DATE DATETIME INTERVAL JSONB TIME TIMESTAMP'.split(' '));

/** Takes the type of a cast, with its parameters. Answers what a cast to it counts of `sqlLimits.multipliers`. */
export function takeType(sql: TokenReader): number {
  const token = sql.take();
  if (token.kind !== 'word' || !sqlTypes.has(token.value)) {
    throw new SqlMistake(`a type should come here, one of ${[...sqlTypes].join(', ').toLowerCase()}`, token.at);
  }
  if (sql.takeSign('(')) takeParameters(sql, token);
  if (!sql.takeWord('UNSIGNED')) sql.takeWord('PRECISION');
  return byteTypes.has(token.value) ? 2 : 0;
}

function takeParameters(sql: TokenReader, type: Token): void {
  const parameters: number[] = [];
  do {
    const parameter = sql.take();
    if (parameter.kind !== 'number') throw new SqlMistake('a number should come here', parameter.at);
    parameters.push(Number(parameter.value));
  } while (sql.takeSign(','));
  if (!sql.takeSign(')')) throw unexpected(sql.peek());
  const wrong = parametersRule(type.value, parameters);
  if (wrong !== undefined) throw new SqlMistake(`${type.value.toLowerCase()} ${wrong}`, type.at);
}

const largestLength = 9_999;

/** What is wrong with the parameters of a type of SQL. */
function parametersRule(type: string, parameters: readonly number[]): string | undefined {
  if (type === 'DECIMAL' || type === 'NUMERIC') {
    const [precision = 0, scale = 0] = parameters;
    return parameters.length <= 2 ? decimalRule(precision, scale, 38) : 'takes a precision and a scale';
  }
  if (parameters.length > 1) return 'takes one parameter';
  return (parameters[0] ?? 0) > largestLength ? `takes at most ${largestLength}` : undefined;
}

function decimalRule(precision: number, scale: number, most: number): string | undefined {
  if (precision < 1 || precision > most) return `takes a precision of 1 to ${most}`;
  return scale < 0 || scale > precision ? 'takes a scale from 0 to its precision' : undefined;
}

const plainArrowType =
  /^(?:U?Int(?:8|16|32|64)|Float(?:16|32|64)|(?:Large)?(?:Utf8|Binary)|(?:Utf8|Binary)View|Boolean|Null|Date(?:32|64))$/;
const timeType =
  /^(?:Time32\((?:Second|Millisecond|s|ms)\)|Time64\((?:Microsecond|Nanosecond|µs|us|ns)\)|Duration\((?:Second|Millisecond|Microsecond|Nanosecond|s|ms|µs|us|ns)\)|Interval\((?:YearMonth|DayTime|MonthDayNano)\))$/;
const timestampType =
  /^Timestamp\((?:Second|Millisecond|Microsecond|Nanosecond|s|ms|µs|us|ns)(?:, *(?:None|Some\("[A-Za-z0-9_+:/-]{1,64}"\)|"[A-Za-z0-9_+:/-]{1,64}"))?\)$/;
const decimalType = /^Decimal(32|64|128|256)\( *([0-9]{1,2}) *, *(-?[0-9]{1,2}) *\)$/;
const fixedBinaryType = /^FixedSizeBinary\( *([0-9]+) *\)$/;
const dictionaryType = /^Dictionary\(U?Int(?:8|16|32|64), *(?:Large)?Utf8\)$/;
const digitsOf: Readonly<Record<string, number>> = { 32: 9, 64: 18, 128: 38, 256: 76 };

/** What is wrong with the second argument of `arrow_cast`. */
export const arrowTypeRule = (type: string): string | undefined => {
  if ([plainArrowType, timeType, timestampType, dictionaryType].some((shape) => shape.test(type))) return undefined;
  const [, bits, precision, scale] = decimalType.exec(type) ?? [];
  if (bits !== undefined) return decimalRule(Number(precision), Number(scale), digitsOf[bits] ?? 0);
  const [, bytes] = fixedBinaryType.exec(type) ?? [];
  if (bytes === undefined) return 'is not an Arrow type that can be cast to';
  return Number(bytes) > largestLength ? `asks for more than ${largestLength} bytes a value` : undefined;
};
