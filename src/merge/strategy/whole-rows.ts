/**
 * Whole rows out of the rows of a source that sends some of the columns: the others are read at the addresses of the rows that it
 * updates, and are NULL in rows that are new.
 */

import { RowPlaces } from '../../arrow/column/batch-plan.ts';
import { type ColumnData, wordsOf } from '../../arrow/column/column-data.ts';
import { type Field, type IpcChunk, leastRowBytes, type Schema } from '../../arrow/schema/schema.ts';
import { sameType } from '../../arrow/schema/schema-rules.ts';
import { assembleRows, type ColumnOrigin } from '../../arrow/stream/assembled-rows.ts';
import { canEncode, DictionaryFull, EncodedColumns } from '../../arrow/stream/encoded-columns.ts';
import { chunkOfFile } from '../../arrow/stream/ipc-chunks.ts';
import type { ColumnView, TableColumns } from '../../engine/port/column-view.ts';
import type { RowAddressSql } from '../../engine/port/row-address.ts';
import { LancegateError } from '../../kernel/errors.ts';
import { pairedInEach } from '../../kernel/paired.ts';

/** A row to be written. */
export interface RowToWrite {
  /** Its number in the source. */
  readonly source: number;
  /** It updates the row at this address; undefined where it is new. */
  readonly old: RowAddressSql | undefined;
}

/** These columns of the table as they were before the merge. */
type OpenView = (columns: readonly string[]) => Promise<ColumnView>;

/** What the engine does with so many columns takes no longer for each than with one. */
const columnsPerView = 128;
/** The engine's merge takes time that grows with the square of the columns, and with twice as many its recursion ends the process. */
const mostColumnsOfEngine = 128;
/** What is read for rows that are written at once. */
const mostBytesRead = 64 * 2 ** 20;
const mostRowsAtOnce = 8_192;

/** Columns and the fields in them, of which the engine takes as long as of columns. */
const countFields = (fields: readonly Field[]): number =>
  fields.reduce((sum, { children }) => sum + 1 + countFields(children), 0);

export const isWide = ({ fields }: Schema): boolean => countFields(fields) > mostColumnsOfEngine;

/** The rows to write take more memory than a merge may have at once, or the engine reads a column as another type than it stores. */
export class NotAssembled extends Error {
  readonly why: 'too much at once' | 'other columns';

  constructor(why: 'too much at once' | 'other columns') {
    super(why);
    this.why = why;
  }
}

/** Its user discards it. */
export class WholeRows {
  readonly #table: TableColumns;
  readonly #read = new EncodedColumns();
  readonly #sent: readonly (readonly [field: Field, batches: readonly ColumnData[]])[];
  readonly #places: (readonly [batch: number, row: number])[] = [];
  readonly #openView: OpenView;
  readonly #views: { readonly fields: readonly Field[]; readonly view: ColumnView }[] = [];

  /** `chunk` fits the table. */
  constructor(chunk: IpcChunk, table: TableColumns, openView: OpenView) {
    this.#table = table;
    this.#openView = openView;
    const batches = this.#read.read(chunk);
    const ofBatches = batches.map(({ columns }) => columns);
    this.#sent = pairedInEach(chunk.schema.fields, ofBatches);
    for (const [batch, { rows }] of batches.entries())
      for (let row = 0; row < rows; row++) this.#places.push([batch, row]);
  }

  static areFor(chunk: IpcChunk, { schema }: TableColumns): boolean {
    return canEncode(chunk.schema.fields) && canEncode(schema.fields);
  }

