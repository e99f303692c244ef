/**
 * A manifest file is: an index section, the transaction once more, the manifest message, and 16 bytes of footer. Sections
 * begin with their length as a little-endian u32. Anything that does not fit its bounds is `MalformedFile`.
 */
import { MalformedFile, WireReader } from '../wire-reader.ts';

const footerBytes = 16;
const magic = 'LANC';

/** The transaction that made the version, or the name of the file it is in; undefined without any. All else is passed over. */
export function transactionIn(file: Buffer): Uint8Array | string | undefined {
  const reader = new WireReader(messageOf(file));
  let found: Uint8Array | string | undefined;
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field === 12) found ??= reader.text() || undefined;
    else if (field === 21) found = section(file, reader.number());
    else reader.skip();
  }
  return found;
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
