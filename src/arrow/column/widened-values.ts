/** Makes the values of a column those of a type that has room for all of them (`wider-types.ts`), so each is the same value after. */
import type { DataType } from '../schema/schema.ts';
import { type ColumnData, halfFloat } from './column-data.ts';

export function widenedValues(data: ColumnData, from: DataType, to: DataType): ColumnData {
  if (from.kind === 'decimal' && to.kind === 'decimal') return { ...data, bytes: widerDecimals(data, from, to) };
  if (from.kind !== 'int' && from.kind !== 'float') return data; // offsets are written as wide as the type has them
  const values = numbersOf(from, data.bytes, data.length);
  const bytes = new Uint8Array(data.length * bytesOf(to));
  const target = numbersOf(to, bytes, data.length);
  for (let i = 0; i < data.length; i++) {
    const value = from.kind === 'float' && from.bitWidth === 16 ? halfFloat(Number(values[i])) : (values[i] ?? 0);
    target[i] = target instanceof BigInt64Array || target instanceof BigUint64Array ? BigInt(value) : Number(value);
  }
  return { ...data, bytes };
}

type Numbers = { [index: number]: number | bigint };

const bytesOf = (type: DataType): number => ('bitWidth' in type ? type.bitWidth / 8 : 0);

type NumbersOf = new (buffer: ArrayBufferLike, byteOffset: number, length: number) => Numbers;

const signed: readonly NumbersOf[] = [Int8Array, Int16Array, Int32Array, BigInt64Array];
const unsigned: readonly NumbersOf[] = [Uint8Array, Uint16Array, Uint32Array, BigUint64Array];
const floats: readonly NumbersOf[] = [Uint16Array, Float32Array, Float64Array];

function numbersOf(type: DataType, { buffer, byteOffset }: Uint8Array, length: number): Numbers {
  const ofKind = type.kind === 'float' ? floats : type.kind === 'int' && !type.signed ? unsigned : signed;
  const Values = ofKind[Math.log2(bytesOf(type)) - (type.kind === 'float' ? 1 : 0)] ?? Float64Array;
  return new Values(buffer, byteOffset, length);
}

/** Words of 64 bits above those that are there repeat the sign. */
function widerDecimals({ bytes, length }: ColumnData, from: DataType, to: DataType): Uint8Array {
  const [narrow, wide] = [bytesOf(from) / 8, bytesOf(to) / 8];
  if (narrow === wide) return bytes;
  const words = new BigInt64Array(bytes.buffer, bytes.byteOffset, length * narrow);
  const made = new BigInt64Array(length * wide);
  for (let i = 0; i < length; i++) {
    const sign = (words[(i + 1) * narrow - 1] ?? 0n) < 0n ? -1n : 0n;
    for (let word = 0; word < wide; word++)
      made[i * wide + word] = word < narrow ? (words[i * narrow + word] ?? 0n) : sign;
  }
  return new Uint8Array(made.buffer);
}