  /** The rows come in their order, part by part: each part takes little memory at once. */
  async *parts(rows: readonly RowToWrite[]): AsyncGenerator<IpcChunk, void, void> {
    const perRow = Math.max(1, leastRowBytes(this.#table.schema));
    let most = Math.max(1, Math.min(mostRowsAtOnce, Math.floor(mostBytesRead / 4 / perRow)));
    for (let at = 0; at < rows.length; ) {
      const part = rows.slice(at, at + most);
      try {
        yield await this.#assembled(part, part.length === 1 ? Number.POSITIVE_INFINITY : mostBytesRead);
        at += part.length;
      } catch (error) {
        if (!(error instanceof NotAssembled) || error.why === 'other columns') throw error;
        most = Math.ceil(part.length / 2);
      }
    }
  }

  /** All of them at once. Throws `NotAssembled`. */
  async whole(rows: readonly RowToWrite[]): Promise<IpcChunk> {
    if (rows.length * leastRowBytes(this.#table.schema) > mostBytesRead) throw new NotAssembled('too much at once');
    return this.#assembled(rows, mostBytesRead);
  }

  discard(): void {
    for (const { view } of this.#views) view.discard();
  }

  async #assembled(rows: readonly RowToWrite[], mostBytes: number): Promise<IpcChunk> {
    const places = new RowPlaces(rows.map(({ source }) => this.#places[source]));
    const origins = new Map<string, ColumnOrigin>(this.#sent.map(([{ name }, batches]) => [name, { batches, places }]));
    const nowhere = { batches: [], places: new RowPlaces(rows.map(() => undefined)) };
    const old = rows.flatMap((row) => row.old ?? []);
    let bytes = 0;
    if (old.length > 0) await this.prepare();
    for (const { fields, view } of old.length === 0 ? [] : this.#views) {
      const stored = new StoredRows(fields, this.#read);
      for await (const file of view.take(old)) {
        bytes += file.length;
        if (bytes > mostBytes) throw new NotAssembled('too much at once');
        stored.add(chunkOfFile(file));
      }
      for (const [name, origin] of stored.origins(rows)) origins.set(name, origin);
    }
    const encoding = this.#read.encoding();
    try {
      return assembleRows(this.#table, rows.length, ({ name }) => origins.get(name) ?? nowhere, encoding);
    } catch (error) {
      throw error instanceof DictionaryFull ? new NotAssembled('too much at once') : error;
    }
  }

  /** Rows are read as they are when this is first called. */
  async prepare(): Promise<void> {
    if (this.#views.length > 0) return;
    const sent = new Set(this.#sent.map(([{ name }]) => name));
    const rest = this.#table.schema.fields.filter(({ name }) => !sent.has(name));
    for (let at = 0; at < rest.length; at += columnsPerView) {
      const fields = rest.slice(at, at + columnsPerView);
      this.#views.push({ fields, view: await this.#openView(fields.map(({ name }) => name)) });
    }
  }
}

/** Rows that were read by their addresses, with some of the columns. */
class StoredRows {
  readonly #fields: readonly Field[];
  readonly #read: EncodedColumns;
  readonly #batches: (readonly ColumnData[])[] = [];
  readonly #places = new Map<bigint, readonly [batch: number, row: number]>();

  constructor(fields: readonly Field[], read: EncodedColumns) {
    this.#fields = fields;
    this.#read = read;
  }

  /** The chunk has these columns, and the addresses behind them. */
  add(chunk: IpcChunk): void {
    const [addresses, ...read] = chunk.schema.fields.toReversed();
    const isSame = addresses?.name === '_rowid' && read.reverse().every((field, i) => isAs(field, this.#fields[i]));
    for (const { rows, columns } of this.#read.read(chunk)) {
      const last = columns.at(-1);
      if (!isSame || last === undefined) throw new NotAssembled('other columns');
      const words = wordsOf(last, rows);
      for (let row = 0; row < rows; row++) this.#places.set(words[row]!, [this.#batches.length, row]);
      this.#batches.push(columns);
    }
  }

  *origins(rows: readonly RowToWrite[]): Generator<readonly [name: string, origin: ColumnOrigin], void> {
    const places = new RowPlaces(rows.map(({ old }) => (old === undefined ? undefined : this.#placeOf(old))));
    for (const [{ name }, batches] of pairedInEach(this.#fields, this.#batches)) yield [name, { batches, places }];
  }

  #placeOf(old: RowAddressSql): readonly [batch: number, row: number] {
    const place = this.#places.get(BigInt(old));
    if (place === undefined)
      throw new LancegateError('Internal', 'a row was not where it is stored; nothing was written');
    return place;
  }
}

const isAs = (read: Field, table: Field | undefined): boolean =>
  table !== undefined && read.name === table.name && sameType(read, table);
