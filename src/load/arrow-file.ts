/**
 * Reads rows of an Arrow IPC file or stream, whatever compresses its buffers, in slices, so that a request never needs to hold the
 * largest of its batches. Texts and binaries that lie as views, which the engine does not take, become those that it takes. One batch is
 * held, with the dictionaries.
 */
import { type FileHandle, open } from 'node:fs/promises';
import { BatchBuffers, checkBatch } from '../arrow/column/batch-buffers.ts';
import { allRows, BatchPlan, rowsBetween } from '../arrow/column/batch-plan.ts';
import { type ColumnData, readBatch } from '../arrow/column/column-data.ts';
import { type Block, bytesOfMessage, readFooter } from '../arrow/format/ipc-file.ts';
import {
  continuation,
  type FlatTable,
  type Message,
  magicAtEnd,
  prefixBytes,
  readMessage,
} from '../arrow/format/message.ts';
import { schemaOfFields } from '../arrow/schema/copied-schema.ts';
import { mostFields, readSchemaTable } from '../arrow/schema/read-schema.ts';
import { type DataType, type Field, valuesField } from '../arrow/schema/schema.ts';
import { dictionaryMessage } from '../arrow/stream/joined-dictionaries.ts';
import { invalidInput, LancegateError } from '../kernel/errors.ts';
import { paired } from '../kernel/paired.ts';
import type { InputFile } from './input-file.ts';
import { messageBehind, PieceReader } from './message-pieces.ts';
import type { RowMessage } from './row-messages.ts';

interface SentMessage extends Message {
  readonly body: Buffer;
  readonly readShare?: number;
}

interface SentRows {
  /** Its bytes may be changed: no other code reads them. */
  readonly schema: FlatTable;
  readonly messages: AsyncIterable<SentMessage>;
}

/** `InvalidInput` says which batch or dictionary is at fault. */
export async function* messagesOfArrow(input: Pick<InputFile, 'path' | 'pieces'>): AsyncGenerator<RowMessage> {
  await using handle = input.path === undefined ? undefined : await open(input.path);
  const pieces = new PieceReader(input.pieces(), 'the file ends within it');
  const head = await pieces.take(prefixBytes);
  const isFile = head.subarray(0, magicAtEnd.length).equals(magicAtEnd);
  const { schema, messages } = isFile
    ? await rowsOfFile(await bytesOf(handle, pieces, head))
    : await rowsOfStream(pieces, head);
  const rows = new PlainRows(schema);
  yield { bytes: rows.schemaMessage, kind: 'schema', rows: 0 };
  let place = 'what is behind the schema';
  try {
    for await (const message of messages) {
      place = rows.next(message);
      yield* rows.plain(message);
    }
  } catch (error) {
    if (!(error instanceof LancegateError)) throw error;
    throw invalidInput(`${place}: ${error.message}`, error);
  }
}

async function rowsOfStream(pieces: PieceReader, head: Buffer): Promise<SentRows> {
  const first = await messageBehind(head, pieces);
  if (first?.kind !== 'schema') throw invalidInput('it does not begin with a schema');
  return { schema: first.header, messages: restOfStream(pieces) };
}

async function* restOfStream(pieces: PieceReader): AsyncGenerator<SentMessage> {
  for (;;) {
    const message = await messageBehind(await pieces.take(prefixBytes), pieces);
    if (message === undefined) return;
    yield message;
  }
}

interface FileBytes {
  readonly length: number;
  readonly read: (position: number, length: number) => Promise<Buffer>;
}

/** A pipe is read to its end, since the footer is there. */
async function bytesOf(handle: FileHandle | undefined, pieces: PieceReader, head: Buffer): Promise<FileBytes> {
  const stat = await handle?.stat();
  if (handle === undefined || !stat?.isFile()) {
    const whole = Buffer.concat([head, await pieces.take(Number.POSITIVE_INFINITY)]);
    return { length: whole.length, read: async (at, length) => Buffer.from(whole.subarray(at, at + length)) };
  }
  const read = async (position: number, length: number): Promise<Buffer> => {
    const { buffer, bytesRead } = await handle.read(Buffer.allocUnsafeSlow(length), 0, length, position);
    return buffer.subarray(0, bytesRead);
  };
  return { length: stat.size, read };
}

/** The footer alone says where the schema, the dictionaries and the batches are: they may lie in any order. */
async function rowsOfFile(bytes: FileBytes): Promise<SentRows> {
  const bytesBehind = 4 + magicAtEnd.length;
  const behind = await bytes.read(Math.max(0, bytes.length - bytesBehind), bytesBehind);
  if (!behind.subarray(4).equals(magicAtEnd)) throw invalidInput('the file has no footer at its end: it is not whole');
  const length = behind.readUInt32LE(0) + bytesBehind;
  if (length > bytes.length) throw invalidInput('the footer lies outside the file');
  const { schema, dictionaries, batches } = readFooter(await bytes.read(bytes.length - length, length), 4);
  return { schema, messages: listed(bytes, [...dictionaries, ...batches]) };
}

