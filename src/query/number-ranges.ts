/** Finds which numbers the type of a column can hold, where the engine's conversion does not ask. */
import { bitAt, type ColumnData, isText } from '../arrow/column/column-data.ts';
import { columnLayout, type DataType, elementOf, type Field } from '../arrow/schema/schema.ts';
import { isObject } from '../kernel/json-bounds.ts';
import { paired } from '../kernel/paired.ts';

/** It checks the values of one batch. */
export type RangeCheck = (data: ColumnData) => (index: number) => boolean;

/** Returns undefined where every value that the engine converts from the one type to the other is in range. */
export const rangeCheck = (given: Field, target: Field): RangeCheck | undefined => checkOf(given, target, rangeOf);

/** Says whether no value is one that the engine makes of a float beyond all others; undefined where the type has none. */
export const endCheck = (field: Field): RangeCheck | undefined => checkOf(field, field, withinEnds);

/** It gives the range for the values of single fields. */
type RangeOf = (given: DataType, target: DataType) => Range | undefined;

function checkOf(given: Field, target: Field, rangeOf: RangeOf): RangeCheck | undefined {
  if (given.dictionary !== undefined || target.dictionary !== undefined) return undefined;
  if (given.type.kind === 'struct') return structCheck(given, target, rangeOf);
  const [to] = target.children;
  if (isList(target.type) && to !== undefined) {
    // Of a single value the engine makes a list.
    return isList(given.type) ? listCheck(given, to, rangeOf) : checkOf(given, to, rangeOf);
  }
  const range = rangeOf(given.type, target.type);
  return range && valueCheck(given, range);
}

const isList = ({ kind }: DataType): boolean => kind === 'list' || kind === 'large_list' || kind === 'fixed_size_list';

/** Fields of one name belong together. */
function structCheck(given: Field, target: Field, rangeOf: RangeOf): RangeCheck | undefined {
  const checks = given.children.map((child) => {
    const to = target.children.find(({ name }) => name === child.name);
    return to && checkOf(child, to, rangeOf);
  });
  if (checks.every((check) => check === undefined)) return undefined;
  return orNull((data) => {
    const children = paired(checks, data.children).flatMap(([check, child]) => check?.(child) ?? []);
    return (index) => children.every((isInRange) => isInRange(index));
  });
}

function listCheck({ type, children: [element] }: Field, to: Field, rangeOf: RangeOf): RangeCheck | undefined {
  const check = element && checkOf(element, to, rangeOf);
  const size = type.kind === 'fixed_size_list' ? type.listSize : undefined;
  return (
    check &&
    orNull((data) => {
      const isInRange = check(elementOf(data));
      const { offsets } = data;
      return (index) => {
        const [start, end] =
          size === undefined ? [offsets[index]!, offsets[index + 1]!] : [index * size, (index + 1) * size];
        for (let i = start; i < end; i++) if (!isInRange(i)) return false;
        return true;
      };
    })
  );
}

const orNull =
  (check: RangeCheck): RangeCheck =>
  (data) => {
    const isInRange = check(data);
    const { validity } = data;
    return validity === undefined ? isInRange : (index) => !bitAt(validity, index) || isInRange(index);
  };

type Range = (value: number) => boolean;

/** Half of a step beyond the largest float of 16 bits: from here on it rounds to infinity. */
const beyondHalf = 65_520;
const secondsPerDay = 86_400;
const perSecond = { s: 1, ms: 1e3, us: 1e6, ns: 1e9 } as const;

const fits = {
  16: (value: number) => Math.abs(value) < beyondHalf,
  32: (value: number) => Number.isFinite(Math.fround(value)),
  64: Number.isFinite,
} as const;

/** Infinity and NaN go with every float; of a text in digits only what the float can hold. */
function rangeOf(given: DataType, target: DataType): Range | undefined {
  if (target.kind === 'time') {
    if (given.kind !== 'int' && given.kind !== 'time' && !isText(given)) return undefined;
    const end = secondsPerDay * perSecond[given.kind === 'time' ? given.unit : target.unit];
    return (value) => Number.isNaN(value) || (value >= 0 && value < end);
  }
  if (target.kind !== 'float') return undefined;
  const isInRange = fits[target.bitWidth];
  if (isText(given)) return (value) => Number.isNaN(value) || isInRange(value);
  if (target.bitWidth === 64 || (given.kind === 'float' && given.bitWidth <= target.bitWidth)) return undefined;
  return (value) => !Number.isFinite(value) || isInRange(value);
}

