/** Finds the pages of one leaf in one row group, and which rows each of them has. */
import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from 'node:zlib';
import { snappyUncompress } from 'hyparquet';
import { decodeLz4Block } from '../../arrow/column/lz4-frame.ts';
import { asBuffer } from '../../arrow/format/ipc-file.ts';
import { invalidInput } from '../../kernel/errors.ts';
import { freeMemory } from '../free-memory.ts';
import { type BytesToCopy, bytesAt, type Chunk, inFile, inMemory, sizeOf } from './footer.ts';
import { EndsEarly, Thrift } from './thrift.ts';

export interface ChunkPage {
  /** How many rows begin before the page, and how many in it. */
  readonly rowsBefore: number;
  readonly rows: number;
  /** It begins with the rest of a row. */
  readonly isContinuation: boolean;
  /** The first of some pages has such a rest as a row of its own. */
  bytes(isFirst: boolean): readonly BytesToCopy[];
  /** It is not read any more. */
  free(): void;
}

interface PagesOfChunk {
  readonly dictionary: readonly BytesToCopy[];
  /** The pages are packed with what has this number. */
  readonly codec: number;
  /** They have the rows, in their order. */
  readonly rest: Iterator<ChunkPage, void>;
}

const kinds = { data: 0, dictionary: 2, dataV2: 3 } as const;
const runLengths = 3;
const notPacked = 0;
/** Most headers are shorter. One may hold the least and the largest value. */
const headBytes = 512;

/** zlib would join small ones. The least is what it takes. */
const inOneBuffer = (size: number) => ({ maxOutputLength: Math.max(1, size), chunkSize: Math.max(64, size) });

/** Each stands at its number of the format. */
const unpackers: Readonly<Record<number, (packed: Uint8Array, size: number) => Uint8Array>> = {
  [notPacked]: (packed) => packed,
  1: (packed, size) => {
    const plain = new Uint8Array(size);
    snappyUncompress(packed, plain);
    return plain;
  },
  2: (packed, size) => gunzipSync(packed, inOneBuffer(size)),
  4: (packed, size) => brotliDecompressSync(packed, inOneBuffer(size)),
  6: (packed, size) => zstdDecompressSync(packed, inOneBuffer(size)),
  7: decodeLz4Block,
};

export const canUnpack = ({ codec }: Chunk): boolean => unpackers[codec] !== undefined;

interface FoundPage {
  readonly header: Thrift;
  readonly kind: number;
  /** The header begins there, and the content at `contentAt`. */
  readonly at: number;
  readonly contentAt: number;
  readonly end: number;
}

/**
 * In a column of lists the older kind of page does not say how many rows it has, and may begin in the middle of one: such pages are
 * unpacked, to count.
 */
export function pagesOfChunk(file: number, chunk: Chunk, repetitions: number): PagesOfChunk {
  const found = pagesIn(file, chunk);
  let next = found.next();
  const first = next.done ? undefined : next.value;
  const hasDictionary = first?.kind === kinds.dictionary;
  if (hasDictionary) next = found.next();
  const isCounted = repetitions > 0 && !next.done && next.value.kind === kinds.data;
  function* rest(): Generator<ChunkPage, void> {
    for (let rowsBefore = 0; !next.done; next = found.next()) {
      const page = next.value;
      if (page.kind !== kinds.data && page.kind !== kinds.dataV2) continue;
      if (isCounted && page.kind !== kinds.data) throw invalidInput('a column has pages of both kinds');
      const read = isCounted ? countedPage(file, page, chunk, repetitions) : pageOf(file, page, repetitions);
      yield { ...read, rowsBefore };
      rowsBefore += read.rows;
    }
  }
  const inPlace = isCounted ? unpacked : asItIs;
  const dictionary = hasDictionary ? inPlace(file, first, chunk) : [];
  return { dictionary, codec: isCounted ? notPacked : chunk.codec, rest: rest() };
}

function* pagesIn(file: number, { offset, bytes }: Chunk): Generator<FoundPage, void> {
  const chunkEnd = offset + bytes;
  for (let at = offset; at < chunkEnd; ) {
    const { struct: header, length } = headerAt(file, at, chunkEnd);
    const contentAt = at + length;
    const end = contentAt + sizeOf(header, 3);
    if (end > chunkEnd) throw invalidInput('a page lies outside its column');
    yield { header, kind: sizeOf(header, 1), at, contentAt, end };
    at = end;
  }
}

function headerAt(file: number, at: number, end: number) {
  for (let length = headBytes; ; length *= 16) {
    try {
      return Thrift.read(bytesAt(file, at, Math.min(length, end - at)));
    } catch (error) {
      if (!(error instanceof EndsEarly) || length >= end - at) throw error;
    }
  }
}

function pageOf(file: number, page: FoundPage, repetitions: number): Omit<ChunkPage, 'rowsBefore'> {
  const isOlder = page.kind === kinds.data;
  const about = page.header.struct(isOlder ? 5 : 8);
  if (about === undefined || (isOlder && repetitions > 0)) throw invalidInput('a page does not say what it has');
  return {
    rows: sizeOf(about, isOlder ? 1 : 3),
    isContinuation: false,
    bytes: () => asItIs(file, page),
    free: () => undefined,
  };
}

