/**
 * Roaring bitmaps (https://github.com/RoaringBitmap/RoaringFormatSpec), as Lance keeps many deleted rows of a fragment: their
 * size, which no manifest tells, and their values.
 */
import { MalformedFile } from './wire-reader.ts';

/** Containers of up to this many values are lists of 2 bytes each; larger ones are bitmaps. */
const maxListed = 4096;
const bitmapBytes = 8192;
const cookie = { plain: 12346, withRuns: 12347 } as const;
/** With runs, offsets are left out below this many containers. */
const minContainersWithOffsets = 4;

/** The values that have the same upper 16 bits, `high`. */
interface Container {
  readonly form: 'list' | 'bitmap' | 'runs';
  readonly high: number;
  readonly count: number;
  readonly start: number;
  readonly end: number;
}

/** How many bytes the bitmap at the start of `bytes` should have, by its own header; undefined if there is none. */
export function bytesOfBitmap(bytes: Buffer): number | undefined {
  try {
    return containersOf(bytes)?.end;
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

/** Ascending. Throws `MalformedFile`. */
export function valuesOfBitmap(bytes: Buffer): Uint32Array {
  const found = bytesOfBitmap(bytes) === bytes.length ? containersOf(bytes) : undefined;
  if (found === undefined) throw new MalformedFile('no Roaring bitmap');
  const values = new Uint32Array(found.containers.reduce((sum, { count }) => sum + count, 0));
  let at = 0;
  for (const container of found.containers) {
    for (const low of lowBits(bytes, container)) {
      values[at] = container.high * 2 ** 16 + low;
      at += 1;
    }
  }
  if (at !== values.length) throw new MalformedFile('a Roaring container does not have as many values as it says');
  return values;
}

function containersOf(bytes: Buffer): { readonly containers: readonly Container[]; readonly end: number } | undefined {
  const kind = bytes.readUInt16LE(0);
  if (kind === cookie.plain) {
    const count = bytes.readUInt32LE(4);
    return layOut(bytes, { count, headersAt: 8, dataAt: 8 + count * 8, isRuns: () => false });
  }
  if (kind !== cookie.withRuns) return undefined;
  const count = bytes.readUInt16LE(2) + 1;
  const runFlagsAt = 4;
  const headersAt = runFlagsAt + Math.ceil(count / 8);
  const dataAt = headersAt + count * (count >= minContainersWithOffsets ? 8 : 4);
  const isRuns = (index: number) => (bytes.readUInt8(runFlagsAt + (index >> 3)) & (1 << (index & 7))) !== 0;
  return layOut(bytes, { count, headersAt, dataAt, isRuns });
}

interface Header {
  readonly count: number;
  readonly headersAt: number;
  readonly dataAt: number;
  readonly isRuns: (index: number) => boolean;
}

function layOut(bytes: Buffer, { count, headersAt, dataAt, isRuns }: Header) {
  const containers: Container[] = [];
  let end = dataAt;
  for (let index = 0; index < count; index += 1) {
    const header = headersAt + index * 4;
    const values = bytes.readUInt16LE(header + 2) + 1;
    const form = isRuns(index) ? 'runs' : values <= maxListed ? 'list' : 'bitmap';
    const start = end;
    end += form === 'runs' ? 2 + bytes.readUInt16LE(start) * 4 : form === 'list' ? values * 2 : bitmapBytes;
    containers.push({ form, high: bytes.readUInt16LE(header), count: values, start, end });
  }
  return { containers, end };
}

function* lowBits(bytes: Buffer, { form, start, end }: Container): Iterable<number> {
  switch (form) {
    case 'list':
      for (let at = start; at < end; at += 2) yield bytes.readUInt16LE(at);
      return;
    case 'bitmap':
      for (let at = start; at < end; at += 1) {
        const eight = bytes[at] ?? 0;
        for (let bit = 0; eight >> bit !== 0; bit += 1) if ((eight >> bit) & 1) yield (at - start) * 8 + bit;
      }
      return;
    case 'runs':
      for (let at = start + 2; at < end; at += 4) {
        const first = bytes.readUInt16LE(at);
        const last = first + bytes.readUInt16LE(at + 2);
        for (let low = first; low <= last; low += 1) yield low;
      }
  }
}
