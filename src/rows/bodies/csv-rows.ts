/** Cuts CSV into rows (RFC 4180). The first line names the columns, unless it is a row. */
import { once } from 'node:events';
import { CsvError, type Parser, parse } from 'csv-parse';
import type { Schema } from '../../arrow/schema/schema.ts';
import { invalidInput } from '../../kernel/errors.ts';
import { decoder, mostRowBytes, type Row, type RowSource, rowTooLong, type TakeRow } from './row-source.ts';

/** Stands for a cell that is not UTF-8. */
const notText = Symbol('not UTF-8');

type CsvRead = { readonly record: Cells; readonly info: { readonly lines: number } } | null;

type Cells = readonly (string | null | typeof notText)[];

interface CsvOf {
  readonly table: Schema | undefined;
  readonly delimiter: string;
  readonly hasHeader: boolean;
}

/**
 * A cell without text is NULL, and one of two quotation marks an empty text. Lines without text are passed over, but where there is one
 * column each is a row.
 */
export class CsvRows implements RowSource {
  readonly #parser: Parser;
  #columns: readonly string[] | undefined;
  /** The last row ends on it. */
  #line = 0;
  #failure: Error | undefined;
  readonly #take: TakeRow;
  readonly #delimiter: string;
  readonly #hasHeader: boolean;
  /** It counts semicolons and tabs of the first line outside of quotation marks. */
  #otherMarks = 0;

  /** Without `header`, the columns are those of the table in its order, and of a new one c1, c2 and so on. */
  constructor({ table, delimiter, hasHeader }: CsvOf, take: TakeRow) {
    this.#parser = parse({
      delimiter,
      encoding: 'latin1', // each cell is decoded by itself, so that a refusal knows its row
      max_record_size: mostRowBytes,
      relax_column_count: true, // a row of another length is refused here, or left out
      info: true,
      cast: (text, { quoting, records }) => {
        if (records === 0 && !quoting) this.#otherMarks += marksIn(text);
        return text === '' && !quoting ? null : decoded(text);
      },
    });
    this.#delimiter = delimiter;
    this.#take = take;
    this.#hasHeader = hasHeader;
    if (!hasHeader) this.#columns = table?.fields.map(({ name }) => name);
    this.#parser.on('error', (error) => {
      this.#failure = error;
    });
  }

  async push(bytes: Uint8Array): Promise<void> {
    this.#parser.write(Buffer.from(bytes));
    this.#read();
    // What the parser refuses is thrown where its rows are read.
    if (this.#parser.writableNeedDrain && !this.#parser.destroyed)
      await once(this.#parser, 'drain').catch(() => undefined);
    this.#read();
  }

  async end(): Promise<void> {
    this.#parser.end();
    this.#read();
    while (!this.#parser.readableEnded && this.#failure === undefined) {
      await new Promise((resolve) => setImmediate(resolve));
      this.#read();
    }
    this.#require();
    if (this.#columns === undefined && this.#hasHeader)
      throw invalidInput('the CSV has no line with the names of its columns');
  }

  #read(): void {
    this.#require();
    const next = () => this.#parser.read() as CsvRead;
    for (let read = next(); read !== null; read = next()) {
      const { record: cells, info } = read;
      this.#line = info.lines;
      const isEmpty = cells.length === 1 && cells[0] === null;
      if (isEmpty && this.#columns?.length !== 1) continue;
      if (this.#columns === undefined) {
        this.#columns = this.#hasHeader ? this.#namesIn(cells) : cells.map((_, i) => `c${i + 1}`);
        if (this.#hasHeader) continue;
      }
      const columns = this.#columns;
      this.#take(() => rowOf(columns, cells, info.lines));
    }
  }

  /** A first line with as many other marks as commas would become wrong columns in silence. */
  #namesIn(cells: Cells): readonly string[] {
    const commas = cells.length - 1;
    if (this.#delimiter === ',' && this.#otherMarks > 0 && this.#otherMarks >= commas) {
      const counted = commas === 0 ? 'no comma' : countOf(commas, 'comma');
      throw invalidInput(`the first line has semicolons or tabs and ${counted}; ${separated}`);
    }
    return namesIn(cells);
  }

  #require(): void {
    const error = this.#failure;
    if (error === undefined) return;
    const place = `line ${this.#line + 1}`;
    if (!(error instanceof CsvError)) throw error;
    if (error.code === 'CSV_MAX_RECORD_SIZE') throw rowTooLong(place);
    // Where the line is cut into too few cells, a quotation mark seems to stand inside of one.
    const hint = this.#delimiter === ',' && marksIn(String(error.field)) > 0 ? `; ${separated}` : '';
    throw invalidInput(`${place}: ${faults[error.code] ?? 'it is not CSV'}${hint}`);
  }
}

/** The row ends on `lastLine`: a cell may hold line breaks. */
function rowOf(columns: readonly string[], cells: Cells, lastLine: number): Row {
  const breaks = cells.reduce(
    (sum, cell) => sum + (typeof cell === 'string' && cell.includes('\n') ? cell.split('\n').length - 1 : 0),
    0,
  );
  const place = `line ${lastLine - breaks}`;
  if (cells.includes(notText)) throw invalidInput(`${place}: the text is not UTF-8`);
  if (cells.length !== columns.length) {
    throw invalidInput(
      `${place}: it has ${countOf(cells.length, 'cell')}, and there are ${countOf(columns.length, 'column')}`,
    );
  }
  return { values: Object.fromEntries(columns.map((name, i) => [name, cells[i]])), place };
}

const countOf = (count: number, what: string): string => `${count} ${what}${count === 1 ? '' : 's'}`;

function decoded(cell: string): string | typeof notText {
  if (!/[\u0080-\u00ff]/.test(cell)) return cell;
  try {
    return decoder.decode(Buffer.from(cell, 'latin1'));
  } catch {
    return notText;
  }
}

const faults: Readonly<Record<string, string>> = {
  CSV_QUOTE_NOT_CLOSED: 'a quotation mark is opened and not closed',
  CSV_INVALID_CLOSING_QUOTE: 'something follows a closing quotation mark',
  INVALID_OPENING_QUOTE: 'a quotation mark stands inside a cell that does not begin with one',
};

/** Counts the marks that separate cells in files without commas. */
const marksIn = (text: string): number => text.match(/[;\t]/g)?.length ?? 0;

const separated = 'cells are separated by commas, or by what load gets as --delimiter';

function namesIn(cells: Cells): readonly string[] {
  if (cells.includes(notText)) throw invalidInput('the first line: the text is not UTF-8');
  // pandas and R number the rows in a first column without a name: it is called as in CSV without a header.
  const names = cells.map((name, i) => String(name ?? '') || (i === 0 && cells.length > 1 ? 'c1' : ''));
  const columns = new Map<string, number>();
  for (const [i, name] of names.entries()) {
    if (name === '') throw invalidInput(`the first line: column ${i + 1} of ${names.length} has no name`);
    const before = columns.get(name);
    if (before !== undefined)
      throw invalidInput(`the first line: columns ${before} and ${i + 1} are both named ${JSON.stringify(name)}`);
    columns.set(name, i + 1);
  }
  return names;
}