const asItIs = (file: number, { at, end }: FoundPage): readonly BytesToCopy[] => [inFile(file, at, end - at)];

const unpacked = (file: number, page: FoundPage, chunk: Chunk): readonly BytesToCopy[] =>
  withHeader(page.header, [contentOf(file, page, chunk)]);

function contentOf(file: number, { header, contentAt, end }: FoundPage, { codec }: Chunk): Buffer {
  const size = sizeOf(header, 2);
  const packed = bytesAt(file, contentAt, end - contentAt);
  const plain = unpackers[codec]?.(packed, size);
  if (plain === undefined) throw invalidInput(`pages of compression ${codec} cannot be unpacked`);
  if (plain.length !== size) throw invalidInput(`a page unpacks to ${plain.length} bytes where ${size} are declared`);
  if (plain !== packed) freeMemory(packed);
  return asBuffer(plain);
}

/** The checksum is of what was packed. */
function withHeader(header: Thrift, content: readonly Uint8Array[]): readonly BytesToCopy[] {
  const size = content.reduce((sum, { length }) => sum + length, 0);
  const about = header.only(1, 5, 7).withInt32(2, size).withInt32(3, size);
  return [about.written(), ...content].map(inMemory);
}

/** The run of one zero is one more value in front, which begins a row and has nothing. */
const extraLevel = Buffer.of(2, 0);

/** The content of such a page says how values repeat and which are there, both behind their lengths, and then has the values. */
function countedPage(file: number, page: FoundPage, chunk: Chunk, repetitions: number): Omit<ChunkPage, 'rowsBefore'> {
  const about = page.header.struct(5);
  if (about === undefined) throw invalidInput('a page does not say what it has');
  if (about.number(3) !== runLengths || about.number(4) !== runLengths)
    throw invalidInput('its levels are of an old form');
  const content = contentOf(file, page, chunk);
  const values = sizeOf(about, 1);
  const definedAt = 4 + content.readUInt32LE(0);
  const repeats = content.subarray(4, definedAt);
  const { rows, isContinuation } = rowsInLevels(repeats, repetitions, values);
  const asFirst = (): readonly BytesToCopy[] => {
    const valuesAt = definedAt + 4 + content.readUInt32LE(definedAt);
    const levels = [repeats, content.subarray(definedAt + 4, valuesAt)].flatMap((each) => {
      const length = Buffer.alloc(4);
      length.writeUInt32LE(each.length + extraLevel.length);
      return [length, extraLevel, each];
    });
    const longer = page.header.withStruct(5, about.only(1, 2, 3, 4).withInt32(1, values + 1));
    return withHeader(longer, [...levels, content.subarray(valuesAt)]);
  };
  const bytes = (isFirst: boolean): readonly BytesToCopy[] =>
    isFirst && isContinuation ? asFirst() : withHeader(page.header, [content]);
  return { rows, isContinuation, bytes, free: () => freeMemory(content) };
}

/** Each value of a list has a level, of which 0 begins a row. `most` is the highest of the levels. */
function rowsInLevels(levels: Buffer, most: number, values: number) {
  let [left, rows] = [values, 0];
  let isContinuation: boolean | undefined;
  for (const { count, zerosIn } of runsIn(levels, Math.ceil(Math.log2(most + 1)))) {
    const used = Math.min(count, left);
    if (used === 0) continue;
    isContinuation ??= zerosIn(1) === 0;
    rows += zerosIn(used);
    left -= used;
    if (left === 0) break;
  }
  if (left > 0) throw invalidInput('a page has fewer values than it says');
  return { rows, isContinuation: isContinuation === true };
}

/** A run is of levels that follow each other. */
interface Run {
  readonly count: number;
  zerosIn(first: number): number;
}

/** There are runs of one level, and groups of eight, of `width` bits each. */
function* runsIn(levels: Buffer, width: number): Generator<Run, void> {
  for (let at = 0; at < levels.length; ) {
    let head = 0;
    for (let scale = 1, byte = 0x80; byte >= 0x80; scale *= 0x80) {
      byte = levels.readUInt8(at);
      head += (byte & 0x7f) * scale;
      at += 1;
    }
    const count = Math.floor(head / 2);
    if (head % 2 === 0) {
      const isZero = levels.readUInt8(at) === 0;
      at += 1;
      yield { count, zerosIn: (first) => (isZero ? first : 0) };
      continue;
    }
    const group = levels.subarray(at, at + count * width);
    at += group.length;
    yield { count: Math.floor((8 * group.length) / width), zerosIn: (first) => zerosOf(group, width, first) };
  }
}

function zerosOf(group: Buffer, width: number, first: number): number {
  let zeros = 0;
  for (let bit = 0; bit < first * width; bit += width) {
    const byte = bit >> 3;
    const two = (group[byte] ?? 0) | ((group[byte + 1] ?? 0) << 8);
    if (((two >> (bit & 7)) & ((1 << width) - 1)) === 0) zeros += 1;
  }
  return zeros;
}
