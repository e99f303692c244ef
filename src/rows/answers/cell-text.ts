/**
 * Values of a column as JSON text. What JSON has no form for is a text: integers beyond 2^53 and decimals their digits, binary base64
 * (RFC 4648), times ISO 8601, and `NaN`, `Infinity` and `-Infinity` their names. docs/rows.md says so to users.
 */
import { bitAt, type ColumnData } from '../../arrow/column/column-data.ts';
import { asBuffer } from '../../arrow/format/ipc-file.ts';
import type { DataType, Field } from '../../arrow/schema/schema.ts';
import type { VectorText } from '../answer-form.ts';
import type { TextOut } from './text-out.ts';
import { durationText, intervalText, temporalText } from './time-text.ts';

/** Writes the value in a row. */
export type WriteCell = (out: TextOut, row: number) => void;

export interface CellContext {
  readonly vectors: VectorText;
  /** The values of a dictionary-encoded column, perhaps in several parts. */
  readonly valuesOf: (field: Field) => readonly ColumnData[];
}

/** So much of a vector is a preview. */
const previewValues = 3;

const [comma, quote, openList, closeList, closeObject] = [0x2c, 0x22, 0x5b, 0x5d, 0x7d];

export const isVector = ({ type, children }: Field): boolean =>
  type.kind === 'fixed_size_list' && children[0]?.type.kind === 'float';

export function cellOf(field: Field, data: ColumnData, context: CellContext): WriteCell {
  const value = presentCell(field, data, context);
  const { validity } = data;
  if (validity === undefined) return value;
  return (out, row) => {
    if (bitAt(validity, row)) value(out, row);
    else out.ascii('null');
  };
}

function presentCell(field: Field, data: ColumnData, context: CellContext): WriteCell {
  if (field.dictionary !== undefined) return encoded(field, data, context);
  const { type } = field;
  const bytes = asBuffer(data.bytes);
  switch (type.kind) {
    case 'null':
      return (out) => out.ascii('null');
    case 'bool':
      return (out, row) => out.ascii(bitAt(bytes, row) ? 'true' : 'false');
    case 'int':
      return integers(bytes, type);
    case 'float':
      return floats(bytes, type.bitWidth);
    case 'decimal':
      return decimals(bytes, type);
    case 'utf8':
    case 'large_utf8':
      return (out, row) => out.text(bytes, data.offsets[row]!, data.offsets[row + 1]!);
    case 'binary':
    case 'large_binary':
      return (out, row) => out.ascii(`"${bytes.toString('base64', data.offsets[row], data.offsets[row + 1])}"`);
    case 'fixed_size_binary':
      return (out, row) => out.ascii(`"${bytes.toString('base64', row * type.byteWidth, (row + 1) * type.byteWidth)}"`);
    case 'date':
    case 'time':
    case 'timestamp':
      return quoted(bytes, temporalText(type));
    case 'duration':
      return quoted(bytes, durationText(type.unit));
    case 'interval':
      return quoted(bytes, intervalText(type.unit));
    case 'list':
    case 'large_list':
    case 'map': {
      const item = cellOf(field.children[0]!, data.children[0]!, context);
      return (out, row) => list(out, item, data.offsets[row]!, data.offsets[row + 1]!);
    }
    case 'fixed_size_list':
      return fixedList(field, type.listSize, data, context);
    case 'struct':
      return objects(
        field.children,
        field.children.map((child, i) => cellOf(child, data.children[i]!, context)),
      );
  }
}

/** JSON objects with a member for each field. */
export function objects(fields: readonly Field[], cells: readonly WriteCell[]): WriteCell {
  if (fields.length === 0) return (out) => out.ascii('{}');
  const names = fields.map(({ name }, i) => Buffer.from(`${i === 0 ? '{' : ','}${JSON.stringify(name)}:`));
  return (out, row) => {
    for (let i = 0; i < cells.length; i++) {
      out.raw(names[i]!);
      cells[i]!(out, row);
    }
    out.byte(closeObject);
  };
}

function items(out: TextOut, item: WriteCell, start: number, end: number): void {
  out.byte(openList);
  for (let at = start; at < end; at++) {
    if (at > start) out.byte(comma);
    item(out, at);
  }
}

function list(out: TextOut, item: WriteCell, start: number, end: number): void {
  items(out, item, start, end);
  out.byte(closeList);
}

