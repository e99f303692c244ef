/**
 * Lance keeps deletion vectors with many rows in Roaring bitmaps (https://github.com/RoaringBitmap/RoaringFormatSpec). Here are
 * their size, which no manifest gives, their values, and the bytes of new ones.
 */
import { MalformedFile } from './protobuf.ts';

/** Containers of up to this many values are lists of 2 bytes each; larger ones are bitmaps. */
const maxListed = 4096;
const bitmapBytes = 8192;
const cookie = { plain: 12346, withRuns: 12347 } as const;
/** If there are runs, a flag for each container follows the cookie and the count. */
const runFlagsAt = 4;

/** Its values have the same upper 16 bits, `high`. */
interface Container {
  readonly form: 'list' | 'bitmap' | 'runs';
  readonly high: number;
  readonly count: number;
  readonly start: number;
  readonly end: number;
}

/** Says how many bytes the bitmap at the start of `bytes` should have, by its own header; undefined if there is none. */
export function bytesOfBitmap(bytes: Buffer): number | undefined {
  try {
    return containersOf(bytes)?.end;
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

/** The values ascend. Throws `MalformedFile`. */
export function valuesOfBitmap(bytes: Buffer): Uint32Array {
  const found = bytesOfBitmap(bytes) === bytes.length ? containersOf(bytes) : undefined;
  if (found === undefined) throw new MalformedFile('no Roaring bitmap');
  const values = new Uint32Array(found.containers.reduce((sum, { count }) => sum + count, 0));
  let at = 0;
  for (const container of found.containers) at = putValues(bytes, container, values, at);
  if (at !== values.length) throw new MalformedFile('a Roaring container does not have as many values as it says');
  return values;
}

/** Values with the same upper 16 bits are in one: the lower ones ascending, or a bit for each in up to 2,048 words, the lowest first. */
export type ChunkValues =
  | { readonly list: Uint16Array<ArrayBuffer> }
  | { readonly bits: Uint32Array<ArrayBuffer>; readonly count: number };

/** The upper 16 bits of each chunk's values are its index. It writes no runs. */
export function bitmapOf(chunks: readonly (ChunkValues | undefined)[]): Buffer {
  const filled = chunks.flatMap((values, high) =>
    values === undefined || countOf(values) === 0 ? [] : [{ high, values, count: countOf(values) }],
  );
  const headerBytes = 8 + filled.length * 8;
  const bytes = Buffer.alloc(filled.reduce((sum, { count }) => sum + containerBytes(count), headerBytes));
  bytes.writeUInt32LE(cookie.plain, 0);
  bytes.writeUInt32LE(filled.length, 4);
  let start = headerBytes;
  for (const [index, { high, values, count }] of filled.entries()) {
    bytes.writeUInt16LE(high, 8 + index * 4);
    bytes.writeUInt16LE(count - 1, 8 + index * 4 + 2);
    bytes.writeUInt32LE(start, 8 + filled.length * 4 + index * 4);
    putContainer(bytes, start, values, count);
    start += containerBytes(count);
  }
  return bytes;
}

/** `values` ascend. */
export function bitmapOfValues(values: readonly number[]): Buffer {
  const chunks: (ChunkValues | undefined)[] = [];
  for (const [high, of] of Map.groupBy(values, (value) => value >>> 16)) {
    chunks[high] = of.length > maxListed ? inBits(of) : { list: Uint16Array.from(of, (value) => value & 0xffff) };
  }
  return bitmapOf(Array.from(chunks));
}

function inBits(values: readonly number[]): ChunkValues {
  const bits = new Uint32Array(bitmapBytes / 4);
  for (const value of values) setBitOf(bits, value & 0xffff);
  return { bits, count: values.length };
}

export function setBitOf(words: Uint32Array, value: number): void {
  words[value >> 5]! |= 1 << (value & 31);
}

const countOf = (values: ChunkValues): number => ('list' in values ? values.list.length : values.count);

const containerBytes = (count: number): number => (count > maxListed ? bitmapBytes : count * 2);

/** Counts the bits that are set of the 32. */
export function bitsSet(word: number): number {
  const pairs = word - ((word >>> 1) & 0x55555555);
  const fours = (pairs & 0x33333333) + ((pairs >>> 2) & 0x33333333);
  return Math.imul((fours + (fours >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
}

/** Machines that Lance runs on have the format's order of bytes. Lists of more values than a container can list are not. */
function putContainer(bytes: Buffer, start: number, values: ChunkValues, count: number): void {
  if ('list' in values) bytes.set(bytesOf(values.list), start);
  else if (count > maxListed) bytes.set(bytesOf(values.bits), start);
  else putListed(new Uint16Array(bytes.buffer, bytes.byteOffset + start, count), values.bits);
}

const bytesOf = ({ buffer, byteOffset, byteLength }: Uint16Array<ArrayBuffer> | Uint32Array<ArrayBuffer>): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);

function putListed(target: Uint16Array, bits: Uint32Array): void {
  let at = 0;
  for (let word = 0; word < bits.length; word += 1) {
    for (let rest = bits[word] ?? 0; rest !== 0; rest &= rest - 1) {
      target[at] = word * 32 + 31 - Math.clz32(rest & -rest);
      at += 1;
    }
  }
}

/** Answers undefined where there is no bitmap. Throws `RangeError` where it ends early. */
function containersOf(bytes: Buffer): { readonly containers: readonly Container[]; readonly end: number } | undefined {
  const kind = bytes.readUInt16LE(0);
  if (kind !== cookie.plain && kind !== cookie.withRuns) return undefined;
  const hasRuns = kind === cookie.withRuns;
  const count = hasRuns ? bytes.readUInt16LE(2) + 1 : bytes.readUInt32LE(4);
  const headersAt = hasRuns ? runFlagsAt + Math.ceil(count / 8) : 8;
  // If there are runs, offsets are left out below this many containers.
  const hasOffsets = !hasRuns || count >= 4;
  const containers: Container[] = [];
  let end = headersAt + count * (hasOffsets ? 8 : 4);
  for (let index = 0; index < count; index += 1) {
    const isRuns = hasRuns && (bytes.readUInt8(runFlagsAt + (index >> 3)) & (1 << (index & 7))) !== 0;
    const container = containerAt(bytes, headersAt + index * 4, end, isRuns);
    containers.push(container);
    end = container.end;
  }
  return { containers, end };
}

function containerAt(bytes: Buffer, headerAt: number, start: number, isRuns: boolean): Container {
  const high = bytes.readUInt16LE(headerAt);
  const count = bytes.readUInt16LE(headerAt + 2) + 1;
  if (isRuns) return { form: 'runs', high, count, start, end: start + 2 + bytes.readUInt16LE(start) * 4 };
  return { form: count > maxListed ? 'bitmap' : 'list', high, count, start, end: start + containerBytes(count) };
}

/** Writes from `at` on and returns where it ended. A generator would take ten times as long. */
function putValues(bytes: Buffer, { form, high, start, end }: Container, values: Uint32Array, at: number): number {
  const first = high * 2 ** 16;
  let next = at;
  switch (form) {
    case 'list':
      for (let from = start; from < end; from += 2) values[next++] = first + bytes.readUInt16LE(from);
      return next;
    case 'bitmap':
      for (let from = start; from < end; from += 4) {
        const word = first + (from - start) * 8;
        for (let rest = bytes.readInt32LE(from); rest !== 0; rest &= rest - 1)
          values[next++] = word + 31 - Math.clz32(rest & -rest);
      }
      return next;
    case 'runs':
      for (let from = start + 2; from < end; from += 4) {
        const low = first + bytes.readUInt16LE(from);
        for (let value = low; value <= low + bytes.readUInt16LE(from + 2); value += 1) values[next++] = value;
      }
      return next;
  }
}
