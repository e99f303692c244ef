/**
 * An Arrow IPC *file* has the magic, messages as in a stream, and a footer that lists where they are. They are made byte for byte of
 * the messages of streams: no batch is decoded, so compressed and dictionary batches pass through untouched.
 */
import { Builder } from 'flatbuffers';
import { invalidInput, LancegateError } from '../../kernel/errors.ts';
import { paired } from '../../kernel/paired.ts';
import { addCopy, exactLength, FlatTable, magic, magicAtEnd, metadataV5, prefixBytes } from './message.ts';

declare const ipcFile: unique symbol;
/**
 * It is one complete Arrow IPC file in one buffer, structurally checked: the only form in which bytes may reach the engine
 * (docs/engine-facts.md, "Crashes and lies"). Only `arrow/` makes them.
 */
export type IpcFile = Buffer & { readonly [ipcFile]: true };

/** This service or the engine has made the file, or another process of this service has checked it. */
export const ownFile = (bytes: Buffer): IpcFile => bytes as Buffer as IpcFile;

/** One message lies there in a file, in bytes from its start. */
export interface Block {
  readonly offset: number;
  readonly metaLength: number;
  readonly bodyLength: number;
}

/** A file lists these messages. */
export interface Blocks {
  readonly dictionaries: readonly Block[];
  readonly batches: readonly Block[];
}

/** Ends a stream, and the messages of a file. */
export const endMarker = Buffer.from([255, 255, 255, 255, 0, 0, 0, 0]);
/** The size of the struct `Block` in a footer. */
const bytesOfBlock = 24;

export const asBuffer = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);

function readBlocks(footer: FlatTable, field: number): Block[] {
  const { at, length } = footer.vector(field, bytesOfBlock);
  return Array.from({ length }, (_, i) => {
    const block = at + bytesOfBlock * i;
    return {
      offset: exactLength(footer.bytes.readBigInt64LE(block), 'the offset of a message'),
      metaLength: footer.bytes.readInt32LE(block + 8),
      bodyLength: exactLength(footer.bytes.readBigInt64LE(block + 16), 'the length of a message'),
    };
  });
}

/** Throws `InvalidInput` for bytes that are no IPC file. The blocks are as the footer says, unchecked. */
export function readFooter(file: Uint8Array, alignment?: 4 | 8): Blocks & { readonly schema: FlatTable } {
  const bytes = asBuffer(file);
  const end = bytes.length - magicAtEnd.length - 4;
  if (end < 8 || !bytes.subarray(end + 4).equals(magicAtEnd)) throw invalidInput('not an Arrow IPC file');
  const footerLength = bytes.readInt32LE(end);
  if (footerLength < 8 || footerLength > end) throw invalidInput('the footer lies outside the Arrow IPC file');
  const footer = FlatTable.root(bytes.subarray(end - footerLength, end), alignment);
  const schema = footer.table(1);
  if (schema === undefined) throw invalidInput('the Arrow IPC file has no schema');
  return { schema, dictionaries: readBlocks(footer, 2), batches: readBlocks(footer, 3) };
}

/**
 * Makes what follows the messages: end marker, footer, its length, and the magic. `schemaMetadata` is the schema message without its
 * prefix. The footer must hold the schema once more; it points into a copy of that message, so every type and all metadata
 * survive, also what this service does not know.
 */
export function fileTail(schemaMetadata: Buffer, { dictionaries, batches }: Blocks): Buffer {
  const schema = FlatTable.root(schemaMetadata).table(2);
  if (schema === undefined) throw new LancegateError('Internal', 'the schema message was not checked');
  const builder = new Builder();
  const copy = addCopy(builder, schemaMetadata);
  const batchBlocks = addBlocks(builder, batches);
  const dictionaryBlocks = addBlocks(builder, dictionaries);
  builder.startObject(4);
  builder.addFieldOffset(1, copy - schema.at, 0);
  builder.addFieldOffset(2, dictionaryBlocks, 0);
  builder.addFieldOffset(3, batchBlocks, 0);
  builder.addFieldInt16(0, metadataV5, 0);
  builder.finish(builder.endObject());
  const footer = builder.asUint8Array();
  const length = Buffer.alloc(4);
  length.writeInt32LE(footer.length);
  return Buffer.concat([endMarker, footer, length, magicAtEnd]);
}

