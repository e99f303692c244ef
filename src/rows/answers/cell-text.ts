/**
 * Writes values of a column as JSON text. What JSON has no form for is a text: integers beyond 2^53 and decimals their digits, binary
 * base64 (RFC 4648), times ISO 8601, and `NaN`, `Infinity` and `-Infinity` their names. docs/rows.md says so to users.
 */
import { bitAt, type ColumnData, decimalText, halfFloat } from '../../arrow/column/column-data.ts';
import { asBuffer } from '../../arrow/format/ipc-file.ts';
import { type DataTypeOf, elementOf, type Field, valuesField } from '../../arrow/schema/schema.ts';
import { LancegateError } from '../../kernel/errors.ts';
import { paired } from '../../kernel/paired.ts';
import type { VectorText } from '../answer-form.ts';
import { type Cell, cell, placeOf, type WriteColumn, wordsOf } from './column-cell.ts';
import { type FixedText, fixedText, type TextOut, viewOf } from './text-out.ts';
import { dateText, durationText, intervalText, timestampText, timeText } from './time-text.ts';

interface CellContext {
  readonly vectors: VectorText;
  /** The values of a dictionary-encoded column may come in several parts. */
  readonly valuesOf: (field: Field) => readonly ColumnData[];
}

/** How many values of a vector a preview shows. */
const previewValues = 3;

const [comma, quote, openList, closeList, openObject, closeObject] = [0x2c, 0x22, 0x5b, 0x5d, 0x7b, 0x7d];

const nullText = fixedText('null');
const trueText = fixedText('true');
const falseText = fixedText('false');

export const isVector = ({ type, children }: Field): boolean =>
  type.kind === 'fixed_size_list' && children[0]?.type.kind === 'float';

export function cellOf(field: Field, data: ColumnData, context: CellContext): Cell {
  const value = presentCell(field, data, context);
  const { validity } = data;
  return validity === undefined ? value : cell({ validity, value }, writeNullable);
}

const writeNullable: WriteColumn<{ readonly validity: Uint8Array; readonly value: Cell }> = (
  { validity, value },
  out,
  row,
) => {
  if (bitAt(validity, row)) value.write(out, row);
  else out.fixed(nullText);
};

function presentCell(field: Field, data: ColumnData, context: CellContext): Cell {
  if (field.dictionary !== undefined) return encoded(field, field.dictionary.index.bitWidth / 8, data, context);
  const { type } = field;
  const bytes = asBuffer(data.bytes);
  switch (type.kind) {
    case 'null':
      return { write: (out) => out.fixed(nullText) };
    case 'bool':
      return cell(bytes, writeBool);
    case 'int':
      return integers(bytes, type);
    case 'float':
      return floats(bytes, type.bitWidth);
    case 'decimal':
      return decimals(bytes, type);
    case 'utf8':
    case 'large_utf8':
      return cell({ source: viewOf(bytes), offsets: data.offsets }, writeText);
    case 'binary':
    case 'large_binary':
      return base64((row) => bytes.subarray(data.offsets[row], data.offsets[row + 1]));
    case 'fixed_size_binary':
      return base64((row) => bytes.subarray(row * type.byteWidth, (row + 1) * type.byteWidth));
    case 'date':
      return quoted(dateText(type, bytes));
    case 'time':
      return quoted(timeText(type, bytes));
    case 'timestamp':
      return quoted(timestampText(type, bytes));
    case 'duration':
      return quoted(durationText(bytes, type.unit));
    case 'interval':
      return quoted(intervalText(bytes, type));
    case 'list':
    case 'large_list':
    case 'map': {
      const item = cellOf(elementOf(field), elementOf(data), context);
      return { write: (out, row) => list(out, item, data.offsets[row]!, data.offsets[row + 1]!) };
    }
    case 'fixed_size_list':
      return fixedList(field, type.listSize, data, context);
    case 'struct':
      return new ObjectText(
        field.children,
        paired(field.children, data.children).map(([child, inner]) => cellOf(child, inner, context)),
      );
  }
}

const base64 = (valueAt: (row: number) => Buffer): Cell => ({
  write: (out, row) => out.ascii(`"${valueAt(row).toString('base64')}"`),
});

const writeBool: WriteColumn<Buffer> = (bits, out, row) => out.fixed(bitAt(bits, row) ? trueText : falseText);

const writeText: WriteColumn<{ readonly source: DataView; readonly offsets: Uint32Array }> = (
  { source, offsets },
  out,
  row,
) => out.text(source, offsets[row]!, offsets[row + 1]!);

/** Writes JSON objects with a member for each field. */
export class ObjectText implements Cell {
  readonly #members: readonly { readonly name: FixedText; readonly value: Cell }[];

