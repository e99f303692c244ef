/**
 * Reads columns of a row group side by side, in batches of the same rows. Long columns are read by their pages, so that none is held
 * whole.
 */
import type { RecordBatch, readParquet } from 'parquet-wasm/node';
import { invalidInput } from '../../kernel/errors.ts';
import { freeMemory } from '../free-memory.ts';
import { type Chunk, inFile, type LeafPages, type ParquetFooter, type RowGroup } from './footer.ts';
import { type ChunkPage, canUnpack, pagesOfChunk } from './pages.ts';

/** The most rows of a batch, as of other files. */
const mostRowsOfBatch = 16_384;
/** Rows that are so wide are fewer. */
const mostBytesOfBatch = 8 << 20;
/** A row group that is no larger is read at once. */
const smallGroupBytes = 4 << 20;
/** A column of fewer bytes is small too, whatever the size of its row group. */
const smallColumnBytes = 512 << 10;
/** How much of a long column this decodes at once. */
const stretchBytes = 2 << 20;
const mostBatchesOfStretch = 8;

/** A band goes from the first column to before the last. */
interface Band {
  readonly first: number;
  readonly end: number;
  /** It is the only column, where that is read by its pages. */
  readonly long: ParquetFooter['columns'][number] | undefined;
}

interface ParquetSource {
  readonly file: number;
  readonly footer: ParquetFooter;
  readonly decode: typeof readParquet;
}

/** Gives the batches of each band; all bands cut their rows at the same places. */
export function bandsOf(source: ParquetSource, group: RowGroup): readonly Generator<RecordBatch, void>[] {
  const rowsOfBatch = rowsOfBatchIn(group);
  return bandsIn(source.footer, group).map((band) =>
    band.long === undefined
      ? wholeColumns(source, group, band, rowsOfBatch)
      : longColumn(source, group, band, band.long, rowsOfBatch),
  );
}

const bytesOf = (group: RowGroup): number =>
  group.chunks.reduce((sum, { bytes, unpackedBytes }) => sum + Math.max(bytes, unpackedBytes), 0);

function chunkAt({ chunks }: RowGroup, leaf: number): Chunk {
  const chunk = chunks[leaf];
  if (chunk === undefined) throw invalidInput('a column is missing');
  return chunk;
}

function rowsOfBatchIn(group: RowGroup): number {
  const rowBytes = bytesOf(group) / Math.max(1, group.rows);
  let rows = mostRowsOfBatch;
  while (rows > 1 && rows * rowBytes > mostBytesOfBatch) rows /= 2;
  return rows;
}

function bandsIn(footer: ParquetFooter, group: RowGroup): readonly Band[] {
  const { columns } = footer;
  if (bytesOf(group) <= smallGroupBytes || !footer.canBeDivided)
    return [{ first: 0, end: columns.length, long: undefined }];
  const bands: Band[] = [];
  for (const [first, column] of columns.entries()) {
    const { firstLeaf, leaves, repetitions } = column;
    const chunk = chunkAt(group, firstLeaf);
    const isLarge = Math.max(chunk.bytes, chunk.unpackedBytes) > smallColumnBytes;
    const isLong = isLarge && leaves === 1 && (repetitions === 0 || canUnpack(chunk));
    const last = bands.at(-1);
    if (last === undefined || last.long !== undefined || isLong)
      bands.push({ first, end: first + 1, long: isLong ? column : undefined });
    else bands[bands.length - 1] = { ...last, end: first + 1 };
  }
  return bands;
}

function* wholeColumns(
  { file, footer, decode }: ParquetSource,
  group: RowGroup,
  { first, end }: Band,
  batchSize: number,
): Generator<RecordBatch, void> {
  const last = footer.columns[end - 1];
  const leaves = last === undefined ? 0 : last.firstLeaf + last.leaves;
  const all = group.chunks.slice(footer.columns[first]?.firstLeaf, leaves).map((chunk): LeafPages => {
    const dictionary = chunk.dictionaryBytes === 0 ? [] : [inFile(file, chunk.offset, chunk.dictionaryBytes)];
    const data = inFile(file, chunk.offset + chunk.dictionaryBytes, chunk.bytes - chunk.dictionaryBytes);
    return { chunk, codec: chunk.codec, dictionary, data: [data] };
  });
  yield* batchesOf(decode, footer.fileOf(first, end, group.rows, all), { batchSize }, group.rows);
}

function* longColumn(
  { file, footer, decode }: ParquetSource,
  group: RowGroup,
  { first, end }: Band,
  { firstLeaf, repetitions }: NonNullable<Band['long']>,
  batchSize: number,
): Generator<RecordBatch, void> {
  const chunk = chunkAt(group, firstLeaf);
  const { dictionary, codec, rest } = pagesOfChunk(file, chunk, repetitions);
  const stretches = new Stretches(rest);
  const bytesOfBatch = (Math.max(chunk.bytes, chunk.unpackedBytes) / Math.max(1, group.rows)) * batchSize;
  const batches = Math.max(1, Math.min(mostBatchesOfStretch, Math.floor(stretchBytes / bytesOfBatch)));
  for (let row = 0; row < group.rows; row += batches * batchSize) {
    const rows = Math.min(batches * batchSize, group.rows - row);
    const { data, offset, rowsOfPages } = stretches.of(row, row + rows);
    const small = footer.fileOf(first, end, rowsOfPages, [{ chunk, codec, dictionary, data }]);
    yield* batchesOf(decode, small, { batchSize, offset, limit: rows }, rows);
  }
}

/** Holds the pages that have some rows, of rows that go on from where the last ended. */
class Stretches {
  readonly #pages: Iterator<ChunkPage, void>;
  #held: readonly ChunkPage[] = [];
  #next: IteratorResult<ChunkPage, void>;

  constructor(pages: Iterator<ChunkPage, void>) {
    this.#pages = pages;
    this.#next = pages.next();
  }

  /** `offset` are the rows of the pages that are before `row`. */
  of(row: number, end: number) {
    while (!this.#next.done && hasRowsBefore(this.#next.value, end)) {
      this.#held = [...this.#held, this.#next.value];
      this.#next = this.#pages.next();
    }
    const { held = [], done = [] } = Object.groupBy(this.#held, (page) =>
      page.rowsBefore + page.rows > row ? 'held' : 'done',
    );
    for (const page of done) page.free();
    this.#held = held;
    const [first] = this.#held;
    if (first === undefined || first.rowsBefore > row) throw invalidInput('a column has fewer rows than its row group');
    const extra = Number(first.isContinuation);
    const rowsOfPages = this.#held.reduce((sum, { rows }) => sum + rows, extra);
    const data = this.#held.flatMap((page) => page.bytes(page === first));
    return { data, offset: row - first.rowsBefore + extra, rowsOfPages };
  }
}

/** A page that begins with the end of the last of them counts too. */
const hasRowsBefore = ({ rowsBefore, isContinuation }: ChunkPage, end: number): boolean =>
  rowsBefore < end || (rowsBefore === end && isContinuation);

function* batchesOf(
  decode: typeof readParquet,
  file: Buffer,
  options: Parameters<typeof readParquet>[1],
  rows: number,
): Generator<RecordBatch, void> {
  using table = decode(file, options);
  freeMemory(file); // the decoder has a copy
  let read = 0;
  for (const batch of table.recordBatches()) {
    read += batch.numRows;
    yield batch;
  }
  if (read !== rows) throw invalidInput(`a column has ${read} rows where ${rows} belong`);
}