/** It is the last time that there is, rounded. */
const lastTime = 2 ** 63;

function withinEnds({ kind }: DataType): Range | undefined {
  if (kind === 'float') return (value) => Math.abs(value) !== Number.POSITIVE_INFINITY;
  return kind === 'timestamp' ? (value) => Math.abs(value) !== lastTime : undefined;
}

function valueCheck(field: Field, isInRange: Range): RangeCheck | undefined {
  const numbers = numbersOf(field);
  if (numbers === undefined) return undefined;
  return orNull((data) => {
    const numberAt = numbers(data);
    return (index) => isInRange(numberAt(index));
  });
}

/** Returns the values as numbers, perhaps rounded. */
function numbersOf(field: Field): ((data: ColumnData) => (index: number) => number) | undefined {
  const { type } = field;
  switch (type.kind) {
    case 'utf8':
    case 'large_utf8':
      return textNumbers;
    case 'float':
      return type.bitWidth === 16 ? halfNumbers : views(type.bitWidth === 32 ? Float32Array : Float64Array);
    case 'decimal':
      return decimalNumbers(type.bitWidth / 64, 10 ** type.scale);
    case 'int':
      return views(type.signed ? signedViews[type.bitWidth] : unsignedViews[type.bitWidth]);
    case 'date':
    case 'time':
    case 'timestamp':
    case 'duration':
      return views(columnLayout(field).valueBits === 32 ? Int32Array : BigInt64Array);
    default:
      return undefined;
  }
}

const signedViews = { 8: Int8Array, 16: Int16Array, 32: Int32Array, 64: BigInt64Array } as const;
const unsignedViews = { 8: Uint8Array, 16: Uint16Array, 32: Uint32Array, 64: BigUint64Array } as const;

interface View {
  readonly BYTES_PER_ELEMENT: number;
  new (buffer: ArrayBufferLike, byteOffset: number, length: number): ArrayLike<number | bigint>;
}

const viewOf = (View: View, { bytes }: ColumnData): ArrayLike<number | bigint> =>
  new View(bytes.buffer, bytes.byteOffset, Math.floor(bytes.length / View.BYTES_PER_ELEMENT));

const views = (View: View) => (data: ColumnData) => {
  const values = viewOf(View, data);
  return (index: number): number => Number(values[index]);
};

/** Only whether it is infinite counts of a float of 16 bits. */
const halfNumbers = (data: ColumnData) => {
  const values = viewOf(Uint16Array, data);
  return (index: number): number => ((Number(values[index]) & 0x7fff) === 0x7c00 ? Number.POSITIVE_INFINITY : 0);
};

const decimalNumbers = (words: number, divisor: number) => (data: ColumnData) => {
  const lower = viewOf(BigUint64Array, data);
  const upper = viewOf(BigInt64Array, data);
  return (index: number): number => {
    let value = Number(upper[(index + 1) * words - 1]);
    for (let word = words - 2; word >= 0; word--) value = value * 2 ** 64 + Number(lower[index * words + word]);
    return value / divisor;
  };
};

/** Makes NaN of what is no number in digits: a date, a time of day, `inf`. */
const textNumbers = ({ bytes, offsets }: ColumnData) => {
  const texts = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  return (index: number): number => {
    const text = texts.toString('latin1', offsets[index], offsets[index + 1]);
    if (!/^[+-]?[\d.]/.test(text)) return Number.NaN;
    return Number(text);
  };
};

/** Reads a type in Lance's dialect as far as a number in it has a range: of others nothing is asked. */
export const lanceType = (dataType: string): Pick<Field, 'type' | 'children'> => typeIn(JSON.parse(dataType));

function typeIn(json: unknown): Pick<Field, 'type' | 'children'> {
  const { type, length = 0, fields } = isObject(json) ? json : {};
  const children = (Array.isArray(fields) ? fields : []).filter(isObject).map((field) => ({
    ...plainField,
    name: String(field.name),
    ...typeIn(field.type),
  }));
  switch (type) {
    case 'halffloat':
    case 'float':
      return { type: { kind: 'float', bitWidth: type === 'float' ? 32 : 16 }, children };
    case 'list':
    case 'large_list':
    case 'struct':
      return { type: { kind: type }, children };
    case 'fixed_size_list':
      return { type: { kind: type, listSize: Number(length) }, children };
    default:
      return { type: { kind: 'null' }, children };
  }
}

const plainField = { nullable: true, dictionary: undefined, metadata: new Map<string, string>() };
