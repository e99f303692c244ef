/**
 * An Arrow IPC *file* around the messages of a *stream*, byte for byte: a file is the magic, the messages, and a footer
 * that lists where they are. No batch is decoded, so compressed and dictionary batches pass through untouched.
 *
 * The footer must hold the schema once more. Flatbuffers are position-independent, so the stream's own schema message
 * is copied behind a hand-made `Footer` table that points into the copy: every type and all metadata survive, also what
 * this service does not know.
 */

import { FlatTable } from './flatbuffer.ts';
import type { Block } from './ipc-file.ts';
import { endMarker, magic } from './message.ts';

const bytesOfBlock = 24;
/** Layout of the footer: root offset, vtable, the `Footer` table, then two vectors of blocks, then the schema message. */
const vtableAt = 4;
const footerAt = 16;
const footerBytes = 20;
/** A vector is a length word and its elements, which must begin at a multiple of eight. */
const dictionariesAt = 44;
const schemaField = 4;
const dictionariesField = 8;
const batchesField = 12;
const versionField = 16;
const metadataV5 = 4;

export interface FileContents {
  /** The metadata of the schema message, without its prefix. */
  readonly schemaMessage: Buffer;
  readonly dictionaries: readonly Block[];
  readonly batches: readonly Block[];
}

const vectorEnd = (at: number, blocks: readonly Block[]): number => at + 4 + bytesOfBlock * blocks.length;

/** What follows the messages: end marker, footer, its length, and the magic. */
export function fileTail(contents: FileContents): Buffer {
  const batchesAt = vectorEnd(dictionariesAt, contents.dictionaries) + 4;
  const copyAt = vectorEnd(batchesAt, contents.batches);
  const footerLength = copyAt + contents.schemaMessage.length;
  const tail = Buffer.alloc(endMarker.length + footerLength + 4 + 6);
  endMarker.copy(tail);
  const footer = tail.subarray(endMarker.length, endMarker.length + footerLength);
  const schemaTable = FlatTable.root(contents.schemaMessage).table(2);
  if (schemaTable === undefined) throw new Error('the schema message was not checked');
  writeFooterTable(footer, copyAt + schemaTable.at, batchesAt);
  writeBlocks(footer, dictionariesAt, contents.dictionaries);
  writeBlocks(footer, batchesAt, contents.batches);
  contents.schemaMessage.copy(footer, copyAt);
  tail.writeInt32LE(footerLength, endMarker.length + footerLength);
  magic.copy(tail, tail.length - 6, 0, 6);
  return tail;
}

function writeFooterTable(footer: Buffer, schemaAt: number, batchesAt: number): void {
  footer.writeUInt32LE(footerAt, 0);
  const vtable = [12, footerBytes, versionField, schemaField, dictionariesField, batchesField];
  for (const [i, word] of vtable.entries()) footer.writeUInt16LE(word, vtableAt + 2 * i);
  footer.writeInt32LE(footerAt - vtableAt, footerAt);
  footer.writeUInt32LE(schemaAt - (footerAt + schemaField), footerAt + schemaField);
  footer.writeUInt32LE(dictionariesAt - (footerAt + dictionariesField), footerAt + dictionariesField);
  footer.writeUInt32LE(batchesAt - (footerAt + batchesField), footerAt + batchesField);
  footer.writeInt16LE(metadataV5, footerAt + versionField);
}

function writeBlocks(footer: Buffer, at: number, blocks: readonly Block[]): void {
  footer.writeUInt32LE(blocks.length, at);
  for (const [i, block] of blocks.entries()) {
    const blockAt = at + 4 + bytesOfBlock * i;
    footer.writeBigInt64LE(BigInt(block.offset), blockAt);
    footer.writeInt32LE(block.metaLength, blockAt + 8);
    footer.writeBigInt64LE(BigInt(block.bodyLength), blockAt + 16);
  }
}
