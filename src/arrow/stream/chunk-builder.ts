/**
 * Assembles IPC files out of stream messages. The schema and the dictionaries seen so far are repeated in front of every
 * chunk, so each is complete by itself and may be handed to the engine while the next one is on its way.
 */

import type { Block, IpcFile } from '../format/ipc-file.ts';
import { magic, prefixBytes } from '../format/message.ts';
import { fileTail } from '../format/write-file.ts';
import type { IpcChunk } from '../schema/ipc-chunk.ts';
import type { Schema } from '../schema/schema.ts';
import type { Arena } from './byte-intake.ts';

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