function addBlocks(builder: Builder, blocks: readonly Block[]): number {
  builder.startVector(bytesOfBlock, blocks.length, 8);
  for (const { offset, metaLength, bodyLength } of blocks.toReversed()) {
    builder.prep(8, bytesOfBlock);
    builder.writeInt64(BigInt(bodyLength));
    builder.pad(4);
    builder.writeInt32(metaLength);
    builder.writeInt64(BigInt(offset));
  }
  return builder.endVector();
}

export interface MessageToWrite {
  /** It is the metadata with the prefix. */
  readonly head: Buffer;
  readonly bodyLength: number;
  /** Writes the body, into zeros that begin at a multiple of eight. */
  fill(body: Buffer): void;
}

/** They are in memory of their own. */
export function bytesOfMessage({ head, bodyLength, fill }: MessageToWrite): Buffer {
  const bytes = Buffer.alloc(head.length + bodyLength);
  bytes.set(head);
  fill(bytes.subarray(head.length));
  return bytes;
}

export function copyOf(file: Buffer, { offset, metaLength, bodyLength }: Block): MessageToWrite {
  const bodyAt = offset + metaLength;
  return {
    head: file.subarray(offset, bodyAt),
    bodyLength,
    fill: (body) => file.copy(body, 0, bodyAt, bodyAt + bodyLength),
  };
}

/** `schemaMessage` has its prefix. */
export function writeFile(
  schemaMessage: Buffer,
  dictionaries: readonly MessageToWrite[],
  batches: readonly MessageToWrite[],
): Blocks & { readonly file: IpcFile } {
  let end = magic.length + schemaMessage.length;
  const messages = [...dictionaries, ...batches];
  const blocks = messages.map(({ head, bodyLength }): Block => {
    const block = { offset: end, metaLength: head.length, bodyLength };
    end += head.length + bodyLength;
    return block;
  });
  const listed = { dictionaries: blocks.slice(0, dictionaries.length), batches: blocks.slice(dictionaries.length) };
  const tail = fileTail(schemaMessage.subarray(prefixBytes), listed);
  const file = Buffer.alloc(end + tail.length);
  file.set(magic);
  file.set(schemaMessage, magic.length);
  for (const [{ head, fill }, { offset, metaLength, bodyLength }] of paired(messages, blocks)) {
    file.set(head, offset);
    fill(file.subarray(offset + metaLength, offset + metaLength + bodyLength));
  }
  file.set(tail, end);
  return { file: ownFile(file), ...listed };
}

const signatures: readonly (readonly [Buffer, string])[] = [
  [magicAtEnd, 'it is an Arrow IPC file; send the stream format (RecordBatchStreamWriter)'],
  [Buffer.from('PAR1'), 'it looks like a Parquet file'],
  [Buffer.from([0x1f, 0x8b]), 'it looks like gzip; a compressed body needs a Content-Encoding header'],
  [Buffer.from([0x28, 0xb5, 0x2f, 0xfd]), 'it looks like zstd; a compressed body needs a Content-Encoding header'],
  [Buffer.from([0x04, 0x22, 0x4d, 0x18]), 'it looks like an LZ4 frame; compress the batches, not the stream'],
  [Buffer.from('PK\x03\x04'), 'it looks like a zip archive'],
];

/** Before Arrow 0.15 a message began with the length of its metadata, without the continuation word. */
function looksLegacy(head: Buffer): boolean {
  if (head.length < 8) return false;
  const length = head.readInt32LE(0);
  const rootOffset = head.readUInt32LE(4);
  return length > 0 && length < 1 << 24 && rootOffset >= 4 && rootOffset < length && rootOffset % 2 === 0;
}

/**
 * Says what a body that is not an Arrow IPC stream looks like, for its refusal. `head` is the first eight bytes, or fewer if there
 * are no more.
 */
export function describeForeignFormat(head: Buffer): string {
  const known = signatures.find(([signature]) => head.subarray(0, signature.length).equals(signature));
  if (known !== undefined) return known[1];
  if (/^\s*[[{]/.test(head.toString('latin1')))
    return 'it looks like JSON; rows of JSON are a body of their own, with the Content-Type application/json';
  if (/^[\x20-\x7e\t\r\n]+$/.test(head.toString('latin1')))
    return 'it looks like text; rows of CSV are a body of their own, with the Content-Type text/csv';
  if (looksLegacy(head)) return 'it uses the framing from before Arrow 0.15, without continuation words';
  return 'it does not begin with a schema message';
}
