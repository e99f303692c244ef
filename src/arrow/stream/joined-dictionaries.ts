import { hash } from 'node:crypto';
import { Builder } from 'flatbuffers';
import { invalidInput, LancegateError } from '../../kernel/errors.ts';
import { type BatchBuffers, openDictionary } from '../column/batch-buffers.ts';
import { allRows, BatchPlan, type Slices } from '../column/batch-plan.ts';
import { readBatch } from '../column/column-data.ts';
import type { Block, IpcFile, MessageToWrite } from '../format/ipc-file.ts';
import { addCopy, FlatTable, finishMessage, prefixBytes } from '../format/message.ts';
import { formatFieldPath } from '../schema/field-path.ts';
import { childrenOf, columnLayout, type Dictionary, type Field, type Schema, valuesField } from '../schema/schema.ts';

/** The limit for all dictionaries of one result together. */
const mostBytes = 64 << 20;

/** The values of the column are indices. */
interface Encoded {
  readonly name: string;
  readonly dictionary: Dictionary;
  /** It is the column of its values. */
  readonly values: Field;
  /** This buffer of a batch has the indices. */
  readonly buffer: number;
}

interface Part {
  readonly values: BatchBuffers;
  readonly start: number;
}

/**
 * Puts the dictionaries of several files one behind the other: a file can hold but one of each id, and the engine makes one for each
 * batch. One that came before is not taken again. The indices of a batch move by as much as stands before its dictionary.
 */
export class JoinedDictionaries {
  readonly #encoded: readonly Encoded[];
  /** It has, by id, the parts by their digest, in order. */
  readonly #parts = new Map<bigint, Map<string, Part>>();
  /** It has, by id, the part of the present file. */
  readonly #present = new Map<bigint, Part>();
  #bytes = 0;

  private constructor(encoded: readonly Encoded[]) {
    this.#encoded = encoded;
  }

  /** A schema without dictionaries has none. */
  static of(schema: Schema): JoinedDictionaries | undefined {
    const encoded = encodedIn(schema);
    return encoded.length === 0 ? undefined : new JoinedDictionaries(encoded);
  }

  add(file: IpcFile, blocks: readonly Block[]): void {
    for (const block of blocks) {
      const { id, values } = openDictionary(file, block);
      const parts = this.#parts.get(id) ?? new Map<string, Part>();
      this.#parts.set(id, parts);
      const digest = `${values.rows} ${hash('sha256', values.body, 'base64')}`;
      this.#present.set(id, parts.get(digest) ?? this.#append(parts, digest, file, block));
    }
  }

  /** Moves the indices of a batch of the file that was added last, in place. */
  shift(batch: BatchBuffers): void {
    for (const { dictionary, buffer, name } of this.#encoded) {
      const part = this.#present.get(dictionary.id);
      if (part === undefined || part.start === 0) continue;
      requireIndexes(dictionary, part, name);
      shiftIndices(batch.buffer(buffer), dictionary, part.start);
    }
  }

  /** Writes each dictionary as a whole. */
  *messages(): Generator<MessageToWrite, void, void> {
    for (const { dictionary, values } of uniqueById(this.#encoded)) {
      const parts = [...(this.#parts.get(dictionary.id)?.values() ?? [])];
      const slices = parts.flatMap((part) =>
        readBatch(part.values, [values]).map((data) => ({ data, runs: allRows(data.length) })),
      );
      yield dictionaryMessage(dictionary.id, values, slices).message;
    }
  }

  #append(parts: Map<string, Part>, digest: string, file: IpcFile, block: Block): Part {
    const copy = Buffer.from(file.subarray(block.offset, block.offset + block.metaLength + block.bodyLength));
    this.#bytes += copy.length;
    if (this.#bytes > mostBytes) {
      throw invalidInput('the dictionaries of the result are too large: cast the column to the type of its values');
    }
    const last = [...parts.values()].at(-1);
    const start = last === undefined ? 0 : last.start + last.values.rows;
    const part = { values: openDictionary(copy, { ...block, offset: 0 }).values, start };
    parts.set(digest, part);
    return part;
  }
}

function encodedIn(schema: Schema): readonly Encoded[] {
  const found: Encoded[] = [];
  let buffer = 0;
  const visit = (field: Field, path: readonly string[]): void => {
    const { hasBitmap, offsetBytes, valueBits } = columnLayout(field);
    const { dictionary } = field;
    buffer += Number(hasBitmap) + Number(offsetBytes > 0);
    if (dictionary !== undefined) {
      const name = formatFieldPath({ segments: path });
      found.push({ name, dictionary, values: valuesField(field), buffer });
    }
    buffer += Number(valueBits !== undefined);
    for (const child of childrenOf(field)) visit(child, [...path, child.name]);
  };
  for (const field of schema.fields) visit(field, [field.name]);
  return found;
}

const uniqueById = (encoded: readonly Encoded[]): readonly Encoded[] => [
  ...new Map(encoded.map((column) => [column.dictionary.id, column])).values(),
];

function requireIndexes({ index }: Dictionary, { start, values }: Part, name: string): void {
  const most = 2 ** (index.bitWidth - Number(index.signed)) - 1;
  if (start + values.rows - 1 <= most) return;
  throw invalidInput(`column ${name}: its index type is too small for the values of the result: cast it to their type`);
}

/** An index of a NULL may be anything, also afterwards. */
function shiftIndices(bytes: Uint8Array, { index }: Dictionary, by: number): void {
  const { buffer, byteOffset } = bytes as Uint8Array<ArrayBuffer>;
  const count = (8 * bytes.length) / index.bitWidth;
  if (index.bitWidth === 64) {
    const wide = new BigUint64Array(buffer, byteOffset, count);
    for (let i = 0; i < count; i++) wide[i] = wide[i]! + BigInt(by);
    return;
  }
  const Indices = { 8: Uint8Array, 16: Uint16Array, 32: Uint32Array }[index.bitWidth];
  const indices = new Indices(buffer, byteOffset, count);
  for (let i = 0; i < count; i++) indices[i] = indices[i]! + by;
}

/** Makes the message of a dictionary with these values, and counts the bytes of its buffers. A delta extends the one before. */
export function dictionaryMessage(id: bigint, values: Field, slices: Slices, isDelta = false) {
  const plan = new BatchPlan();
  plan.addColumn(values, slices);
  const message = plan.message(slices.reduce((sum, { runs }) => sum + runs.rows, 0));
  const metadata = message.head.subarray(prefixBytes);
  const batch = FlatTable.root(metadata).table(2);
  if (batch === undefined) throw new LancegateError('Internal', 'a message without a header');
  const builder = new Builder(metadata.length + 128);
  const copy = addCopy(builder, metadata);
  builder.startObject(3);
  builder.addFieldInt64(0, id, 0n);
  builder.addFieldOffset(1, copy - batch.at, 0);
  builder.addFieldInt8(2, Number(isDelta), 0);
  const head = finishMessage(builder, 'dictionary batch', builder.endObject(), message.bodyLength);
  return { message: { ...message, head }, bytes: plan.bytes };
}
