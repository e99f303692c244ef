/**
 * An Arrow IPC *file* around the messages of a *stream*, byte for byte: a file is the magic, the messages, and a footer
 * that lists where they are. No batch is decoded, so compressed and dictionary batches pass through untouched.
 *
 * The footer must hold the schema once more. It points into a copy of the stream's own schema message: so every type and all
 * metadata survive, also what this service does not know.
 */
import { Builder } from 'flatbuffers';
import { FlatTable } from './flatbuffer.ts';
import type { Block, IpcFile } from './ipc-file.ts';
import { bytesOfBlock, endMarker, fileMagic, magic, metadataV5, prefixBytes } from './message.ts';
import { addCopy } from './write-flatbuffer.ts';

interface FileContents {
  /** The metadata of the schema message, without its prefix. */
  readonly schemaMessage: Buffer;
  readonly dictionaries: readonly Block[];
  readonly batches: readonly Block[];
}

/** What follows the messages: end marker, footer, its length, and the magic. */
export function fileTail({ schemaMessage, dictionaries, batches }: FileContents): Buffer {
  const schema = FlatTable.root(schemaMessage).table(2);
  if (schema === undefined) throw new Error('the schema message was not checked');
  const blocks = bytesOfBlock * (dictionaries.length + batches.length);
  const builder = new Builder(schemaMessage.length + blocks + footerOverheadBytes);
  const copy = addCopy(builder, schemaMessage);
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
  return Buffer.concat([endMarker, footer, length, fileMagic]);
}

/** At least the footer's own tables: the builder then never grows. */
const footerOverheadBytes = 128;

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
  /** The metadata with its prefix. */
  readonly head: Buffer;
  readonly bodyLength: number;
  /** Writes the body, into zeros that begin at a multiple of eight. */
  fill(body: Buffer): void;
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
): { readonly file: IpcFile; readonly dictionaries: readonly Block[]; readonly batches: readonly Block[] } {
  let end = magic.length + schemaMessage.length;
  const messages = [...dictionaries, ...batches];
  const blocks = messages.map(({ head, bodyLength }): Block => {
    const block = { offset: end, metaLength: head.length, bodyLength };
    end += head.length + bodyLength;
    return block;
  });
  const places = { dictionaries: blocks.slice(0, dictionaries.length), batches: blocks.slice(dictionaries.length) };
  const tail = fileTail({ schemaMessage: schemaMessage.subarray(prefixBytes), ...places });
  const file = Buffer.alloc(end + tail.length);
  file.set(magic);
  file.set(schemaMessage, magic.length);
  for (const [i, { head, fill }] of messages.entries()) {
    const { offset, metaLength, bodyLength } = blocks[i]!;
    file.set(head, offset);
    fill(file.subarray(offset + metaLength, offset + metaLength + bodyLength));
  }
  file.set(tail, end);
  return { file: file as IpcFile, ...places };
}
