/**
 * One dictionary takes the place of those that a stream has one after the other for the same columns: a file can hold but one of each id.
 */
import { invalidInput } from '../../kernel/errors.ts';
import { paired } from '../../kernel/paired.ts';
import type { BatchBuffers } from '../column/batch-buffers.ts';
import { allRows, BatchPlan, keptRows } from '../column/batch-plan.ts';
import { bitAt, type ColumnData, readBatch } from '../column/column-data.ts';
import type { MessageToWrite } from '../format/ipc-file.ts';
import { formatFieldPath } from '../schema/field-path.ts';
import { childrenOf, columnLayout, type Dictionary, type Field } from '../schema/schema.ts';
import { dictionaryMessage } from './joined-dictionaries.ts';

/** To look each of them up holds the thread for half a second. */
const mostValues = 1 << 20;

export class UnifiedDictionary {
  readonly #id: bigint;
  readonly #values: Field;
  readonly #indexes = new Map<string, number>();
  /** The index that the stream's present dictionary gives a value leads to the one in the file. */
  #present: number[] = [];
  #count = 0;
  #movesIndexes = false;

  constructor(id: bigint, values: Field) {
    this.#id = id;
    this.#values = { ...values, nullable: true };
  }

  /** Says whether a value of the present dictionary has another index in the file than the stream says. */
  get movesIndexes(): boolean {
    return this.#movesIndexes;
  }

  /** The file has these already. */
  addStored(batch: BatchBuffers): void {
    const data = this.#read(batch);
    for (let at = 0; at < data.length; at++) this.#append(this.#keyOf(data, at));
  }

  /** Takes a dictionary of the stream, or a delta of the present one. Answers what the file lacks of it, as a delta. */
  add(batch: BatchBuffers, isDelta: boolean): { readonly message: MessageToWrite; readonly bytes: number } | undefined {
    const data = this.#read(batch);
    if (!isDelta) {
      this.#present = [];
      this.#movesIndexes = false;
    }
    const keep = new Uint8Array(data.length);
    for (let at = 0; at < data.length; at++) {
      const key = this.#keyOf(data, at);
      const known = this.#indexes.get(key);
      this.#movesIndexes ||= (known ?? this.#count) !== this.#present.length;
      if (known !== undefined) this.#present.push(known);
      else {
        keep[at] = 1;
        this.#append(key);
      }
    }
    const runs = keptRows(keep);
    if (runs.rows === 0) return undefined;
    return dictionaryMessage(this.#id, this.#values, [{ data, runs }], true);
  }

  /** Answers the index in the file; undefined where the present dictionary has no such index. */
  indexOf(index: number): number | undefined {
    return this.#present[index];
  }

  #append(key: string): void {
    if (this.#count >= mostValues) {
      throw invalidInput(
        `dictionary ${this.#id} is replaced within the stream, and all of them have more than ${mostValues} values: cast the column to their type`,
      );
    }
    if (!this.#indexes.has(key)) this.#indexes.set(key, this.#count);
    this.#present.push(this.#count);
    this.#count += 1;
  }

  #keyOf(data: ColumnData, at: number): string {
    return keyOfValue(this.#values, data, at);
  }

  #read(batch: BatchBuffers): ColumnData {
    return readBatch(batch, [this.#values])[0]!;
  }
}

/** Equal values of a column have the same, and others another. */
export function keyOfValue(field: Field, { validity, bytes, offsets }: ColumnData, at: number): string {
  if (validity !== undefined && !bitAt(validity, at)) return 'null';
  const { offsetBytes, valueBits = 0 } = columnLayout(field);
  if (valueBits === 1) return `=${bitAt(bytes, at)}`;
  const width = valueBits / 8;
  const [start, end] = offsetBytes > 0 ? [offsets[at]!, offsets[at + 1]!] : [at * width, (at + 1) * width];
  return `=${Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString('latin1')}`;
}

const tooSmall = 'its index type is too small for the values of all its dictionaries together: give it one of 32 bits';

/** Counts the values that a dictionary with these indexes can have. */
export const indexesOf = ({ bitWidth, signed }: Dictionary['index']): number => 2 ** (bitWidth - Number(signed));

/**
 * Of the dictionaries of several batches the engine makes one, in which a value may come twice: of more values than half of the indexes
 * that there are, it writes what it cannot read. `values`: how many each dictionary has, by its id.
 */
export function requireRoom(fields: readonly Field[], values: (id: bigint) => number): void {
  for (const { name, dictionary, children } of fields) {
    if (dictionary === undefined) requireRoom(children, values);
    else if (dictionary.index.bitWidth < 32 && values(dictionary.id) > indexesOf(dictionary.index) / 2) {
      throw invalidInput(`column ${formatFieldPath({ segments: [name] })}: ${tooSmall}`);
    }
  }
}

type Unified = ReadonlyMap<bigint, UnifiedDictionary>;

/** Makes the batch with the indexes of the file, uncompressed; none where they are those of the stream. */
export function withUnifiedIndexes(
  batch: BatchBuffers,
  fields: readonly Field[],
  unified: Unified,
): MessageToWrite | undefined {
  if (!unified.values().some(({ movesIndexes }) => movesIndexes)) return undefined;
  const plan = new BatchPlan();
  for (const [field, data] of paired(fields, readBatch(batch, fields))) {
    plan.addColumn(field, [{ data: unifiedColumn(field, data, unified, [field.name]), runs: allRows(batch.rows) }]);
  }
  return plan.message(batch.rows);
}

function unifiedColumn(field: Field, data: ColumnData, unified: Unified, path: readonly string[]): ColumnData {
  const { dictionary } = field;
  if (dictionary === undefined) {
    const children = paired(childrenOf(field), data.children).map(([child, inner]) =>
      unifiedColumn(child, inner, unified, [...path, child.name]),
    );
    return { ...data, children };
  }
  const values = unified.get(dictionary.id);
  return values === undefined ? data : { ...data, bytes: unifiedIndexes(dictionary, data, values, path) };
}

/** An index of a NULL may be anything. */
function unifiedIndexes(
  { index }: Dictionary,
  { length, validity, bytes }: ColumnData,
  values: UnifiedDictionary,
  path: readonly string[],
): Uint8Array {
  const refuse = (why: string) => invalidInput(`column ${formatFieldPath({ segments: path })}: ${why}`);
  const largest = indexesOf(index) - 1;
  const width = index.bitWidth / 8;
  const moved = Buffer.from(Uint8Array.from(bytes.subarray(0, length * width)).buffer);
  for (let at = 0; at < length; at++) {
    const isNull = validity !== undefined && !bitAt(validity, at);
    const to = isNull ? 0 : values.indexOf(readIndex(moved, at * width, width));
    if (to === undefined) throw refuse('an index lies outside its dictionary');
    if (to > largest) {
      throw refuse(tooSmall);
    }
    writeIndex(moved, at * width, width, to);
  }
  return moved;
}

/** A negative one becomes one that no dictionary has. */
export const readIndex = (bytes: Buffer, at: number, width: number): number =>
  width === 8 ? Number(bytes.readBigUInt64LE(at)) : bytes.readUIntLE(at, width);

export function writeIndex(bytes: Buffer, at: number, width: number, index: number): void {
  if (width === 8) bytes.writeBigUInt64LE(BigInt(index), at);
  else bytes.writeUIntLE(index, at, width);
}
