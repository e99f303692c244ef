/**
 * Values of no fixed width, as batches hold them that were only checked for structure: that their offsets run forwards,
 * end within what they point into, and part a text between characters is checked here.
 */
import { isUtf8 } from 'node:buffer';
import { invalidInput } from '../../kernel/errors.ts';
import type { DataType } from '../schema/schema.ts';

/** Offsets are held in 32 bits. A larger one lies outside of anything that fits into a chunk. */
const largestOffset = 0xffff_ffff;

/** `bytes` start at a multiple of eight. */
function narrowOffsets(bytes: Uint8Array, count: number): Uint32Array {
  const words = new Uint32Array(bytes.buffer, bytes.byteOffset, 2 * count);
  const offsets = new Uint32Array(count);
  for (let i = 0; i < count; i++) offsets[i] = words[2 * i + 1] === 0 ? words[2 * i]! : largestOffset;
  return offsets;
}

/**
 * The offsets of `length` values: value `i` goes from offset `i` to offset `i + 1`. Perhaps a view of `bytes`, not to be
 * written. `limit` is how much there is to point into. Throws `InvalidInput`.
 */
export function readOffsets(bytes: Uint8Array, offsetBytes: 4 | 8, length: number, limit: number): Uint32Array {
  // The buffer of no values may be empty.
  if (length === 0) return new Uint32Array(1);
  const offsets =
    offsetBytes === 4 ? new Uint32Array(bytes.buffer, bytes.byteOffset, length + 1) : narrowOffsets(bytes, length + 1);
  for (let i = 0; i < length; i++) if (offsets[i]! > offsets[i + 1]!) throw invalidInput('its offsets run backwards');
  if (offsets[length]! > limit) throw invalidInput('its offsets lie outside its data');
  return offsets;
}

export const isText = (type: DataType): boolean => type.kind === 'utf8' || type.kind === 'large_utf8';

/** Each value must be UTF-8 by itself: the whole is, and none begins within a character. Throws `InvalidInput`. */
export function requireUtf8(bytes: Uint8Array, offsets: Uint32Array): void {
  const end = offsets.at(-1)!;
  if (!isUtf8(bytes.subarray(offsets[0], end))) throw invalidInput('a text is not UTF-8');
  for (const start of offsets) {
    if (start < end && (bytes[start]! & 0xc0) === 0x80) throw invalidInput('a text is not UTF-8');
  }
}
