/**
 * Makes chunks out of the messages of a stream. The schema and the dictionaries that have arrived are repeated in front of every
 * chunk, so each is complete by itself and may be handed to the engine while the next one is on its way.
 */
import { invalidInput } from '../../kernel/errors.ts';
import type { BodyAccount } from '../../memory/body-memory.ts';
import { type BatchBuffers, openDictionary } from '../column/batch-buffers.ts';
import { type Block, fileTail, type MessageToWrite, ownFile } from '../format/ipc-file.ts';
import { type FlatTable, magic, prefixBytes } from '../format/message.ts';
import type { Field, IpcChunk, Schema } from '../schema/schema.ts';
import { sameType } from '../schema/schema-rules.ts';
import { requireRoom, UnifiedDictionary } from './unified-dictionary.ts';

/**
 * Holds bytes in one buffer that grows as they come, never by what a header promises. Growing doubles, so each byte is
 * moved once more on average; a body of known length, and a chunk that follows another, start at the right size.
 */
export class Arena {
  readonly #account: BodyAccount;
  readonly #likelyBytes: number;
  #bytes: Buffer;
  #used = 0;
  #chargedBytes = 0;
  #isReleased = false;

  /** `likelyBytes` is where growing stops to double. */
  constructor(account: BodyAccount, capacity: number, likelyBytes: number) {
    this.#account = account;
    this.#likelyBytes = likelyBytes;
    this.#bytes = account.take(capacity);
  }

  get used(): number {
    return this.#used;
  }

  append(chunk: Uint8Array): void {
    const needed = this.#used + chunk.length;
    if (needed > this.#bytes.length) this.#grow(needed);
    this.#bytes.set(chunk, this.#used);
    this.#used = needed;
  }

  /** Forgets the last bytes, back to `end`. */
  cut(end: number): void {
    this.#used = end;
  }

  view(start: number, end: number): Buffer {
    return this.#bytes.subarray(start, end);
  }

  /** Counts what decompressing the bytes will take, for as long as they are here. */
  charge(bytes: number): void {
    this.#account.charge(bytes);
    this.#chargedBytes += bytes;
  }

  /** Gives the memory back; views of it must not be used any more. Harmless when repeated. */
  release(): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.#account.giveBack(this.#bytes);
    this.#account.discharge(this.#chargedBytes);
  }

  #grow(needed: number): void {
    const larger = this.#account.take(Math.max(needed, this.#nextCapacity()));
    this.#bytes.copy(larger, 0, 0, this.#used);
    this.#account.giveBack(this.#bytes);
    this.#bytes = larger;
  }

  /** The last step goes to the likely size at once: one that stops short of it would have to be copied again. */
  #nextCapacity(): number {
    const doubled = 2 * this.#bytes.length;
    return 2 * doubled > this.#likelyBytes ? Math.max(this.#likelyBytes, this.#bytes.length) : doubled;
  }
}

/** Counts what decompression takes in addition to the bytes that are there already: nothing for plain buffers. */
const extraBytes = (decodedBytes: number, sentBytes: number): number => Math.max(0, decodedBytes - sentBytes);

export interface DictionaryBatch {
  readonly id: bigint;
  /** The dictionary's values are a column of their own. */
  readonly values: Field;
  /** It is the `RecordBatch` table of the values. */
  readonly header: FlatTable;
  readonly isDelta: boolean;
  /** It takes the place of this dictionary and of those before it; undefined where none is replaced. */
  readonly unified: UnifiedDictionary | undefined;
}

/** Every chunk of a stream begins with it: with the schema, and the dictionaries as they arrive. */
export class Preamble {
  readonly schema: Schema;
  /** It is the schema message without its prefix. */
  readonly schemaMetadata: Buffer;
  readonly blocks: Block[] = [];
  bytes = 0;
  decodedBytes = 0;
  readonly #messages: Buffer[];
  /** It has, by id, the values of each dictionary that the schema names. */
  readonly #values = new Map<bigint, Field>();
  /** It has, by id, what has arrived of each, or stands for it. */
  readonly #arrived = new Map<bigint, BatchBuffers[]>();
  readonly #unified = new Map<bigint, UnifiedDictionary>();
  /** What the dictionaries take when decoded, beyond their bytes as sent. */
  #extraBytes = 0;

  /** `schemaMessage` is the whole message with its prefix; it is kept, so it must not be a view of an arena. */
  constructor(schema: Schema, schemaMessage: Buffer) {
    this.schema = schema;
    this.schemaMetadata = schemaMessage.subarray(prefixBytes);
    this.bytes = magic.length + schemaMessage.length;
    this.#messages = [magic, schemaMessage];
    for (const field of schema.fields) this.#declare(field);
  }

  readonly hasDictionary = (id: bigint): boolean => this.#arrived.has(id);

  /** Gives those that were replaced, by id. */
  get unified(): ReadonlyMap<bigint, UnifiedDictionary> {
    return this.#unified;
  }

