/**
 * Reads the footer of a Parquet file, and makes small files of parts of it: some of its columns, and of those some pages, which the
 * decoder reads as if they were all there is.
 */
import { readSync } from 'node:fs';
import { asBuffer } from '../../arrow/format/ipc-file.ts';
import { type FlatTable, prefixBytes, readMessage } from '../../arrow/format/message.ts';
import { schemaOfFields } from '../../arrow/schema/copied-schema.ts';
import { invalidInput } from '../../kernel/errors.ts';
import { Thrift } from './thrift.ts';

const magic = Buffer.from('PAR1');
const keyOfArrowSchema = 'ARROW:schema';

/** A column of the table may have several leaves. */
interface ParquetColumn {
  /** These are its elements of the schema, itself first. */
  readonly elements: readonly Thrift[];
  /** The number in the file of its first leaf, and how many leaves it has. */
  readonly firstLeaf: number;
  readonly leaves: number;
  /** How many of its elements are lists. */
  readonly repetitions: number;
}

/** A chunk has the values of one leaf in one row group. */
export interface Chunk {
  readonly metadata: Thrift;
  readonly codec: number;
  /** Its pages begin there in the file, and are together so long. */
  readonly offset: number;
  readonly bytes: number;
  /** The first page has so many, where it is a dictionary. */
  readonly dictionaryBytes: number;
  readonly unpackedBytes: number;
}

export interface RowGroup {
  readonly rows: number;
  readonly chunks: readonly Chunk[];
}

/** The bytes stay where they are until a small file takes them. */
export interface BytesToCopy {
  readonly length: number;
  copyTo(target: Buffer): void;
}

/** A small file gets these pages of a leaf. */
export interface LeafPages {
  readonly chunk: Chunk;
  /** The pages are packed with what has this number. */
  readonly codec: number;
  readonly dictionary: readonly BytesToCopy[];
  readonly data: readonly BytesToCopy[];
}

export class ParquetFooter {
  readonly columns: readonly ParquetColumn[];
  readonly groups: readonly RowGroup[];
  readonly #metadata: Thrift;
  readonly #arrowFields: ReturnType<typeof arrowFieldsOf>;

  private constructor(metadata: Thrift) {
    this.#metadata = metadata;
    this.columns = columnsOf(metadata.structs(2));
    this.groups = metadata.structs(4).map(groupOf);
    this.#arrowFields = arrowFieldsOf(metadata);
  }

  static read(file: number, fileBytes: number): ParquetFooter {
    const tail = bytesAt(file, Math.max(0, fileBytes - 8), Math.min(8, fileBytes));
    if (tail.length < 8 || !tail.subarray(4).equals(magic)) throw invalidInput('it does not end as a Parquet file');
    const length = tail.readUInt32LE(0);
    if (length > fileBytes - 8) throw invalidInput('it is longer than the file');
    return new ParquetFooter(Thrift.read(bytesAt(file, fileBytes - 8 - length, length)).struct);
  }

  /** Whether some of the columns can be read without the others. */
  get canBeDivided(): boolean {
    const fields = this.#arrowFields;
    return fields === undefined || (fields !== 'damaged' && fields.length === this.columns.length);
  }

