/**
 * Makes columns of Arrow, of types that are given, of the values of a client's rows. A value that does not fit is refused with its
 * place.
 */
import { type ColumnData, isText, setBit } from '../../arrow/column/column-data.ts';
import { formatFieldPath } from '../../arrow/schema/field-path.ts';
import {
  bytesOfBits,
  columnLayout,
  type DataType,
  elementOf,
  type Field,
  typeName,
  valuesField,
} from '../../arrow/schema/schema.ts';
import { invalidInput, type LancegateError } from '../../kernel/errors.ts';
import { isObject } from '../../kernel/json-bounds.ts';
import { base64, writerOf } from './fixed-writers.ts';
import { parseExactly } from './json-rows.ts';
import { mostDepth } from './seen-values.ts';

interface MakingOf {
  readonly place: (row: number) => string;
  /** All values come as texts, as those of CSV do. */
  readonly isText: boolean;
  /** The types are inferred, so that a column of texts takes any value as its JSON. */
  readonly takesAny: boolean;
}

/** It has the values of one column or field, and the row of each. */
interface Given {
  readonly values: readonly unknown[];
  readonly rowOf: (index: number) => number;
  readonly path: readonly string[];
}

const isNone = (value: unknown): value is null | undefined => value === null || value === undefined;
const noBytes = new Uint8Array(0);
const noOffsets = new Uint32Array(0);

/** It has the dictionaries of dictionary-encoded columns by their ids. */
type MadeDictionaries = Map<bigint, { readonly field: Field; readonly data: ColumnData }>;

export class ColumnMaker {
  readonly #making: MakingOf;
  readonly dictionaries: MadeDictionaries = new Map();

  constructor(making: MakingOf) {
    this.#making = making;
  }

  column(field: Field, values: readonly unknown[]): ColumnData {
    return this.#column(field, { values, rowOf: (index) => index, path: [field.name] }, this.#making.isText);
  }