  /** A delta extends its dictionary; any other replaces the one before. */
  openDictionary(header: FlatTable): DictionaryBatch {
    const id = header.int64(0);
    const isDelta = header.uint8(2) !== 0;
    const values = this.#values.get(id);
    if (values === undefined) throw invalidInput(`no column uses dictionary ${id}`);
    if (!this.#arrived.has(id) && isDelta) throw invalidInput(`dictionary ${id} begins with a delta`);
    const batch = header.table(1);
    if (batch === undefined) throw invalidInput(`dictionary ${id} has no values`);
    return { id, values, header: batch, isDelta, unified: this.#unifiedOf(id, values, isDelta) };
  }

  #unifiedOf(id: bigint, values: Field, isDelta: boolean): UnifiedDictionary | undefined {
    const before = this.#arrived.get(id);
    const known = this.#unified.get(id);
    if (known !== undefined || before === undefined || isDelta) return known;
    const unified = new UnifiedDictionary(id, values);
    for (const part of before) unified.addStored(part);
    this.#unified.set(id, unified);
    return unified;
  }

  /** `message` is kept. */
  addDictionary(id: bigint, message: Buffer, metaLength: number, decodedBytes: number): void {
    const bodyLength = message.length - metaLength;
    const { values } = openDictionary(message, { offset: 0, metaLength, bodyLength });
    const parts = this.#arrived.get(id) ?? [];
    this.#arrived.set(id, parts);
    parts.push(values);
    this.#messages.push(message);
    this.blocks.push({ offset: this.bytes, metaLength, bodyLength });
    this.bytes += message.length;
    this.decodedBytes += decodedBytes;
    this.#extraBytes += extraBytes(decodedBytes, bodyLength);
  }

  /** Refuses a chunk with several batches whose indexes are too short for the dictionary that the engine makes. */
  requireRoomInIndexes(): void {
    if (this.#arrived.size === 0) return;
    requireRoom(this.schema.fields, (id) => (this.#arrived.get(id) ?? []).reduce((sum, { rows }) => sum + rows, 0));
  }

  writeTo(arena: Arena): void {
    for (const message of this.#messages) arena.append(message);
    arena.charge(this.#extraBytes);
  }

  #declare(field: Field): void {
    for (const child of field.children) this.#declare(child);
    if (field.dictionary === undefined) return;
    const { id } = field.dictionary;
    const values: Field = { ...field, dictionary: undefined };
    const known = this.#values.get(id);
    if (known !== undefined && !sameType(known, values)) throw invalidInput(`two types share dictionary ${id}`);
    this.#values.set(id, values);
  }
}

export class ChunkBuilder {
  readonly preamble: Preamble;
  readonly arena: Arena;
  decodedBytes: number;
  readonly #dictionaries: Block[];
  readonly #batches: Block[] = [];
  readonly #nullBytesPerRow: number;
  #rows = 0;
  #batchBytes = 0;

  /**
   * `arena` holds nothing, or for the first chunk the magic and the schema message as they arrived. `nullBytesPerRow` is as for
   * `ArrowSource.whole`.
   */
  constructor(preamble: Preamble, arena: Arena, nullBytesPerRow = 0) {
    if (arena.used === 0) preamble.writeTo(arena);
    this.preamble = preamble;
    this.arena = arena;
    this.decodedBytes = preamble.decodedBytes;
    this.#dictionaries = [...preamble.blocks];
    this.#nullBytesPerRow = nullBytesPerRow;
  }

  get batches(): number {
    return this.#batches.length;
  }

  /** Counts what the chunk holds beyond the repeated dictionaries: bytes as sent or decoded, whichever is more. */
  get weight(): number {
    return Math.max(this.#batchBytes, this.decodedBytes - this.preamble.decodedBytes);
  }

  /** Throws `SlowDown` or `BodyTooLarge` where there is no room to decompress it; so does `addBatch`. */
  addDictionary(block: Block, decodedBytes: number): void {
    this.arena.charge(extraBytes(decodedBytes, block.bodyLength));
    this.#dictionaries.push(block);
    this.decodedBytes += decodedBytes;
  }

  addBatch(block: Block, rows: number, decodedBytes: number): void {
    const nullBytes = rows * this.#nullBytesPerRow;
    this.arena.charge(extraBytes(decodedBytes, block.bodyLength) + nullBytes);
    // The engine takes time for batches without rows too, so at most one of them reaches it.
    if (rows > 0 || this.#batches.length === 0) this.#batches.push(block);
    if (this.#batches.length > 1) this.preamble.requireRoomInIndexes();
    this.#rows += rows;
    this.decodedBytes += decodedBytes + nullBytes;
    this.#batchBytes += block.metaLength + block.bodyLength;
  }

  /** Puts another message in place of the last one, which lies at the end of the arena. Answers where it is. */
  replaceLast({ offset }: Block, { head, bodyLength, fill }: MessageToWrite): Block {
    const body = Buffer.alloc(bodyLength);
    fill(body); // out of the message that goes
    this.arena.cut(offset);
    this.arena.append(head);
    this.arena.append(body);
    return { offset, metaLength: head.length, bodyLength };
  }

  finish(): IpcChunk {
    const { schema, schemaMetadata } = this.preamble;
    const blocks = { dictionaries: this.#dictionaries, batches: this.#batches };
    this.arena.append(fileTail(schemaMetadata, blocks));
    return {
      ...blocks,
      file: ownFile(this.arena.view(0, this.arena.used)),
      schema,
      rows: this.#rows,
      decodedBytes: this.decodedBytes,
      release: () => this.arena.release(),
    };
  }
}
