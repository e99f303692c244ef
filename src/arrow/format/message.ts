/**
 * Reads the messages of the Arrow IPC stream format. Their metadata are flatbuffers that a client wrote. Every offset is checked
 * before it is followed, so a wrong one ends in `InvalidInput` and never in a read outside the bytes. The rules are those of
 * the verifier in the engine's Arrow library or stricter: what passes here must not surprise it.
 */
import { isUtf8 } from 'node:buffer';
import type { Builder } from 'flatbuffers';
import { invalidInput } from '../../kernel/errors.ts';

export interface FlatVector {
  readonly at: number;
  readonly length: number;
}

const malformed = (what: string) => invalidInput(`malformed metadata: ${what}`);

function requireInside(bytes: Buffer, at: number, length: number, what: string): void {
  if (at < 0 || at + length > bytes.length) throw malformed(`${what} lies outside its message`);
}

function follow(bytes: Buffer, at: number, what: string): number {
  requireInside(bytes, at, 4, what);
  const target = at + bytes.readUInt32LE(at);
  requireInside(bytes, target, 4, what);
  if (target % 4 !== 0) throw malformed(`${what} is misaligned`);
  return target;
}

/** A table lies inside `bytes`. Field numbers are those of Arrow's Schema.fbs, Message.fbs and File.fbs. */
export class FlatTable {
  readonly bytes: Buffer;
  /** The table itself lies there: a copy of `bytes` elsewhere needs it to point at it. */
  readonly at: number;
  /** The alignment of the elements of vectors. The engine wants that of their widths; some writers of files align by four bytes. */
  readonly #alignment: 4 | 8;
  readonly #size: number;
  readonly #vtable: number;
  readonly #vtableSize: number;

  constructor(bytes: Buffer, at: number, alignment: 4 | 8 = 8) {
    requireInside(bytes, at, 4, 'a table');
    if (at % 4 !== 0) throw malformed('a table is misaligned');
    const vtable = at - bytes.readInt32LE(at);
    requireInside(bytes, vtable, 4, 'a table');
    const vtableSize = bytes.readUInt16LE(vtable);
    const size = bytes.readUInt16LE(vtable + 2);
    if (vtable % 2 !== 0 || vtableSize < 4 || vtableSize % 2 !== 0 || size < 4) throw malformed('a table has no shape');
    requireInside(bytes, vtable, vtableSize, 'a table');
    requireInside(bytes, at, size, 'a table');
    this.bytes = bytes;
    this.at = at;
    this.#alignment = alignment;
    this.#size = size;
    this.#vtable = vtable;
    this.#vtableSize = vtableSize;
  }

  static root(bytes: Buffer, alignment?: 4 | 8): FlatTable {
    return new FlatTable(bytes, follow(bytes, 0, 'the root table'), alignment);
  }

  uint8(field: number): number {
    const at = this.#positionOf(field, 1);
    return at === undefined ? 0 : this.bytes.readUInt8(at);
  }

  /** It is called on a copy of the bytes, or before anyone else reads them. */
  setUint8(field: number, value: number): void {
    const at = this.#positionOf(field, 1);
    if (at === undefined) throw malformed('a field is not there');
    this.bytes.writeUInt8(value, at);
  }

  int16(field: number, absent = 0): number {
    const at = this.#positionOf(field, 2);
    return at === undefined ? absent : this.bytes.readInt16LE(at);
  }

  int32(field: number, absent = 0): number {
    const at = this.#positionOf(field, 4);
    return at === undefined ? absent : this.bytes.readInt32LE(at);
  }

  int64(field: number): bigint {
    const at = this.#positionOf(field, 8);
    return at === undefined ? 0n : this.bytes.readBigInt64LE(at);
  }

  /** Reads a length or a count: an int64 that is not negative and exact as a number. */
  length(field: number, what: string): number {
    return exactLength(this.int64(field), what);
  }

  table(field: number): FlatTable | undefined {
    const at = this.#positionOf(field, 4);
    return at === undefined ? undefined : this.#below(at);
  }