function fixedList(field: Field, size: number, data: ColumnData, context: CellContext): WriteCell {
  const item = cellOf(field.children[0]!, data.children[0]!, context);
  if (context.vectors === 'full' || !isVector(field) || size <= previewValues)
    return (out, row) => list(out, item, row * size, (row + 1) * size);
  const rest = Buffer.from(`,"… ${size - previewValues} more"]`);
  return (out, row) => {
    items(out, item, row * size, row * size + previewValues);
    out.raw(rest);
  };
}

function encoded(field: Field, data: ColumnData, context: CellContext): WriteCell {
  const width = field.dictionary!.index.bitWidth / 8;
  const values = { ...field, dictionary: undefined, nullable: true };
  const parts = context.valuesOf(field);
  const cells = parts.map((part) => cellOf(values, part, context));
  const bytes = asBuffer(data.bytes);
  const indexAt = (row: number): number =>
    width === 8 ? Number(bytes.readBigUInt64LE(row * 8)) : bytes.readUIntLE(row * width, width);
  return (out, row) => {
    let index = indexAt(row);
    for (const [part, { length }] of parts.entries()) {
      if (index < length) return cells[part]!(out, index);
      index -= length;
    }
    throw new Error('an index lies outside its dictionary');
  };
}

function integers(bytes: Buffer, { bitWidth, signed }: Extract<DataType, { readonly kind: 'int' }>): WriteCell {
  switch (bitWidth) {
    case 8:
      return (out, row) => out.integer(signed ? bytes.readInt8(row) : bytes.readUInt8(row));
    case 16:
      return (out, row) => out.integer(signed ? bytes.readInt16LE(row * 2) : bytes.readUInt16LE(row * 2));
    case 32:
      return (out, row) => out.integer(signed ? bytes.readInt32LE(row * 4) : bytes.readUInt32LE(row * 4));
    case 64:
      return (out, row) => {
        const at = row * 8;
        const high = signed ? bytes.readInt32LE(at + 4) : bytes.readUInt32LE(at + 4);
        const value = high * 2 ** 32 + bytes.readUInt32LE(at);
        if (Number.isSafeInteger(value)) out.integer(value);
        else out.ascii(`"${signed ? bytes.readBigInt64LE(at) : bytes.readBigUInt64LE(at)}"`);
      };
  }
}

function floats(bytes: Buffer, bitWidth: 16 | 32 | 64): WriteCell {
  switch (bitWidth) {
    case 64:
      return (
        (values) => (out, row) =>
          out.double(values[row]!)
      )(new Float64Array(aligned(bytes)));
    case 32:
      return (
        (values) => (out, row) =>
          out.single(values[row]!)
      )(new Float32Array(aligned(bytes)));
    case 16:
      // Five digits tell all half floats apart.
      return (out, row) => out.double(Number(halfFloat(bytes.readUInt16LE(row * 2)).toPrecision(5)));
  }
}

/** The bytes where a view of wider numbers may begin. */
const aligned = (bytes: Buffer): ArrayBuffer => Uint8Array.from(bytes).buffer;

/** IEEE 754, binary16. */
function halfFloat(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0x1f) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

function decimals(bytes: Buffer, { bitWidth, scale }: Extract<DataType, { readonly kind: 'decimal' }>): WriteCell {
  const words = bitWidth / 32;
  return (out, row) => {
    let value = BigInt(bytes.readInt32LE((row * words + words - 1) * 4));
    for (let word = words - 2; word >= 0; word--) {
      value = (value << 32n) | BigInt(bytes.readUInt32LE((row * words + word) * 4));
    }
    out.ascii(`"${scaled(value, scale)}"`);
  };
}

function scaled(value: bigint, scale: number): string {
  if (scale <= 0) return String(value * 10n ** BigInt(-scale));
  const digits = String(value < 0n ? -value : value).padStart(scale + 1, '0');
  return `${value < 0n ? '-' : ''}${digits.slice(0, -scale)}.${digits.slice(-scale)}`;
}

const quoted =
  (bytes: Buffer, write: (out: TextOut, bytes: Buffer, row: number) => void): WriteCell =>
  (out, row) => {
    out.byte(quote);
    write(out, bytes, row);
    out.byte(quote);
  };
