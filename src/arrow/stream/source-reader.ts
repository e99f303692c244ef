/**
 * Reads a client's Arrow IPC stream. It moves the network's chunks into one buffer, checks each message where
 * it lies as soon as it is complete, and hands out IPC files around them. It decodes nothing and repairs nothing.
 *
 * What it holds: at most one chunk (`whole`: all of it), plus the stream's dictionaries. It allocates as bytes come,
 * so a header that promises gigabytes costs nothing. Every refusal names the message at fault; the schema is number 1.
 */
import { LRUCache } from 'lru-cache';
import { invalidInput, LancegateError } from '../../kernel/errors.ts';
import type { InvalidRows } from '../../kernel/invalid-rows.ts';
import { type BodyAccount, bufferBytesFor } from '../../memory/body-memory.ts';
import { BatchBuffers, type CheckedBatch, checkBatch } from '../column/batch-buffers.ts';
import { type Block, describeForeignFormat } from '../format/ipc-file.ts';
import { continuation, type FlatTable, type Message, magic, prefixBytes, readMessage } from '../format/message.ts';
import { readSchemaTable } from '../schema/read-schema.ts';
import type { IpcChunk, Schema } from '../schema/schema.ts';
import { checkNames } from '../schema/schema-rules.ts';
import { ByteIntake } from './byte-intake.ts';
import { Arena, ChunkBuilder, type DictionaryBatch, Preamble } from './chunk-builder.ts';
import { withUnifiedIndexes } from './unified-dictionary.ts';

export interface IpcLimits {
  /** A chunk ends with the batch that brings it to this size, encoded or decoded. */
  readonly chunkBytes: number;
  /** It bounds the body of one record batch, and all dictionaries of a stream together. */
  readonly maxMessageBytes: number;
  /** It bounds the metadata of one message. */
  readonly maxMetadataBytes: number;
  /** It bounds all of a stream, for `whole()`. */
  readonly maxWholeBytes: number;
  /**
   * It bounds one record batch together with all dictionaries, after decompression; for `whole()` all of it. So a chunk decodes
   * to no more than this and `chunkBytes`.
   */
  readonly maxDecodedBytes: number;
}

interface ArrivedMessage extends Message {
  readonly block: Block;
  readonly body: Buffer;
}

/** The stream is read up to its schema. */
interface Opening {
  readonly preamble: Preamble;
  readonly arena: Arena;
}

/** Magic, end marker and footer take no more. */
export const bytesAround = 4 << 10;
/**
 * A row of a merge takes so much in addition to its bytes when its keys are read: its entry in the table of hashes 12 to 20,
 * where its value starts and ends 8, whether it is NULL 1. A key column of bits would otherwise cost a hundred times its size.
 */
const keyBytesPerRow = 32;
/** To look up a value of a dictionary that replaces another one takes so much. */
const unifiedBytesPerValue = 128;
/** The service needs a tenth of a second to read this many batches with rows. */
const mostBatchesOfMerge = 1 << 14;
/** A declared length is believed this far: more is taken when bytes have come. */
const mostExpectedBytes = 16 << 20;

