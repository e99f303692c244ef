/** What a body that is not an Arrow IPC stream looks like, so that the refusal can say so. */

const signatures: readonly (readonly [Buffer, string])[] = [
  [Buffer.from('ARROW1'), 'it is an Arrow IPC file; send the stream format (RecordBatchStreamWriter)'],
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

/** `head` is the first eight bytes, or fewer where there are no more. */
export function describeForeignFormat(head: Buffer): string {
  const known = signatures.find(([signature]) => head.subarray(0, signature.length).equals(signature));
  if (known !== undefined) return known[1];
  if (/^\s*[[{]/.test(head.toString('latin1'))) return 'it looks like JSON';
  if (looksLegacy(head)) return 'it uses the framing from before Arrow 0.15, without continuation words';
  return 'it does not begin with a schema message';
}
