/** The values of one column as bytes: contiguous where all have one width, else ranges of a common buffer. */
import { bitAt, type ColumnData, columnLayout } from '../arrow/column/column-data.ts';
import type { Field } from '../arrow/schema/schema.ts';
import { invalidInput } from '../kernel/errors.ts';

export type KeyValues =
  | { readonly form: 'fixed'; readonly widthBytes: number; readonly bytes: Uint8Array }
  | {
      readonly form: 'variable';
      readonly bytes: Uint8Array;
      readonly starts: Uint32Array;
      readonly ends: Uint32Array;
    };

/** Offsets are held in 32 bits, which bounds the bytes of one key column. */
const maxVariableBytes = 0xffff_ffff;

function bitValues({ bytes, length }: ColumnData): Uint8Array {
  const values = new Uint8Array(length);
  for (let row = 0; row < length; row++) values[row] = Number(bitAt(bytes, row));
  return values;
}

/** The values of `field`; of a dictionary-encoded column its indices. */
export function valuesOf(data: ColumnData, field: Field): KeyValues {
  const { bytes, offsets, length } = data;
  const layout = columnLayout(field);
  switch (layout.form) {
    case 'bits':
      return { form: 'fixed', widthBytes: 1, bytes: bitValues(data) };
    case 'fixed':
      return { form: 'fixed', widthBytes: layout.widthBytes, bytes: bytes.subarray(0, length * layout.widthBytes) };
    case 'variable':
      return { form: 'variable', bytes, starts: offsets.subarray(0, length), ends: offsets.subarray(1) };
    default:
      throw new Error(`${layout.form} values are no keys`);
  }
}

const valueBytes = (values: KeyValues, row: number): number =>
  values.form === 'fixed' ? values.widthBytes : values.ends[row]! - values.starts[row]!;

export interface KeyMeasure {
  readonly allBytes: number;
  readonly longest: { readonly row: number; readonly bytes: number };
}

/** The size of keys with dictionaries resolved: in a dictionary, a long value costs each row that has it one byte. */
export function measureKeys(columns: readonly KeyValues[], rows: number): KeyMeasure {
  let longest = { row: 0, bytes: 0 };
  let allBytes = 0;
  for (let row = 0; row < rows; row++) {
    let bytes = 0;
    for (const values of columns) bytes += valueBytes(values, row);
    allBytes += bytes;
    if (bytes > longest.bytes) longest = { row, bytes };
  }
  return { allBytes, longest };
}

export function equalKeys(columns: readonly KeyValues[], a: number, b: number): boolean {
  return columns.every((values) => Buffer.compare(valueAt(values, a), valueAt(values, b)) === 0);
}

const valueAt = (values: KeyValues, row: number): Uint8Array =>
  values.form === 'fixed'
    ? values.bytes.subarray(row * values.widthBytes, (row + 1) * values.widthBytes)
    : values.bytes.subarray(values.starts[row], values.ends[row]);

function concatenateFixed(parts: readonly KeyValues[], widthBytes: number): KeyValues {
  const total = parts.reduce((sum, part) => sum + part.bytes.length, 0);
  const bytes = new Uint8Array(total);
  let end = 0;
  for (const part of parts) {
    bytes.set(part.bytes, end);
    end += part.bytes.length;
  }
  return { form: 'fixed', widthBytes, bytes };
}

function concatenateVariable(parts: readonly (KeyValues & { form: 'variable' })[]): KeyValues {
  const bytesTotal = parts.reduce((sum, part) => sum + part.bytes.length, 0);
  if (bytesTotal > maxVariableBytes) throw invalidInput(`its keys exceed ${maxVariableBytes} bytes`);
  const count = parts.reduce((sum, part) => sum + part.starts.length, 0);
  const values = { bytes: new Uint8Array(bytesTotal), starts: new Uint32Array(count), ends: new Uint32Array(count) };
  let bytesEnd = 0;
  let row = 0;
  for (const part of parts) {
    values.bytes.set(part.bytes, bytesEnd);
    for (let i = 0; i < part.starts.length; i++, row++) {
      values.starts[row] = part.starts[i]! + bytesEnd;
      values.ends[row] = part.ends[i]! + bytesEnd;
    }
    bytesEnd += part.bytes.length;
  }
  return { form: 'variable', ...values };
}

/** All parts are of one form. `none` stands for a column without a batch. */
export function concatenateValues(parts: readonly KeyValues[]): KeyValues {
  const [first] = parts;
  if (first === undefined) return { form: 'fixed', widthBytes: 1, bytes: new Uint8Array(0) };
  if (parts.length === 1) return first;
  if (first.form === 'fixed') return concatenateFixed(parts, first.widthBytes);
  return concatenateVariable(parts.filter((part) => part.form === 'variable'));
}

/** The values at `picks`; row `i` of the result is value `picks[i]`. Picks of null rows must be in range, too. */
export function pickValues(values: KeyValues, picks: Uint32Array): KeyValues {
  if (values.form === 'variable') {
    const { bytes, starts, ends } = values;
    return {
      form: 'variable',
      bytes,
      starts: picks.map((pick) => starts[pick]!),
      ends: picks.map((pick) => ends[pick]!),
    };
  }
  const { widthBytes } = values;
  const bytes = new Uint8Array(picks.length * widthBytes);
  for (const [row, pick] of picks.entries()) {
    for (let k = 0; k < widthBytes; k++) bytes[row * widthBytes + k] = values.bytes[pick * widthBytes + k]!;
  }
  return { form: 'fixed', widthBytes, bytes };
}