  constructor(fields: readonly Field[], cells: readonly Cell[]) {
    this.#members = paired(fields, cells).map(([{ name }, value], i) => ({
      name: fixedText(`${i === 0 ? '{' : ','}${JSON.stringify(name)}:`),
      value,
    }));
  }

  write(out: TextOut, row: number): void {
    const members = this.#members;
    if (members.length === 0) out.byte(openObject);
    for (let i = 0; i < members.length; i++) {
      const member = members[i]!;
      out.fixed(member.name);
      member.value.write(out, row);
    }
    out.byte(closeObject);
  }
}

function items(out: TextOut, item: Cell, start: number, end: number): void {
  out.byte(openList);
  for (let at = start; at < end; at++) {
    if (at > start) out.byte(comma);
    item.write(out, at);
  }
}

function list(out: TextOut, item: Cell, start: number, end: number): void {
  items(out, item, start, end);
  out.byte(closeList);
}

function fixedList(field: Field, size: number, data: ColumnData, context: CellContext): Cell {
  const item = cellOf(elementOf(field), elementOf(data), context);
  if (context.vectors === 'full' || !isVector(field) || size <= previewValues)
    return { write: (out, row) => list(out, item, row * size, (row + 1) * size) };
  const rest = fixedText(`,"… ${size - previewValues} more"]`);
  return {
    write: (out, row) => {
      items(out, item, row * size, row * size + previewValues);
      out.fixed(rest);
    },
  };
}

function encoded(field: Field, width: number, data: ColumnData, context: CellContext): Cell {
  const values = valuesField(field);
  const parts = context.valuesOf(field).map((part) => ({ length: part.length, value: cellOf(values, part, context) }));
  const bytes = asBuffer(data.bytes);
  const indexAt = (row: number): number =>
    width === 8 ? Number(bytes.readBigUInt64LE(row * 8)) : bytes.readUIntLE(row * width, width);
  return {
    write(out, row) {
      let index = indexAt(row);
      for (const { length, value } of parts) {
        if (index < length) return value.write(out, index);
        index -= length;
      }
      throw new LancegateError('Internal', 'an index lies outside its dictionary');
    },
  };
}

function integers(bytes: Buffer, { bitWidth, signed }: DataTypeOf<'int'>): Cell {
  switch (bitWidth) {
    case 8:
      return cell(signed ? new Int8Array(...placeOf(bytes, 1)) : bytes, writeInteger);
    case 16:
      return cell(signed ? new Int16Array(...placeOf(bytes, 2)) : new Uint16Array(...placeOf(bytes, 2)), writeInteger);
    case 32:
      return cell(signed ? wordsOf(bytes) : new Uint32Array(...placeOf(bytes, 4)), writeInteger);
    case 64:
      return cell({ words: wordsOf(bytes), signed }, writeLong);
  }
}

const writeInteger: WriteColumn<{ readonly [row: number]: number }> = (values, out, row) => out.integer(values[row]!);

const writeLong: WriteColumn<{ readonly words: Int32Array; readonly signed: boolean }> = (
  { words, signed },
  out,
  row,
) => {
  const upper = words[2 * row + 1]!;
  const high = signed ? upper : upper >>> 0;
  const low = words[2 * row]! >>> 0;
  const value = high * 2 ** 32 + low;
  if (Number.isSafeInteger(value)) out.integer(value);
  else out.ascii(`"${(BigInt(high) << 32n) | BigInt(low)}"`);
};

function floats(bytes: Buffer, bitWidth: 16 | 32 | 64): Cell {
  switch (bitWidth) {
    case 64:
      return cell(new Float64Array(...placeOf(bytes, 8)), writeDouble);
    case 32:
      return cell(new Float32Array(...placeOf(bytes, 4)), writeSingle);
    case 16:
      // Five digits tell all half floats apart.
      return { write: (out, row) => out.double(Number(halfFloat(bytes.readUInt16LE(row * 2)).toPrecision(5))) };
  }
}

const writeDouble: WriteColumn<Float64Array> = (values, out, row) => out.double(values[row]!);
const writeSingle: WriteColumn<Float32Array> = (values, out, row) => out.single(values[row]!);

function decimals(bytes: Buffer, { bitWidth, scale }: DataTypeOf<'decimal'>): Cell {
  const words = bitWidth / 32;
  const write = (out: TextOut, row: number): void => {
    let value = BigInt(bytes.readInt32LE((row * words + words - 1) * 4));
    for (let word = words - 2; word >= 0; word--) {
      value = (value << 32n) | BigInt(bytes.readUInt32LE((row * words + word) * 4));
    }
    out.ascii(`"${decimalText(value, scale)}"`);
  };
  return { write };
}

const quoted = (value: Cell): Cell => cell(value, writeQuoted);

const writeQuoted: WriteColumn<Cell> = (value, out, row) => {
  out.byte(quote);
  value.write(out, row);
  out.byte(quote);
};
