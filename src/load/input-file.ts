/** Opens files of rows, finds the format of each by how it begins and by its name, and gives its bytes in pieces of one size. */
import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { extname } from 'node:path';
import { Readable } from 'node:stream';
import { createGunzip, createZstdDecompress } from 'node:zlib';
import { magicAtEnd } from '../arrow/format/message.ts';
import { invalidInput } from '../kernel/errors.ts';

export const inputFormats = ['csv', 'csv-without-header', 'json', 'ndjson', 'arrow', 'parquet'] as const;
export type InputFormat = (typeof inputFormats)[number];

export interface InputFile extends AsyncDisposable {
  readonly name: string;
  /** The standard input has none. */
  readonly path: string | undefined;
  readonly format: InputFormat;
  /** Cells of CSV are divided by it. */
  readonly delimiter: string;
  /** Undefined for a pipe, until its end. */
  readonly totalBytes: number | undefined;
  /** So many of `totalBytes` were read. */
  readonly bytesRead: number;
  /** All pieces but the last are as long as each other, whatever the reads were. */
  pieces(): AsyncIterable<Uint8Array>;
  /** What was read of a file that `isReadTwice` comes once more. */
  rewind(): void;
}

const pieceBytes = 64 << 10;
const headBytes = 4 << 10;

/** Where it is undefined, how the file begins decides, and its name. */
export interface SaidOfFile {
  readonly format: InputFormat | undefined;
  readonly delimiter?: string | undefined;
}

interface InputPlace extends SaidOfFile {
  readonly name: string;
  readonly path: string | undefined;
  readonly isReadTwice?: boolean;
  readonly stdin: AsyncIterable<Uint8Array>;
}

export async function openInput({ stdin, ...input }: InputPlace): Promise<InputFile> {
  const { path } = input;
  if (path === undefined) return Input.begin({ ...input, source: stdin, totalBytes: undefined, handle: undefined });
  const handle = await open(path, constants.O_RDONLY);
  try {
    const stat = await handle.stat();
    if (stat.isDirectory()) throw invalidInput('it is a folder');
    const source = handle.createReadStream({ highWaterMark: pieceBytes, autoClose: false });
    return await Input.begin({ ...input, source, totalBytes: stat.isFile() ? stat.size : undefined, handle });
  } catch (error) {
    await handle.close();
    throw error;
  }
}

interface InputSource extends Omit<InputPlace, 'stdin'> {
  readonly source: AsyncIterable<Uint8Array>;
  readonly totalBytes: number | undefined;
  readonly handle: FileHandle | undefined;
}

class Input implements InputFile {
  readonly name: string;
  readonly path: string | undefined;
  readonly delimiter: string;
  readonly totalBytes: number | undefined;
  bytesRead = 0;
  format: InputFormat = 'csv';
  readonly #handle: FileHandle | undefined;
  readonly #source: AsyncIterator<Uint8Array>;
  #isPacked = false;
  /** These pieces of the source were taken, and come next. */
  readonly #first: Uint8Array[] = [];
  #kept: Uint8Array[] | undefined;

  constructor({ name, path, delimiter, source, totalBytes, handle, isReadTwice }: InputSource) {
    this.name = name;
    this.path = path;
    this.delimiter = delimiter ?? (extensionOf(name) === '.tsv' ? '\t' : ',');
    this.totalBytes = totalBytes;
    this.#handle = handle;
    this.#kept = isReadTwice ? [] : undefined;
    this.#source = this.#unpacked(this.#counted(source))[Symbol.asyncIterator]();
  }

  static async begin(source: InputSource): Promise<Input> {
    const input = new Input(source);
    const head = await input.#head();
    input.format = source.format ?? formatOf(head, source.name);
    const isText = input.format !== 'arrow' && input.format !== 'parquet';
    if (input.#isPacked && source.path !== undefined && !isText)
      throw invalidInput('it is packed as a whole, which only files of text may be: unpack it first');
    return input;
  }

  async *pieces(): AsyncGenerator<Uint8Array> {
    let held: Uint8Array[] = [];
    let bytes = 0;
    for await (const piece of this.#all()) {
      held.push(piece);
      bytes += piece.length;
      if (bytes < pieceBytes) continue;
      const joined = Buffer.concat(held);
      const whole = joined.length - (joined.length % pieceBytes);
      for (let at = 0; at < whole; at += pieceBytes) yield joined.subarray(at, at + pieceBytes);
      held = [joined.subarray(whole)];
      bytes = joined.length - whole;
    }
    if (bytes > 0) yield Buffer.concat(held);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#source.return?.();
    await this.#handle?.close();
  }

  async #head(): Promise<Buffer> {
    let bytes = 0;
    while (bytes < headBytes) {
      const { done, value } = await this.#source.next();
      if (done) break;
      this.#first.push(value);
      bytes += value.length;
    }
    return Buffer.concat(this.#first);
  }

  async *#all(): AsyncGenerator<Uint8Array> {
    for (;;) {
      const first = this.#first.shift();
      const { done, value } = first === undefined ? await this.#source.next() : { done: false, value: first };
      if (done) return;
      this.#kept?.push(value);
      yield value;
    }
  }

