/** Writes values of one width as Arrow has them. */
import { setBit } from '../../arrow/column/column-data.ts';
import type { DataType, DataTypeOf } from '../../arrow/schema/schema.ts';
import { parseClock, parseDays, parseDuration, parseTimestamp } from './time-values.ts';

/** Writes a value at an index; false where the type has no such value. */
type WriteValue = (value: unknown, index: number) => boolean;

export function base64(value: unknown): Uint8Array | undefined {
  const isBase64 = typeof value === 'string' && value.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(value);
  return isBase64 ? Buffer.from(value, 'base64') : undefined;
}

export function writerOf(type: DataType, bytes: Uint8Array, isText: boolean): WriteValue {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const long =
    (read: (text: string) => bigint | undefined): WriteValue =>
    (value, i) => {
      const number = typeof value === 'string' ? read(value) : undefined;
      if (number === undefined) return false;
      view.writeBigInt64LE(number, i * 8);
      return true;
    };
  switch (type.kind) {
    case 'bool':
      return (value, i) => {
        const truth = isText ? truthOf(value) : value;
        if (typeof truth !== 'boolean') return false;
        if (truth) setBit(view, i);
        return true;
      };
    case 'int':
      return type.bitWidth === 64 ? longWriter(view, type.signed) : intWriter(view, type);
    case 'float':
      return floatWriter(view, type.bitWidth);
    case 'decimal':
      return decimalWriter(view, type);
    case 'date':
      return (value, i) => {
        const days = typeof value === 'string' ? parseDays(value) : undefined;
        if (days === undefined) return false;
        if (type.unit === 'day') view.writeInt32LE(days, i * 4);
        else view.writeBigInt64LE(BigInt(days) * 86_400_000n, i * 8);
        return true;
      };
    case 'time': {
      const { unit } = type;
      if (unit === 'us' || unit === 'ns') return long((text) => parseClock(text, unit));
      return (value, i) => {
        const time = typeof value === 'string' ? parseClock(value, unit) : undefined;
        if (time === undefined) return false;
        view.writeInt32LE(Number(time), i * 4);
        return true;
      };
    }
    case 'timestamp':
      return long((text) => parseTimestamp(text, type.unit, type.timezone !== undefined));
    case 'duration':
      return long((text) => parseDuration(text, type.unit));
    case 'fixed_size_binary':
      return (value, i) => {
        const read = base64(value);
        if (read?.length !== type.byteWidth) return false;
        view.set(read, i * type.byteWidth);
        return true;
      };
    default:
      return () => false;
  }
}

function truthOf(value: unknown): unknown {
  if (typeof value !== 'string') return value;
  return { true: true, false: false }[value.toLowerCase()];
}

/** It takes whole numbers, also as texts of their digits. */
function wholeNumber(value: unknown): number | bigint | undefined {
  if (typeof value === 'number') return Number.isSafeInteger(value) ? value : undefined;
  if (typeof value === 'bigint') return value;
  return typeof value === 'string' && /^-?\d{1,20}$/.test(value) ? BigInt(value) : undefined;
}

function longWriter(view: Buffer, isSigned: boolean): WriteValue {
  return (value, i) => {
    const number = wholeNumber(value);
    if (number === undefined) return false;
    const long = BigInt(number);
    if ((isSigned ? BigInt.asIntN(64, long) : BigInt.asUintN(64, long)) !== long) return false;
    if (isSigned) view.writeBigInt64LE(long, i * 8);
    else view.writeBigUInt64LE(long, i * 8);
    return true;
  };
}

function intWriter(
  view: Buffer,
  { bitWidth, signed }: { readonly bitWidth: 8 | 16 | 32 | 64; readonly signed: boolean },
): WriteValue {
  const width = bitWidth / 8;
  const [least, most] = signed ? [-(2 ** (bitWidth - 1)), 2 ** (bitWidth - 1) - 1] : [0, 2 ** bitWidth - 1];
  return (value, i) => {
    const number = Number(wholeNumber(value));
    if (!(number >= least && number <= most)) return false;
    if (signed) view.writeIntLE(number, i * width, width);
    else view.writeUIntLE(number, i * width, width);
    return true;
  };
}

const named: Readonly<Record<string, number>> = {
  NaN: Number.NaN,
  Infinity: Number.POSITIVE_INFINITY,
  '-Infinity': Number.NEGATIVE_INFINITY,
};

function anyNumber(value: unknown): number | undefined {
  if (typeof value === 'number') return value;
  if (typeof value === 'bigint') return Number(value);
  if (typeof value !== 'string') return undefined;
  if (Object.hasOwn(named, value)) return named[value];
  return /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$/.test(value) ? Number(value) : undefined;
}

/** Larger finite numbers become infinite as such a float (IEEE 754). */
const largest = { 16: 65_519, 32: 3.402823567797336e38, 64: Number.MAX_VALUE };

function floatWriter(view: Buffer, bitWidth: 16 | 32 | 64): WriteValue {
  const write = {
    16: (number: number, i: number) => view.writeUInt16LE(halfBits(number), i * 2),
    32: (number: number, i: number) => view.writeFloatLE(number, i * 4),
    64: (number: number, i: number) => view.writeDoubleLE(number, i * 8),
  }[bitWidth];
  const most = largest[bitWidth];
  return (value, i) => {
    const number = anyNumber(value);
    if (number === undefined) return false;
    const isNamed = typeof value === 'string' && Object.hasOwn(named, value);
    if (!isNamed && !(Math.abs(number) <= most)) return false;
    write(number, i);
    return true;
  };
}

/** Rounds to the nearest half float, and to the even one of two. */
function halfBits(value: number): number {
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const size = Math.abs(value);
  if (Number.isNaN(size)) return 0x7e00;
  if (size > largest[16]) return sign | 0x7c00;
  const exponent = Math.max(-14, Math.floor(Math.log2(size)));
  const steps = roundToEven(size / 2 ** (exponent - 10));
  return sign | (steps + (exponent + 14) * 1_024);
}

function roundToEven(value: number): number {
  const down = Math.floor(value);
  const rest = value - down;
  if (rest === 0.5) return down + (down % 2);
  return rest > 0.5 ? down + 1 : down;
}

function decimalWriter(view: Buffer, { bitWidth, precision, scale }: DataTypeOf<'decimal'>): WriteValue {
  const width = bitWidth / 8;
  return (value, i) => {
    const digits = typeof value === 'object' || typeof value === 'boolean' ? undefined : digitsAt(String(value), scale);
    if (digits === undefined || String(digits).replace('-', '').length > precision) return false;
    let rest = BigInt.asUintN(bitWidth, digits);
    for (let at = 0; at < width; at += 4) {
      view.writeUInt32LE(Number(rest & 0xffff_ffffn), i * width + at);
      rest >>= 32n;
    }
    return true;
  };
}

/** Answers the number without its point, behind which there are `scale` digits; undefined where digits would be lost. */
function digitsAt(text: string, scale: number): bigint | undefined {
  const [, sign = '', whole, fraction = ''] = /^(-?)(\d{1,80})(?:\.(\d{1,80}))?$/.exec(text) ?? [];
  if (whole === undefined) return undefined;
  const digits = BigInt(sign + whole + fraction);
  const more = scale - fraction.length;
  if (more >= 0) return digits * 10n ** BigInt(more);
  const divisor = 10n ** BigInt(-more);
  return digits % divisor === 0n ? digits / divisor : undefined;
}