  #column(field: Field, given: Given, isText: boolean): ColumnData {
    if (field.dictionary !== undefined) return this.#encoded(field, field.dictionary, given, isText);
    const { values } = given;
    const length = values.length;
    const validity = new Uint8Array(bytesOfBits(length));
    let hasNull = false;
    for (let i = 0; i < length; i++) {
      if (!isNone(values[i])) setBit(validity, i);
      else if (field.nullable) hasNull = true;
      else throw this.#refuse(given, i, 'is missing or NULL, which the table does not allow in it');
    }
    const made = this.#present(field, given, isText);
    return { length, validity: hasNull ? validity : undefined, ...made };
  }

  #present(field: Field, given: Given, isText: boolean): Omit<ColumnData, 'length' | 'validity'> {
    const { type } = field;
    const { hasBitmap, valueBits = 0, childValues } = columnLayout(field);
    if (type.kind === 'struct')
      return { bytes: noBytes, offsets: noOffsets, children: this.#fields(field, given, isText) };
    if (type.kind === 'fixed_size_list' || childValues === undefined) return this.#list(field, given, isText);
    if (hasBitmap && valueBits === 0) return { ...this.#variable(field, given), children: [] };
    const bytes = new Uint8Array(bytesOfBits(given.values.length * valueBits));
    const write = writerOf(type, bytes, isText);
    const { values } = given;
    for (let i = 0; i < values.length; i++)
      if (!isNone(values[i]) && !write(values[i], i)) throw this.#unfit(field, given, i);
    return { bytes, offsets: noOffsets, children: [] };
  }

  #variable(field: Field, given: Given): Pick<ColumnData, 'bytes' | 'offsets'> {
    const areTexts = isText(field.type);
    const offsets = new Uint32Array(given.values.length + 1);
    const parts = given.values.map((value, i) => {
      if (value === null || value === undefined) return noBytes;
      if (isDeep(value)) throw this.#refuse(given, i, `values are nested more than ${mostDepth} deep`);
      const bytes = areTexts ? this.#text(value) : base64(value);
      if (bytes === undefined) throw this.#unfit(field, given, i);
      return bytes;
    });
    let end = 0;
    for (const [i, { length }] of parts.entries()) offsets[i + 1] = end += length;
    return { bytes: Buffer.concat(parts), offsets };
  }

  #text(value: unknown): Uint8Array | undefined {
    if (typeof value === 'string') return value.isWellFormed() ? Buffer.from(value) : undefined;
    return this.#making.takesAny ? Buffer.from(JSON.stringify(value, digitsOfBigints)) : undefined;
  }

  #fields(field: Field, given: Given, isText: boolean): readonly ColumnData[] {
    const known = new Set(field.children.map(({ name }) => name));
    const objects = given.values.map((value, i) => {
      const object = isText ? nestedIn(value) : value;
      if (object === null || object === undefined) return undefined;
      if (!isObject(object)) throw this.#unfit(field, given, i);
      const unknown = Object.keys(object).find((name) => !known.has(name));
      if (unknown !== undefined)
        throw this.#refuse(given, i, `has a field ${JSON.stringify(unknown)} that it has nowhere before`);
      return object;
    });
    return field.children.map((child) => {
      const values = objects.map((object) => object && (Object.hasOwn(object, child.name) ? object[child.name] : null));
      // Inside a struct that is NULL there may be anything.
      const isNullable = child.nullable || objects.includes(undefined);
      return this.#column(
        { ...child, nullable: isNullable },
        { ...given, values, path: [...given.path, child.name] },
        false,
      );
    });
  }

  #list(field: Field, given: Given, isText: boolean): Omit<ColumnData, 'length' | 'validity'> {
    const size = field.type.kind === 'fixed_size_list' ? field.type.listSize : undefined;
    const none = new Array<unknown>(size ?? 0).fill(null);
    const offsets = new Uint32Array(given.values.length + 1);
    const [items, rows]: [unknown[], number[]] = [[], []];
    for (const [i, value] of given.values.entries()) {
      for (const item of this.#itemsOf(field, given, i, isText ? nestedIn(value) : value) ?? none) {
        items.push(item);
        rows.push(i);
      }
      offsets[i + 1] = items.length;
    }
    const item = elementOf(field);
    const inner = {
      values: items,
      rowOf: (index: number) => given.rowOf(rows[index]!),
      path: [...given.path, item.name],
    };
    // What stands for a list that is NULL may be anything.
    const isNullable = item.nullable || (size !== undefined && given.values.some(isNone));
    const child = this.#column({ ...item, nullable: isNullable }, inner, false);
    return { bytes: noBytes, offsets: size === undefined ? offsets : noOffsets, children: [child] };
  }

  #itemsOf(field: Field, given: Given, index: number, list: unknown): readonly unknown[] | undefined {
    if (isNone(list)) return undefined;
    if (!Array.isArray(list)) throw this.#unfit(field, given, index);
    const { type } = field;
    if (type.kind !== 'fixed_size_list' || list.length === type.listSize) return list;
    throw this.#refuse(given, index, `has ${list.length} values where a vector of ${type.listSize} belongs`);
  }

  /** The column gets a dictionary of the values that it has. */
  #encoded(field: Field, dictionary: NonNullable<Field['dictionary']>, given: Given, isText: boolean): ColumnData {
    const places = new Map<unknown, number>();
    const firsts: number[] = [];
    const indexes = given.values.map((value, i) => {
      if (value === null || value === undefined) return null;
      const place = places.get(value) ?? firsts.push(i) - 1;
      places.set(value, place);
      return place;
    });
    const values = valuesField(field);
    const distinct = { ...given, values: [...places.keys()], rowOf: (index: number) => given.rowOf(firsts[index]!) };
    this.dictionaries.set(dictionary.id, { field: values, data: this.#column(values, distinct, isText) });
    const type: DataType = { kind: 'int', ...dictionary.index };
    return this.#column({ ...field, type, dictionary: undefined, children: [] }, { ...given, values: indexes }, false);
  }

  #unfit(field: Field, given: Given, index: number): LancegateError {
    return this.#refuse(given, index, `${kindNamed(given.values[index])} is no ${nameOf(field)}`);
  }

  /** Names the kind of a value, and never the value. */
  #refuse({ rowOf, path }: Given, index: number, why: string): LancegateError {
    return invalidInput(`${this.#making.place(rowOf(index))}, column ${formatFieldPath({ segments: path })}: ${why}`);
  }
}

function kindNamed(value: unknown): string {
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'string') return 'this text';
  if (typeof value === 'boolean') return 'a truth value';
  return typeof value === 'object' ? 'an object' : 'this number';
}

/** What a person who sends values calls the type. */
function nameOf(field: Field): string {
  const { type } = field;
  if (type.kind === 'decimal') return `decimal of ${type.precision} digits, ${type.scale} of them behind the point`;
  if (type.kind === 'timestamp')
    return `timestamp ${type.timezone === undefined ? 'without an offset ' : ''}in ${type.unit} (ISO 8601)`;
  if (type.kind === 'date' || type.kind === 'time') return `${type.kind} (ISO 8601)`;
  if (type.kind === 'fixed_size_list') return `vector of ${type.listSize}`;
  if (type.kind === 'int' || type.kind === 'float') return typeName(field);
  if (type.kind === 'struct') return 'object';
  if (isText(type)) return 'text';
  return type.kind.endsWith('binary') ? 'binary (base64)' : type.kind;
}

/** Whether a value is too deep to become its JSON: what writes it calls itself for each level. */
const isDeep = (value: unknown, depth = 0): boolean =>
  typeof value === 'object' &&
  value !== null &&
  (depth > mostDepth || Object.values(value).some((each) => isDeep(each, depth + 1)));

declare global {
  /** TypeScript's library does not know it yet. */
  interface JSON {
    rawJSON(text: string): unknown;
  }
}

/** Numbers keep all their digits, as they came. */
const digitsOfBigints = (_key: string, value: unknown): unknown =>
  typeof value === 'bigint' ? JSON.rawJSON(String(value)) : value;

function nestedIn(value: unknown): unknown {
  if (typeof value !== 'string') return value;
  try {
    return parseExactly(value);
  } catch {
    return value; // compensated: a text is refused in its place
  }
}