  vector(field: number, elementBytes: number): FlatVector {
    const at = this.#positionOf(field, 4);
    if (at === undefined) return { at: 0, length: 0 };
    const start = follow(this.bytes, at, 'a vector');
    const length = this.bytes.readUInt32LE(start);
    requireInside(this.bytes, start + 4, length * elementBytes, 'a vector');
    // A writer aligns the elements, so what is empty may lie anywhere: pyarrow's buffers of columns that have none.
    if (length > 0 && elementBytes >= 8 && (start + 4) % this.#alignment !== 0)
      throw malformed('a vector is misaligned');
    return { at: start + 4, length };
  }

  *tables(field: number): IterableIterator<FlatTable> {
    const { at, length } = this.vector(field, 4);
    for (let i = 0; i < length; i++) yield this.#below(at + 4 * i);
  }

  #below(at: number): FlatTable {
    return new FlatTable(this.bytes, follow(this.bytes, at, 'a table'), this.#alignment);
  }

  text(field: number): string | undefined {
    const { at, length } = this.vector(field, 1);
    if (at === 0) return undefined;
    const text = this.bytes.subarray(at, at + length);
    if (!isUtf8(text)) throw malformed('a text is not UTF-8');
    // Flatbuffers end every text with a zero byte, and the engine's verifier insists on it.
    requireInside(this.bytes, at + length, 1, 'a text');
    if (this.bytes[at + length] !== 0) throw malformed('a text is not terminated');
    return text.toString('utf8');
  }

  #positionOf(field: number, bytes: number): number | undefined {
    const slot = 4 + 2 * field;
    if (slot + 2 > this.#vtableSize) return undefined;
    const offset = this.bytes.readUInt16LE(this.#vtable + slot);
    if (offset === 0) return undefined;
    if (offset < 4 || offset + bytes > this.#size || (this.at + offset) % bytes !== 0) {
      throw malformed('a field lies outside its table');
    }
    return this.at + offset;
  }
}

export function exactLength(value: bigint, what: string): number {
  const length = Number(value);
  if (length < 0 || length > Number.MAX_SAFE_INTEGER) throw malformed(`${what} is out of range`);
  return length;
}

/** A file ends with it. */
export const magicAtEnd = Buffer.from('ARROW1');
/** A file begins with the same, padded, in front of its messages. */
export const magic = Buffer.concat([magicAtEnd], 8);
/** This word is in front of every message since Arrow 0.15, then comes the length of the metadata. */
export const continuation = -1;
export const prefixBytes = 8;
export const metadataV5 = 4;

type MessageKind = 'schema' | 'dictionary batch' | 'record batch';

/** Each stands at its number. */
const messageKinds: readonly (MessageKind | undefined)[] = [undefined, 'schema', 'dictionary batch', 'record batch'];

export interface Message {
  readonly kind: MessageKind;
  readonly header: FlatTable;
  readonly bodyLength: number;
}

/** `metadata` is the flatbuffer behind the eight bytes of the prefix. Throws `InvalidInput`. */
export function readMessage(metadata: Buffer, alignment?: 4 | 8): Message {
  const message = FlatTable.root(metadata, alignment);
  const version = message.int16(0);
  if (version !== metadataV5) throw invalidInput(`metadata version V${version + 1} is not supported; V5 is wanted`);
  const number = message.uint8(1);
  if (number === 4 || number === 5) throw invalidInput('tensors are not supported');
  const kind = messageKinds[number];
  if (kind === undefined) throw invalidInput(`messages of type ${number} are unknown`);
  const header = message.table(2);
  if (header === undefined) throw invalidInput('the message has no header');
  const bodyLength = message.length(3, 'the length of the body');
  if (bodyLength % 8 !== 0) throw invalidInput('the body is not padded to eight bytes');
  return { kind, header, bodyLength };
}

/**
 * Adds the bytes of a flatbuffer as they are, so that a table in them can be pointed at: flatbuffers are position-independent.
 * Answers what `addOffset` takes for the first byte; for a later one subtract its position.
 */
export function addCopy(builder: Builder, bytes: Buffer): number {
  builder.prep(8, bytes.length);
  return builder.createByteVector(bytes) - Uint32Array.BYTES_PER_ELEMENT;
}

/** Puts a message with its prefix, a multiple of eight bytes, around the table of its header. */
export function finishMessage(builder: Builder, kind: MessageKind, header: number, bodyLength: number): Buffer {
  builder.startObject(4);
  builder.addFieldInt64(3, BigInt(bodyLength), 0n);
  builder.addFieldOffset(2, header, 0);
  builder.addFieldInt16(0, metadataV5, 0);
  builder.addFieldInt8(1, messageKinds.indexOf(kind), 0);
  builder.finish(builder.endObject());
  const metadata = builder.asUint8Array();
  const message = Buffer.alloc(prefixBytes + Math.ceil(metadata.length / 8) * 8);
  message.writeInt32LE(continuation, 0);
  message.writeInt32LE(message.length - prefixBytes, 4);
  message.set(metadata, prefixBytes);
  return message;
}
