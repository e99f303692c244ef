/** Values of columns: whole numbers, dates and decimals are bigint, floats are number, bytes are Buffer. */
export type Value =
  | null
  | boolean
  | bigint
  | number
  | string
  | Buffer
  | readonly Value[]
  | { readonly [field: string]: Value };
type Struct = { readonly [field: string]: Value };
/** By column. A column that is left out was not sent, which is not the same as NULL. */
export type Row = Struct;

export const isStruct = (value: Value): value is Struct =>
  value !== null && typeof value === 'object' && !Array.isArray(value) && !Buffer.isBuffer(value);

/** Equal texts, equal values as they are stored: NaN equals NaN, -0.0 and 0.0 differ. */
export function textOf(value: Value | undefined): string {
  if (value === null || value === undefined) return 'NULL';
  if (typeof value === 'string') return JSON.stringify(value);
  if (typeof value === 'number') return Object.is(value, -0) ? '-0.0' : value.toFixed(Number.isInteger(value) ? 1 : 3);
  if (typeof value !== 'object') return String(value);
  if (Buffer.isBuffer(value)) return `0x${value.toString('hex')}`;
  if (isStruct(value)) return `{${fieldsText(value)}}`;
  return `[${value.map(textOf).join(', ')}]`;
}

const fieldsText = (struct: Struct): string =>
  Object.keys(struct)
    .sort()
    .map((name) => `${name}: ${textOf(struct[name])}`)
    .join(', ');

export function valueAt(row: Row, segments: readonly string[]): Value {
  let value: Value = row;
  for (const name of segments) {
    if (!isStruct(value)) return null;
    value = value[name] ?? null;
  }
  return value;
}

/** What stands for the key of a row, by which both zeros are one; undefined where NULL is in it, which equals nothing. */
export function keyOf(row: Row, paths: readonly (readonly string[])[]): string | undefined {
  const values = paths.map((segments) => valueAt(row, segments));
  return values.includes(null) ? undefined : values.map((value) => textOf(value === 0 ? 0 : value)).join(' | ');
}

/** JSON that keeps the kinds of values apart. */
export const toJson = (value: unknown): string => JSON.stringify(tagged(value));

function tagged(value: unknown): unknown {
  if (typeof value === 'bigint') return { $int: String(value) };
  if (typeof value === 'number')
    return Number.isSafeInteger(value) && !Object.is(value, -0) ? value : { $float: textOf(value) };
  if (Buffer.isBuffer(value)) return { $bytes: value.toString('hex') };
  if (Array.isArray(value)) return value.map(tagged);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, tagged(inner)]));
}

export const fromJson = (text: string): unknown =>
  JSON.parse(text, (_name, value: unknown) => {
    if (value === null || typeof value !== 'object') return value;
    if ('$int' in value) return BigInt(value.$int as string);
    if ('$float' in value) return Number(value.$float);
    return '$bytes' in value ? Buffer.from(value.$bytes as string, 'hex') : value;
  });
