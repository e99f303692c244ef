/** Which dictionaries a schema speaks of, and which of them have arrived. */
import { invalidInput } from '../../kernel/errors.ts';
import { type Block, fileTail, type IpcFile } from '../format/ipc-file.ts';
import { type FlatTable, magic, prefixBytes } from '../format/message.ts';
import type { Field, IpcChunk, Schema } from '../schema/schema.ts';
import { sameType } from '../schema/schema-rules.ts';
import type { Arena } from './byte-intake.ts';

export interface DictionaryBatch {
  readonly id: bigint;
  /** The dictionary's values as a column of their own. */
  readonly values: Field;
  readonly header: FlatTable;
}

export class DictionaryBook {
  readonly #values = new Map<bigint, Field>();
  readonly #arrived = new Set<bigint>();

  constructor(schema: Schema) {
    for (const field of schema.fields) this.#enter(field);
  }

  readonly has = (id: bigint): boolean => this.#arrived.has(id);

  /** A delta extends its dictionary. A file cannot say that a dictionary is replaced: the last one would win for all. */
  open(header: FlatTable): DictionaryBatch {
    const id = header.int64(0);
    const isDelta = header.uint8(2, 0) !== 0;
    const values = this.#values.get(id);
    if (values === undefined) throw invalidInput(`no column uses dictionary ${id}`);
    if (this.#arrived.has(id) && !isDelta) throw invalidInput(`dictionary ${id} is replaced within the stream`);
    if (!this.#arrived.has(id) && isDelta) throw invalidInput(`dictionary ${id} begins with a delta`);
    const batch = header.table(1);
    if (batch === undefined) throw invalidInput(`dictionary ${id} has no values`);
    return { id, values, header: batch };
  }

  close(id: bigint): void {
    this.#arrived.add(id);
  }

  #enter(field: Field): void {
    for (const child of field.children) this.#enter(child);
    if (field.dictionary === undefined) return;
    const { id } = field.dictionary;
    const values: Field = { ...field, dictionary: undefined };
    const known = this.#values.get(id);
    if (known !== undefined && !sameType(known, values)) throw invalidInput(`two types share dictionary ${id}`);
    this.#values.set(id, values);
  }
}

/**
 * Assembles IPC files out of stream messages. The schema and the dictionaries seen so far are repeated in front of every
 * chunk, so each is complete by itself and may be handed to the engine while the next one is on its way.
 */

/** What every chunk begins with. Grows while dictionaries arrive. */
export class Preamble {
  readonly schema: Schema;
  readonly #schemaMessage: Buffer;
  readonly #dictionaries: Buffer[] = [];
  readonly #blocks: Block[] = [];
  #end: number;
  decodedBytes = 0;
  /** Of `decodedBytes`, what they are more than the bytes of the dictionaries as sent. */
  unfoldedBytes = 0;

  /** `schemaMessage` is the whole message with its prefix; it is kept, so it must not be a view of an arena. */
  constructor(schema: Schema, schemaMessage: Buffer) {
    this.schema = schema;
    this.#schemaMessage = schemaMessage;
    this.#end = magic.length + schemaMessage.length;
  }

  get schemaMetadata(): Buffer {
    return this.#schemaMessage.subarray(prefixBytes);
  }

  get bytes(): number {
    return this.#end;
  }

  get blocks(): readonly Block[] {
    return this.#blocks;
  }

  /** `message` is kept. */
  addDictionary(message: Buffer, metaLength: number, decodedBytes: number): void {
    this.#dictionaries.push(message);
    this.#blocks.push({ offset: this.#end, metaLength, bodyLength: message.length - metaLength });
    this.#end += message.length;
    this.decodedBytes += decodedBytes;
    this.unfoldedBytes += unfolded(decodedBytes, message.length - metaLength);
  }

  writeTo(arena: Arena): void {
    for (const part of [magic, this.#schemaMessage, ...this.#dictionaries]) arena.append(part);
    arena.charge(this.unfoldedBytes);
  }
}

export class ChunkBuilder {
  readonly arena: Arena;
  readonly #preamble: Preamble;
  readonly #dictionaries: Block[];
  readonly #batches: Block[] = [];
  readonly #nullBytesPerRow: number;
  #rows = 0;
  #decodedBytes: number;
  #batchBytes = 0;

  /**
   * `arena` holds nothing, or for the first chunk the magic and the schema message as they arrived. `nullBytesPerRow` is as for
   * `ArrowSource.whole`.
   */
  constructor(preamble: Preamble, arena: Arena, nullBytesPerRow = 0) {
    if (arena.used === 0) preamble.writeTo(arena);
    this.arena = arena;
    this.#nullBytesPerRow = nullBytesPerRow;
    this.#preamble = preamble;
    this.#dictionaries = [...preamble.blocks];
    this.#decodedBytes = preamble.decodedBytes;
  }

  get batches(): number {
    return this.#batches.length;
  }

  get decodedBytes(): number {
    return this.#decodedBytes;
  }

  /** What the chunk holds beyond the repeated dictionaries: bytes as sent or decoded, whichever is more. */
  get weight(): number {
    return Math.max(this.#batchBytes, this.#decodedBytes - this.#preamble.decodedBytes);
  }

  /** Throws `SlowDown` or `BodyTooLarge` where there is no room to decompress it; so does `addBatch`. */
  addDictionary(block: Block, decodedBytes: number): void {
    this.arena.charge(unfolded(decodedBytes, block.bodyLength));
    this.#dictionaries.push(block);
    this.#decodedBytes += decodedBytes;
  }

  addBatch(block: Block, rows: number, decodedBytes: number): void {
    const nullBytes = rows * this.#nullBytesPerRow;
    this.arena.charge(unfolded(decodedBytes, block.bodyLength) + nullBytes);
    // The engine takes time for batches without rows too, so at most one of them reaches it.
    if (rows > 0 || this.#batches.length === 0) this.#batches.push(block);
    this.#rows += rows;
    this.#decodedBytes += decodedBytes + nullBytes;
    this.#batchBytes += block.metaLength + block.bodyLength;
  }

  finish(): IpcChunk {
    const contents = {
      schemaMessage: this.#preamble.schemaMetadata,
      dictionaries: this.#dictionaries,
      batches: this.#batches,
    };
    this.arena.append(fileTail(contents));
    return {
      file: this.arena.view(0, this.arena.used) as IpcFile,
      schema: this.#preamble.schema,
      dictionaries: this.#dictionaries,
      batches: this.#batches,
      rows: this.#rows,
      decodedBytes: this.#decodedBytes,
      release: () => this.arena.release(),
    };
  }
}

/** What decompression takes beyond the bytes that are there already; nothing for plain buffers. */
const unfolded = (decodedBytes: number, sentBytes: number): number => Math.max(0, decodedBytes - sentBytes);