/** It makes an Arrow IPC stream of rows of another format. */
interface Conversion {
  /** The rows are for a table of these columns. To be said before the first byte is asked for. */
  into(table: Schema, isExtending: boolean): void;
  /** Rows that do not fit are left out, and are there once all was asked for. To be said before the first byte is. */
  leaveOut(invalid: InvalidRows): void;
  convert(text: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array>;
  /** Nothing more is asked for. */
  close(): void;
}

interface SourceParts {
  readonly limits: IpcLimits;
  readonly account: BodyAccount;
  /** The client declared this length of the body. */
  readonly expectedBytes?: number | undefined;
  /** All sources of a service share it. */
  readonly schemas?: SchemaCache;
  /** Makes an Arrow IPC stream of a body that is none yet. */
  readonly conversion?: Conversion | undefined;
}

/**
 * It has schemas that were read and checked, by the bytes of their message. A client sends the same one with each stream, and to read
 * it costs as much as the keys of a hundred rows.
 */
type SchemaCache = LRUCache<string, Schema>;

export const newSchemaCache = (): SchemaCache => new LRUCache({ max: 128 });

/** Larger ones are read anew each time: 128 of the largest take some 10 MB. */
const maxCachedSchemaBytes = 8 << 10;

/** Says what a body takes as soon as it is opened, by the length that the client declared. */
export const firstBufferBytes = (expectedBytes = 0): number =>
  bufferBytesFor(Math.min(expectedBytes, mostExpectedBytes) + bytesAround);

const tooLarge = (what: string, maxBytes: number) =>
  new LancegateError('BodyTooLarge', `${what} is larger than the ${maxBytes} bytes that this service accepts`);

const tooManyNulls = (bytes: number, maxBytes: number) =>
  new LancegateError(
    'BodyTooLarge',
    `with NULL in the columns that the source leaves out, its rows take ${bytes} bytes, more than the ${maxBytes} that this service accepts: send fewer rows at a time`,
  );

function checkedSchema(header: FlatTable): Schema {
  const schema = readSchemaTable(header);
  checkNames(schema);
  return schema;
}

/**
 * It is a client's Arrow IPC stream on its way in. Nothing is read from the network before a method is called. Every method
 * throws `LancegateError`: `InvalidInput` naming the message at fault, `BodyTooLarge`, or the abort reason of the request.
 */
export class ArrowSource {
  readonly #limits: IpcLimits;
  readonly #intake: ByteIntake;
  readonly #account: BodyAccount;
  readonly #schemas: SchemaCache;
  readonly #conversion: Conversion | undefined;
  readonly #arenas = new Set<Arena>();
  #isClosed = false;
  readonly #firstBytes: number;
  readonly #likelyBytes: number;
  #opening: Promise<Opening> | undefined;
  #taken = false;
  #messageNumber = 0;

  /** `body` is never closed, see `ByteIntake`. */
  constructor(body: AsyncIterable<Uint8Array>, parts: SourceParts) {
    this.#limits = parts.limits;
    this.#account = parts.account;
    this.#schemas = parts.schemas ?? newSchemaCache();
    this.#firstBytes = firstBufferBytes(parts.expectedBytes);
    this.#likelyBytes = (parts.expectedBytes ?? parts.limits.maxWholeBytes) + bytesAround;
    this.#conversion = parts.conversion;
    this.#intake = new ByteIntake(parts.conversion === undefined ? body : parts.conversion.convert(body));
  }

  /**
   * The rows are for a table that is there: those that are no Arrow yet become what its columns are, or extend them where `isExtending`. To be
   * called before all else.
   */
  async readFor(columns: () => Promise<{ readonly schema: Schema }>, isExtending = false): Promise<void> {
    if (this.#conversion !== undefined) this.#conversion.into((await columns()).schema, isExtending);
  }

  /** Does what `Conversion.leaveOut` does, for rows of other formats than Arrow. The caller calls this first. */
  leaveOut(invalid: InvalidRows): void {
    this.#conversion?.leaveOut(invalid);
  }

  /** Resolves as soon as the message of the schema has arrived. It may be called again. */
  async schema(): Promise<Schema> {
    return (await this.#open()).preamble.schema;
  }

  /**
   * Gives everything, in chunks of about the configured size, each complete by itself; at least one, perhaps of no rows. `chunks` or
   * `whole` may be called once, and not both: the bytes pass only once.
   */
  async *chunks(): AsyncGenerator<IpcChunk, void, void> {
    const { arena, preamble } = await this.#take();
    let chunk = new ChunkBuilder(preamble, arena);
    for (let first = true; ; first = false) {
      const ended = await this.#fill(chunk, this.#limits.chunkBytes);
      const capacity = chunk.arena.used;
      if (first || chunk.batches > 0) yield chunk.finish();
      if (ended) return;
      chunk = new ChunkBuilder(preamble, this.#newArena(capacity + preamble.bytes));
    }
  }

  /**
   * Gives everything as one chunk, or throws `BodyTooLarge` beyond the configured maximum. `nullBytesPerRow` is what each row takes in
   * columns that the source leaves out; it counts like decompressed bytes of the body.
   */
  async whole(nullBytesPerRow = 0): Promise<IpcChunk> {
    const { arena, preamble } = await this.#take();
    const chunk = new ChunkBuilder(preamble, arena, nullBytesPerRow);
    await this.#fill(chunk, undefined);
    return chunk.finish();
  }

  /** Releases every chunk that was not released, and ends the source. To be called when the request is over. */
  close(): void {
    this.#isClosed = true;
    this.#conversion?.close();
    for (const arena of this.#arenas) arena.release();
    this.#arenas.clear();
  }

  #newArena(capacity: number): Arena {
    if (this.#isClosed) throw new LancegateError('Internal', 'the source was closed');
    const arena = new Arena(this.#account, capacity, this.#likelyBytes);
    this.#arenas.add(arena);
    return arena;
  }

  async #take(): Promise<Opening> {
    if (this.#taken) throw new LancegateError('Internal', 'the source was read before');
    this.#taken = true;
    return this.#open();
  }

  #open(): Promise<Opening> {
    this.#opening ??= this.#readSchema();
    return this.#opening;
  }

  async #readSchema(): Promise<Opening> {
    const arena = this.#newArena(this.#firstBytes);
    arena.append(magic);
    await this.#requireStream(arena);
    const message = await this.#message(arena, Number.POSITIVE_INFINITY);
    if (message === undefined) throw invalidInput('the stream ends before its schema');
    return this.#named(message, () => {
      if (message.kind !== 'schema') throw invalidInput('the first message must be the schema');
      if (message.bodyLength !== 0) throw invalidInput('a schema has no body');
      const bytes = Buffer.from(arena.view(magic.length, arena.used));
      const schema = this.#schemaOf(bytes, message.header);
      return { arena, preamble: new Preamble(schema, bytes) };
    });
  }

  #schemaOf(message: Buffer, header: FlatTable): Schema {
    if (message.length > maxCachedSchemaBytes) return checkedSchema(header);
    const key = message.toString('latin1');
    const schema = this.#schemas.get(key) ?? checkedSchema(header);
    this.#schemas.set(key, schema);
    return schema;
  }

