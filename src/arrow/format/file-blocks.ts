/** The footer of an IPC file: its schema, and where its messages are. For files that the engine wrote. */
import { invalidInput } from '../../kernel/errors.ts';
import { exactLength, FlatTable } from './flatbuffer.ts';
import type { Block } from './ipc-file.ts';
import { bytesOfBlock, fileMagic } from './message.ts';

export interface FileFooter {
  readonly schema: FlatTable;
  readonly dictionaries: readonly Block[];
  readonly batches: readonly Block[];
}

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
export function readFooter(file: Uint8Array): FileFooter {
  const bytes = asBuffer(file);
  const end = bytes.length - fileMagic.length - 4;
  if (end < 8 || !bytes.subarray(end + 4).equals(fileMagic)) throw invalidInput('not an Arrow IPC file');
  const footerLength = bytes.readInt32LE(end);
  if (footerLength < 8 || footerLength > end) throw invalidInput('the footer lies outside the Arrow IPC file');
  const footer = FlatTable.root(bytes.subarray(end - footerLength, end));
  const schema = footer.table(1);
  if (schema === undefined) throw invalidInput('the Arrow IPC file has no schema');
  return { schema, dictionaries: readBlocks(footer, 2), batches: readBlocks(footer, 3) };
}
