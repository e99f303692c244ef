/**
 * A manifest file is: an index section, the transaction once more, the manifest message, and 16 bytes of footer. Sections
 * begin with their length as a little-endian u32. Anything that does not fit its bounds is `MalformedFile`.
 */
import { decode, edit } from '../message-codec.ts';
import { manifest } from '../messages.ts';
import { MalformedFile } from '../wire-reader.ts';

const footerBytes = 16;
const magic = 'LANC';

export interface ManifestSections {
  readonly message: Uint8Array;
  readonly indexes: Uint8Array | undefined;
  readonly transaction: Uint8Array | undefined;
}

export function sectionsOf(file: Buffer): ManifestSections {
  const message = messageOf(file);
  const positions = decode(manifest, message, ['indexSection', 'transactionSection', 'transactionSectionOfLance14']);
  const { indexSection, transactionSectionOfLance14, transactionSection = transactionSectionOfLance14 } = positions;
  return {
    message,
    indexes: indexSection === undefined ? undefined : section(file, indexSection),
    transaction: transactionSection === undefined ? undefined : section(file, transactionSection),
  };
}

/** The transaction that made the version, or the name of the file it is in; undefined without any. All else is passed over. */
export function transactionIn(file: Buffer): Uint8Array | string | undefined {
  const { message, transaction } = sectionsOf(file);
  return transaction ?? (decode(manifest, message, ['transactionFile']).transactionFile || undefined);
}

export function messageOf(file: Buffer): Uint8Array {
  if (file.length < footerBytes || file.toString('latin1', file.length - 4) !== magic) {
    throw new MalformedFile('the manifest does not end as one');
  }
  return section(file, Number(file.readBigUInt64LE(file.length - footerBytes)));
}

export function section(file: Buffer, position: number): Uint8Array {
  const end = file.length - footerBytes;
  const start = position + 4;
  if (start > end) throw new MalformedFile('a section begins past the end');
  const length = file.readUInt32LE(position);
  if (start + length > end) throw new MalformedFile('a section ends past the end');
  return file.subarray(start, start + length);
}

/** Sections first, each behind its length, then the message, then its position and the format's version and mark, as in `like`. */
export function manifestFileOf({ message, indexes, transaction }: ManifestSections, like: Buffer): Buffer {
  const parts: Uint8Array[] = [];
  let at = 0;
  const add = (content: Uint8Array): number => {
    const start = at;
    const length = Buffer.alloc(4);
    length.writeUInt32LE(content.length);
    parts.push(length, content);
    at += 4 + content.length;
    return start;
  };
  const indexSection = indexes && add(indexes);
  const transactionSection = transaction && add(transaction);
  const position = Buffer.alloc(8);
  position.writeBigUInt64LE(BigInt(add(edit(manifest, message, { indexSection, transactionSection }))));
  return Buffer.concat([...parts, position, like.subarray(like.length - 8)]);
}