async function* listed({ length, read }: FileBytes, blocks: readonly Block[]): AsyncGenerator<SentMessage> {
  for (const { offset, metaLength, bodyLength } of blocks) {
    const end = offset + metaLength + bodyLength;
    if (metaLength < prefixBytes || end > length) throw invalidInput('the footer says that it lies outside the file');
    const head = await read(offset, metaLength);
    const message = readMessage(head.subarray(head.readInt32LE(0) === continuation ? prefixBytes : 4), 4);
    if (message.bodyLength !== bodyLength) throw invalidInput('the footer says another length of it');
    yield { ...message, body: await read(offset + metaLength, bodyLength), readShare: end / length };
  }
}

const rowsOfSlice = 16_384;

class PlainRows {
  readonly schemaMessage: Uint8Array;
  readonly #fields: readonly Field[];
  readonly #views: ReadonlySet<DataType>;
  /** It has, by id, the values as a column. */
  readonly #values: ReadonlyMap<bigint, Field>;
  readonly #dictionaries = new Map<bigint, readonly Buffer[]>();
  #batches = 0;

  constructor(schema: FlatTable) {
    const isView = replaceViews(schema);
    // Whether NULL may stand where it does is the service's matter.
    this.#fields = readSchemaTable(schema).fields.map((field) => ({ ...field, nullable: true }));
    const all = withChildren(this.#fields);
    this.#views = new Set(all.filter((_, i) => isView[i]).map(({ type }) => type));
    this.#values = new Map(
      all.flatMap((field) =>
        field.dictionary === undefined ? [] : [[field.dictionary.id, valuesField(field)] as const],
      ),
    );
    this.schemaMessage = schemaOfFields([...schema.tables(1)], schema);
  }

  /** Says where a fault in this one is. */
  next({ kind }: SentMessage): string {
    if (kind !== 'record batch') return `a ${kind} behind ${this.#batches} batches`;
    this.#batches += 1;
    return `batch ${this.#batches}`;
  }

  /** A batch comes in slices, each behind the dictionaries; of a dictionary comes none. */
  *plain({ kind, header, body, readShare }: SentMessage): Generator<RowMessage> {
    if (kind === 'schema') throw invalidInput('it is a second schema');
    if (kind === 'dictionary batch') {
      this.#keep(header, body);
      return;
    }
    const columns = this.#read(header, body, this.#fields);
    const rows = header.length(0, 'the number of rows');
    const share = readShare === undefined ? {} : { readShare };
    for (let row = 0; row < rows; row += rowsOfSlice) {
      const runs = rowsBetween(row, Math.min(row + rowsOfSlice, rows));
      const plan = new BatchPlan();
      for (const [field, data] of paired(this.#fields, columns)) plan.addColumn(field, [{ data, runs }]);
      // Memory that goes to the thread which sends it is gone here.
      for (const bytes of [...this.#dictionaries.values()].flat())
        yield { bytes: Buffer.from(bytes), kind: 'dictionary batch', rows: 0, ...share };
      yield { bytes: bytesOfMessage(plan.message(runs.rows)), kind: 'record batch', rows: runs.rows, ...share };
    }
  }

  /** A delta extends the dictionary, any other replaces it. */
  #keep(header: FlatTable, body: Buffer): void {
    const id = header.int64(0);
    const isDelta = header.uint8(2) !== 0;
    const field = this.#values.get(id);
    const batch = header.table(1);
    if (field === undefined || batch === undefined) throw invalidInput('no column uses it, or it has no values');
    const slices = this.#read(batch, body, [field]).map((data) => ({ data, runs: allRows(data.length) }));
    const message = bytesOfMessage(dictionaryMessage(id, field, slices, isDelta).message);
    this.#dictionaries.set(id, [...(isDelta ? (this.#dictionaries.get(id) ?? []) : []), message]);
  }

  #read(header: FlatTable, body: Buffer, fields: readonly Field[]): readonly ColumnData[] {
    const views = this.#views;
    const hasDictionary = (id: bigint): boolean => this.#dictionaries.has(id);
    // A batch decodes to 4 GiB at most: a file of a few kilobytes can declare any number.
    checkBatch({ header, body, fields, maxDecodedBytes: 2 ** 32, hasDictionary, views });
    return readBatch(new BatchBuffers(header, body), fields, views);
  }
}

const withChildren = (fields: readonly Field[]): readonly Field[] =>
  fields.flatMap((field) => [field, ...withChildren(field.children)]);

/** Each stands for its number in the `Type` union of Schema.fbs: none has anything in its table. */
const [binary, utf8, binaryView, utf8View] = [4, 5, 23, 24];

/** Makes texts and binaries of the views in a schema. Answers which of the fields were views, those with children before them. */
function replaceViews(schema: FlatTable): readonly boolean[] {
  const isView: boolean[] = [];
  const visit = (field: FlatTable): void => {
    const type = field.uint8(2);
    if (isView.push(type === utf8View || type === binaryView) > mostFields)
      throw invalidInput('it has too many fields');
    if (type === utf8View) field.setUint8(2, utf8);
    if (type === binaryView) field.setUint8(2, binary);
    for (const child of field.tables(5)) visit(child);
  };
  for (const field of schema.tables(1)) visit(field);
  return isView;
}