  /** Makes a file without rows, which has all columns and what is said of them. */
  emptyFile(): Buffer {
    return fileOf(this.#metadata.only(1, 2, 5, 6).withInt64(3, 0).withStructs(4, []), []);
  }

  /** Makes a file of the columns from `first` to before `end`, with one row group of at most `rows` rows. */
  fileOf(first: number, end: number, rows: number, leaves: readonly LeafPages[]): Buffer {
    const isWhole = first === 0 && end === this.columns.length;
    const [root = Thrift.empty] = this.#metadata.structs(2);
    const columns = this.columns.slice(first, end);
    const elements = [root.withInt32(5, columns.length), ...columns.flatMap((column) => column.elements)];
    const said = this.#metadata.only(1, 6).withStructs(2, elements).withInt64(3, rows);
    const keyed = isWhole ? this.#metadata.only(5) : Thrift.empty.withStructs(5, this.#keyValues(first, end));
    const { group, bytes } = groupWith(rows, leaves);
    return fileOf(said.with(keyed).withStructs(4, [group]), bytes);
  }

  /** The fields of some columns point into a copy of the message that they are in. */
  #keyValues(first: number, end: number): readonly Thrift[] {
    if (this.#arrowFields === undefined || this.#arrowFields === 'damaged') return [];
    const value = schemaOfFields(this.#arrowFields.slice(first, end)).toString('base64');
    return [Thrift.empty.withBytes(1, Buffer.from(keyOfArrowSchema)).withBytes(2, Buffer.from(value))];
  }
}

/** Reads `length` bytes of the file, or those up to its end. */
export function bytesAt(file: number, offset: number, length: number): Buffer {
  const bytes = Buffer.allocUnsafeSlow(length);
  return bytes.subarray(0, readInto(bytes, file, offset));
}

function readInto(bytes: Buffer, file: number, offset: number): number {
  let at = 0;
  for (let read = -1; at < bytes.length && read !== 0; at += read) {
    read = readSync(file, bytes, at, bytes.length - at, offset + at);
  }
  return at;
}

export const inFile = (file: number, offset: number, length: number): BytesToCopy => ({
  length,
  copyTo: (target) => {
    if (readInto(target, file, offset) < length) throw invalidInput('the file is too short');
  },
});

export const inMemory = (bytes: Uint8Array): BytesToCopy => ({
  length: bytes.length,
  copyTo: (target) => target.set(bytes),
});

function fileOf(metadata: Thrift, pages: readonly BytesToCopy[]): Buffer {
  const footer = metadata.written();
  const length = Buffer.alloc(4);
  length.writeUInt32LE(footer.length);
  const all = [inMemory(magic), ...pages, ...[footer, length, magic].map(inMemory)];
  const bytes = Buffer.allocUnsafeSlow(sumOf(all));
  let at = 0;
  for (const each of all) {
    each.copyTo(bytes.subarray(at, at + each.length));
    at += each.length;
  }
  return bytes;
}

function groupWith(rows: number, leaves: readonly LeafPages[]) {
  const bytes: BytesToCopy[] = [];
  let at = magic.length;
  const chunks = leaves.map(({ chunk, codec, dictionary, data }) => {
    const start = at;
    const first = start + sumOf(dictionary);
    bytes.push(...dictionary, ...data);
    at = first + sumOf(data);
    const metadata = chunk.metadata
      .only(1, 2, 3, 5)
      .withInt32(4, codec)
      .withInt64(6, at - start)
      .withInt64(7, at - start)
      .withInt64(9, first);
    const placed = dictionary.length === 0 ? metadata : metadata.withInt64(11, start);
    return Thrift.empty.withInt64(2, start).withStruct(3, placed);
  });
  const group = Thrift.empty
    .withStructs(1, chunks)
    .withInt64(2, at - magic.length)
    .withInt64(3, rows);
  return { group, bytes };
}

const sumOf = (all: readonly BytesToCopy[]): number => all.reduce((sum, { length }) => sum + length, 0);

function columnsOf(elements: readonly Thrift[]): readonly ParquetColumn[] {
  const columns: ParquetColumn[] = [];
  const childrenOf = (element: Thrift | undefined): number => element?.number(5) ?? 0;
  let firstLeaf = 0;
  for (let at = 1; at < elements.length; ) {
    const start = at;
    for (let open = 1; open > 0 && at < elements.length; at += 1) open += childrenOf(elements[at]) - 1;
    const own = elements.slice(start, at);
    const leaves = own.filter((element) => childrenOf(element) === 0).length;
    // The third field of an element is 2 where it repeats.
    const repetitions = own.filter((element) => element.number(3) === 2).length;
    columns.push({ elements: own, firstLeaf, leaves, repetitions });
    firstLeaf += leaves;
  }
  if (columns.length !== childrenOf(elements[0])) throw invalidInput('its columns are not those of its schema');
  return columns;
}

function groupOf(group: Thrift): RowGroup {
  return { rows: sizeOf(group, 3), chunks: group.structs(1).map((chunk) => chunkOf(chunk.struct(3))) };
}

function chunkOf(metadata: Thrift | undefined): Chunk {
  if (metadata === undefined) throw invalidInput('it says nothing of a column');
  const pages = sizeOf(metadata, 9);
  const dictionary = metadata.number(11) ?? 0;
  const offset = dictionary > 0 && dictionary < pages ? dictionary : pages;
  const [bytes, unpackedBytes] = [sizeOf(metadata, 7), sizeOf(metadata, 6)];
  return { metadata, codec: sizeOf(metadata, 4), offset, bytes, dictionaryBytes: pages - offset, unpackedBytes };
}

export function sizeOf(struct: Thrift, id: number): number {
  const size = struct.number(id);
  if (size === undefined || size < 0 || !Number.isSafeInteger(size)) throw invalidInput('a size is missing or none');
  return size;
}

/** Arrow's writers keep their fields beside the schema of Parquet, which cannot say all types; `damaged` are those that cannot be read. */
function arrowFieldsOf(metadata: Thrift): readonly FlatTable[] | 'damaged' | undefined {
  const entry = metadata.structs(5).find((each) => each.bytes(1)?.toString() === keyOfArrowSchema);
  if (entry === undefined) return undefined;
  const message = asBuffer(Uint8Array.from(Buffer.from(entry.bytes(2)?.toString() ?? '', 'base64')));
  try {
    return [...readMessage(message.subarray(prefixBytes)).header.tables(1)];
  } catch {
    return 'damaged'; // compensated: the columns are read together, and the decoder says what it makes of it
  }
}