  rewind(): void {
    this.#first.unshift(...(this.#kept ?? []));
    this.#kept = undefined;
  }

  async *#counted(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const piece of source) {
      this.bytesRead += piece.length;
      yield piece;
    }
  }

  /** Files that are packed by gzip or zstd are known by how they begin. */
  async *#unpacked(source: AsyncGenerator<Uint8Array>): AsyncGenerator<Uint8Array> {
    const first = await source.next();
    if (first.done) return;
    const all = following(first.value, source);
    const packing = packings.find(({ begins }) => begins.equals(first.value.subarray(0, begins.length)));
    if (packing === undefined) {
      yield* all;
      return;
    }
    this.#isPacked = true;
    const unpacked = packing.unpack();
    Readable.from(all)
      .on('error', (error) => unpacked.destroy(error))
      .pipe(unpacked);
    try {
      yield* unpacked;
    } catch (cause) {
      throw invalidInput(`it cannot be unpacked by ${packing.name} after ${this.bytesRead} bytes`, cause);
    }
  }
}

async function* following(first: Uint8Array, rest: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield first;
  yield* rest;
}

const packings = [
  { name: 'gzip', begins: Buffer.from([0x1f, 0x8b]), unpack: createGunzip },
  { name: 'zstd', begins: Buffer.from([0x28, 0xb5, 0x2f, 0xfd]), unpack: createZstdDecompress },
];

const extensionOf = (name: string): string => extname(name.replace(/\.(gz|zst)$/i, '')).toLowerCase();

const formatsByExtension: Readonly<Record<string, InputFormat>> = {
  '.json': 'json',
  '.ndjson': 'ndjson',
  '.jsonl': 'ndjson',
  '.csv': 'csv',
  '.tsv': 'csv',
  '.parquet': 'parquet',
  '.arrow': 'arrow',
  '.arrows': 'arrow',
  '.feather': 'arrow',
};

/** People take files for tables that begin so. */
const otherFiles = [
  { begins: 'PK\u0003\u0004', what: 'a ZIP archive, as workbooks of spreadsheets are' },
  { begins: 'BZh', what: 'compressed with bzip2, and gzip and zstd alone are read' },
  { begins: '\u00fd7zXZ', what: 'compressed with xz, and gzip and zstd alone are read' },
  { begins: 'SQLite format 3', what: 'a database of SQLite' },
  { begins: 'Obj\u0001', what: 'Avro' },
  { begins: 'ORC', what: 'ORC' },
  { begins: 'FEA1', what: 'Feather of version 1, and version 2 alone is read' },
  { begins: '\u00ff\u00fe', what: 'text of UTF-16, and UTF-8 alone is read' },
  { begins: '\u00fe\u00ff', what: 'text of UTF-16, and UTF-8 alone is read' },
];

const streamMarker = Buffer.from([255, 255, 255, 255]);

/** JSON of either kind is told apart by how it begins, whatever its name says. */
export function formatOf(head: Buffer, name: string): InputFormat {
  if (head.subarray(0, 4).equals(Buffer.from('PAR1'))) return 'parquet';
  if (head.subarray(0, magicAtEnd.length).equals(magicAtEnd) || head.subarray(0, 4).equals(streamMarker))
    return 'arrow';
  if (head.includes(0)) {
    const other = otherFiles.find(({ begins }) => head.toString('latin1', 0, begins.length) === begins);
    throw invalidInput(`it is ${other?.what ?? 'no text, and begins neither as Arrow nor as Parquet does'}`);
  }
  const [, first] = /^\ufeff?\s*(\S)/.exec(head.toString('utf8', 0, 1_024)) ?? [];
  const extension = extensionOf(name);
  const named = formatsByExtension[extension];
  const isBinary = named === 'parquet' || named === 'arrow';
  const isCsv = (named === undefined || isBinary) && first !== undefined && !'[{'.includes(first);
  const text = named === 'csv' || isCsv ? 'csv' : first === '[' ? 'json' : 'ndjson';
  if (!isBinary) return text;
  const what = first === undefined ? 'is empty' : `looks like ${text}: with --format ${text}, load reads it`;
  throw invalidInput(`its name ends in ${extension}, but it does not begin as such a file does, and ${what}`);
}