  /** The first bytes must be those of a message; of anything else the refusal says what it looks like. */
  async #requireStream(arena: Arena): Promise<void> {
    const complete = await this.#intake.fill(arena, magic.length + prefixBytes);
    const head = arena.view(magic.length, arena.used);
    if (head.length === 0) throw invalidInput('the body is empty; an Arrow IPC stream has at least a schema message');
    if (!complete || head.readInt32LE(0) !== continuation) {
      throw invalidInput(`the body is not an Arrow IPC stream: ${describeForeignFormat(head)}`);
    }
  }

  /** Adds messages to `chunk` until it weighs `enough`, or all; true if the stream has ended. */
  async #fill(chunk: ChunkBuilder, enough: number | undefined): Promise<boolean> {
    const maxTotalBytes = enough === undefined ? this.#limits.maxWholeBytes : Number.POSITIVE_INFINITY;
    while (enough === undefined || chunk.weight < enough) {
      const message = await this.#message(chunk.arena, maxTotalBytes);
      if (message === undefined) return true;
      const { decodedBytes } = enough === undefined ? chunk : chunk.preamble;
      this.#named(message, () => {
        const rows = this.#add(message, chunk, this.#limits.maxDecodedBytes - decodedBytes);
        if (enough === undefined) this.#requireModest(chunk, rows);
      });
    }
    return false;
  }

  /** Returns its rows, or values of a dictionary. */
  #add({ kind, header, body, block }: ArrivedMessage, chunk: ChunkBuilder, maxDecodedBytes: number): number {
    const { preamble } = chunk;
    const limits = { body, maxDecodedBytes, hasDictionary: preamble.hasDictionary };
    if (kind === 'schema') throw invalidInput('a second schema');
    if (kind === 'record batch') {
      const { fields } = preamble.schema;
      const batch = checkBatch({ header, fields, ...limits });
      const { unified } = preamble;
      const moved = withUnifiedIndexes(new BatchBuffers(header, body), fields, unified);
      chunk.addBatch(moved ? chunk.replaceLast(block, moved) : block, batch.rows, batch.decodedBytes);
      return batch.rows;
    }
    const dictionary = preamble.openDictionary(header);
    const values = checkBatch({ header: dictionary.header, fields: [dictionary.values], ...limits });
    this.#addDictionary(dictionary, body, block, chunk, values);
    return values.rows;
  }

  #addDictionary(
    { id, header, isDelta, unified }: DictionaryBatch,
    body: Buffer,
    block: Block,
    chunk: ChunkBuilder,
    { rows, decodedBytes }: CheckedBatch,
  ): void {
    const { preamble, arena } = chunk;
    let added = { block, decodedBytes };
    if (unified !== undefined) {
      arena.charge(rows * unifiedBytesPerValue + decodedBytes);
      const delta = unified.add(new BatchBuffers(header, body), isDelta);
      if (delta === undefined) {
        arena.cut(block.offset);
        return;
      }
      added = { block: chunk.replaceLast(block, delta.message), decodedBytes: delta.bytes };
    }
    const bytes = arena.view(block.offset, arena.used);
    if (preamble.bytes + bytes.length > this.#limits.maxMessageBytes) {
      throw tooLarge('the sum of the dictionaries', this.#limits.maxMessageBytes);
    }
    preamble.addDictionary(id, Buffer.from(bytes), added.block.metaLength, added.decodedBytes);
    chunk.addDictionary(added.block, added.decodedBytes);
  }

  /** Reads the next message to the end of `arena`; there is none at the end of the stream, of which nothing is kept. */
  async #message(arena: Arena, maxTotalBytes: number): Promise<ArrivedMessage | undefined> {
    this.#messageNumber += 1;
    const start = this.#messageNumber === 1 ? magic.length : arena.used;
    const metaLength = await this.#metadataLength(arena, start);
    if (metaLength === undefined) return undefined;
    const bodyAt = start + prefixBytes + metaLength;
    await this.#require(arena, bodyAt, 'its metadata');
    // It is a copy, since the arena may move while the body arrives, and with it everything that looks into it.
    const metadata = Buffer.from(arena.view(start + prefixBytes, bodyAt));
    const message = this.#named(undefined, () => readMessage(metadata));
    const { bodyLength } = message;
    const end = bodyAt + bodyLength;
    this.#named(message, () => {
      if (bodyLength > this.#limits.maxMessageBytes) throw tooLarge('its body', this.#limits.maxMessageBytes);
      if (end - magic.length > maxTotalBytes) throw tooLarge('the stream up to here', maxTotalBytes);
    });
    await this.#require(arena, end, 'its body');
    const block = { offset: start, metaLength: prefixBytes + metaLength, bodyLength };
    return { ...message, block, body: arena.view(bodyAt, end) };
  }

  /** Reads the eight bytes in front of a message at `start`. */
  async #metadataLength(arena: Arena, start: number): Promise<number | undefined> {
    const complete = await this.#intake.fill(arena, start + prefixBytes);
    if (arena.used === start) return undefined;
    if (!complete) throw this.#cutOff('its prefix');
    const prefix = arena.view(start, start + prefixBytes);
    const length = prefix.readInt32LE(4);
    return this.#named(undefined, () => {
      if (prefix.readInt32LE(0) !== continuation) throw invalidInput('no message begins here');
      if (length === 0) return this.#endMarker(arena, start);
      if (length < 8 || length % 8 !== 0) throw invalidInput(`metadata of ${length} bytes`);
      if (length > this.#limits.maxMetadataBytes) throw tooLarge('its metadata', this.#limits.maxMetadataBytes);
      return length;
    });
  }

  /** Each file gets an end marker of its own, so the stream's is dropped. */
  async #endMarker(arena: Arena, start: number): Promise<undefined> {
    arena.cut(start);
    if (await this.#intake.hasMore()) throw invalidInput('bytes follow the end marker of the stream');
  }

  async #require(arena: Arena, end: number, part: string): Promise<void> {
    if (!(await this.#intake.fill(arena, end))) throw this.#cutOff(part);
  }

  /** These limits are of merges only; `rows` have just been added. */
  #requireModest(chunk: ChunkBuilder, rows: number): void {
    chunk.arena.charge(rows * keyBytesPerRow);
    if (chunk.decodedBytes > this.#limits.maxDecodedBytes) {
      throw tooManyNulls(chunk.decodedBytes, this.#limits.maxDecodedBytes);
    }
    if (chunk.batches <= mostBatchesOfMerge) return;
    throw invalidInput(`a merge can have ${mostBatchesOfMerge} record batches with rows: put more rows into each`);
  }

  #cutOff(part: string): LancegateError {
    return invalidInput(`the stream ends within ${part} (message ${this.#messageNumber})`);
  }

  /** Runs a check and puts the message's number and kind in front of what it refuses. */
  #named<Result>(message: Message | undefined, check: () => Result): Result {
    try {
      return check();
    } catch (error) {
      if (!(error instanceof LancegateError) || error.kind === 'TableSchemaValidationError') throw error;
      const kind = message === undefined ? '' : ` (${message.kind})`;
      throw new LancegateError(error.kind, `message ${this.#messageNumber}${kind}: ${error.message}`);
    }
  }
}
