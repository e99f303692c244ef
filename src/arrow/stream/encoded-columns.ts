/**
 * Makes dictionary-encoded columns of several files columns of one: each file has dictionaries of its own, and the result has one for
 * each column, of the values that its rows have.
 */

import { invalidInput } from '../../kernel/errors.ts';
import { paired } from '../../kernel/paired.ts';
import { RowPlaces, type Slices } from '../column/batch-plan.ts';
import { bitAt, type ColumnData, readColumns, readDictionary } from '../column/column-data.ts';
import type { MessageToWrite } from '../format/ipc-file.ts';
import { childrenOf, columnLayout, type Dictionary, type Field, type IpcChunk, valuesField } from '../schema/schema.ts';
import { dictionaryMessage } from './joined-dictionaries.ts';
import { indexesOf, keyOfValue, readIndex, writeIndex } from './unified-dictionary.ts';

/** The rows have more values than the type of the column's index can number. */
export class DictionaryFull extends Error {}

/** Says whether the values of all dictionaries can be told apart by their bytes: none is nested, or of type Null. */
export const canEncode = (fields: readonly Field[]): boolean =>
  fields.every((field) => {
    if (field.dictionary === undefined) return canEncode(field.children);
    return field.children.length === 0 && columnLayout({ ...field, dictionary: undefined }).hasBitmap;
  });

/** A dictionary comes first, and then what was added to it. */
type Values = readonly ColumnData[];

/** Remembers the dictionaries of the columns that were read. */
export class EncodedColumns {
  readonly #values = new WeakMap<ColumnData, Values>();

  /** Reads the columns of a chunk of which `canEncode` holds, batch by batch. */
  read(chunk: IpcChunk): readonly { readonly rows: number; readonly columns: readonly ColumnData[] }[] {
    const batches = readColumns(chunk);
    if (chunk.dictionaries.length === 0) return batches;
    for (const { columns } of batches)
      for (const [field, data] of paired(chunk.schema.fields, columns)) this.#remember(chunk, field, data, new Map());
    return batches;
  }

  /** The columns of one result share it. */
  encoding(): Encoding {
    return new Encoding(this.#values);
  }

  #remember(chunk: IpcChunk, field: Field, data: ColumnData, known: Map<bigint, Values>): void {
    const { dictionary } = field;
    for (const [child, inner] of paired(childrenOf(field), data.children)) this.#remember(chunk, child, inner, known);
    if (dictionary === undefined) return;
    const values = known.get(dictionary.id) ?? readDictionary(chunk.file, chunk.dictionaries, field);
    known.set(dictionary.id, values);
    this.#values.set(data, values);
  }
}

interface NewDictionary {
  readonly values: Field;
  /** The key of a value leads to its index. */
  readonly indexes: Map<string, number>;
  /** Each value is there. */
  readonly places: (readonly [origin: ColumnData, row: number])[];
}

export class Encoding {
  readonly #read: WeakMap<ColumnData, Values>;
  /** Each stands under its id. */
  readonly #made = new Map<bigint, NewDictionary>();

  constructor(read: WeakMap<ColumnData, Values>) {
    this.#read = read;
  }

  /** Gives the same rows of a dictionary-encoded column, with their indexes in the dictionary of the result. Throws `DictionaryFull`. */
  readonly encode = (field: Field, dictionary: Dictionary, slices: Slices): Slices => {
    const made = this.#made.get(dictionary.id) ?? { values: valuesField(field), indexes: new Map(), places: [] };
    this.#made.set(dictionary.id, made);
    return slices.map(({ data, runs }) => {
      const values = this.#read.get(data);
      if (values === undefined) return { data, runs };
      const width = dictionary.index.bitWidth / 8;
      const bytes = Buffer.alloc(data.bytes.length);
      const before = Buffer.from(data.bytes.buffer, data.bytes.byteOffset, data.bytes.length);
      const moved = movedIndexes(made, values, indexesOf(dictionary.index));
      for (const [run, start] of runs.starts.entries()) {
        for (let at = start; at < runs.ends[run]!; at++) {
          if (data.validity !== undefined && !bitAt(data.validity, at)) continue;
          writeIndex(bytes, at * width, width, moved(readIndex(before, at * width, width)));
        }
      }
      return { data: { ...data, bytes }, runs };
    });
  };

  /** Writes the dictionaries of the columns that were encoded. */
  messages(): readonly { readonly message: MessageToWrite; readonly bytes: number }[] {
    return [...this.#made].map(([id, { values, places }]) => {
      const slices = new RowPlaces(places).placed.flatMap(({ batch, runs }) =>
        batch === undefined ? [] : [{ data: batch, runs }],
      );
      return dictionaryMessage(id, values, slices);
    });
  }
}

/** Moves the indexes of one dictionary into that of the result, which takes the values that are asked for. */
function movedIndexes({ values: field, indexes, places }: NewDictionary, values: Values, most: number) {
  const moved: number[] = [];
  const take = (before: number): number => {
    const [origin, row] = placeIn(values, before);
    const key = keyOfValue(field, origin, row);
    const known = indexes.get(key);
    if (known !== undefined) return known;
    if (places.length >= most) throw new DictionaryFull();
    indexes.set(key, places.length);
    places.push([origin, row]);
    return places.length - 1;
  };
  return (before: number): number => {
    moved[before] ??= take(before);
    return moved[before];
  };
}

function placeIn(values: Values, index: number): readonly [origin: ColumnData, row: number] {
  let row = index;
  for (const origin of values) {
    if (row < origin.length) return [origin, row];
    row -= origin.length;
  }
  throw invalidInput('an index lies outside its dictionary');
}
