import { CliError } from '../command.ts';

type Row = Readonly<Record<string, unknown>>;

/** By name, in the order in which they are first seen: a value for each row, null where the row has none. */
export type Columns = ReadonlyMap<string, readonly unknown[]>;

/** A JSON array of objects, or one object a line. */
export function readJson(text: string): Columns {
  const rows = /^\s*\[/.test(text) ? readArray(text) : readLines(text);
  const names = new Set(rows.flatMap((row) => Object.keys(row)));
  return new Map([...names].map((name) => [name, rows.map((row) => (Object.hasOwn(row, name) ? row[name] : null))]));
}

function readArray(text: string): readonly Row[] {
  const value = parse(text, 'the JSON array');
  return (value as readonly unknown[]).map((row, index) => requireObject(row, `row ${index + 1}`));
}

function readLines(text: string): readonly Row[] {
  return text
    .split('\n')
    .map((line, index) => ({ line, where: `line ${index + 1}` }))
    .filter(({ line }) => line.trim() !== '')
    .map(({ line, where }) => requireObject(parse(line, where), where));
}

function requireObject(value: unknown, where: string): Row {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Row;
  throw new CliError(`${where}: a row must be a JSON object`);
}

function parse(text: string, where: string): unknown {
  try {
    // Reviving is slow, and only integers of 16 digits or more can lose any.
    return /\d{16}/.test(text) ? JSON.parse(text, keepLongIntegers as Reviver) : JSON.parse(text);
  } catch (error) {
    throw new CliError(`${where} is not JSON: ${error instanceof Error ? error.message : error}`, { cause: error });
  }
}

/** TypeScript's library does not know the third argument yet. */
type Reviver = (key: string, value: unknown) => unknown;

/** JSON has no limit on digits, JavaScript's numbers do: an id beyond 2^53 must not become its neighbour. */
function keepLongIntegers(_key: string, value: unknown, context: { readonly source?: string }): unknown {
  if (typeof value !== 'number' || Number.isSafeInteger(value)) return value;
  return /^-?\d+$/.test(context.source ?? '') ? BigInt(context.source!) : value;
}
