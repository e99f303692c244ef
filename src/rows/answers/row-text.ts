/** Results as rows of JSON, NDJSON or CSV (RFC 4180), in parts as they come: no more than one batch is held. */
import { openBatch, openDictionary } from '../../arrow/column/batch-buffers.ts';
import { type ColumnData, readBatch } from '../../arrow/column/column-data.ts';
import { type IpcFile, readFooter } from '../../arrow/format/ipc-file.ts';
import { readSchemaTable } from '../../arrow/schema/read-schema.ts';
import { type Field, typeName } from '../../arrow/schema/schema.ts';
import type { TextFormat, VectorText } from '../answer-form.ts';
import { cellOf, isVector, objects, type WriteCell } from './cell-text.ts';
import { TextOut } from './text-out.ts';

/** A part has about so many bytes, and is never less than a row. */
const partBytes = 64 * 1024;

/** What stands before the first row, between two, and behind each. */
const around = {
  json: ['\n', ',\n', ''].map((text) => Buffer.from(text)),
  ndjson: ['', '', '\n'].map((text) => Buffer.from(text)),
  csv: ['', '', '\r\n'].map((text) => Buffer.from(text)),
} as unknown as Readonly<Record<TextFormat, readonly [first: Buffer, between: Buffer, behind: Buffer]>>;

export class RowText {
  readonly #format: TextFormat;
  readonly #vectors: VectorText;
  readonly #out = new TextOut(2 * partBytes);
  #isBegun = false;
  #rows = 0;

  constructor(format: TextFormat, vectors: VectorText) {
    this.#format = format;
    this.#vectors = vectors;
  }

  /** In the files so far. */
  get rows(): number {
    return this.#rows;
  }

  *add(file: IpcFile): Generator<Buffer, void, void> {
    const { schema, dictionaries, batches } = readFooter(file);
    const all = readSchemaTable(schema).fields;
    const fields = all.filter((field) => this.#vectors !== 'omit' || !isVector(field));
    if (!this.#isBegun) yield Buffer.from(this.#head(fields));
    this.#isBegun = true;
    const valuesOf = (field: Field): readonly ColumnData[] =>
      dictionaries
        .map((block) => openDictionary(file, block))
        .filter(({ id }) => id === field.dictionary?.id)
        .map(({ values }) => readBatch(values, [{ ...field, dictionary: undefined, nullable: true }])[0]!);
    for (const block of batches) {
      const batch = openBatch(file, block);
      const data = readBatch(batch, all);
      const cells = fields.map((field) =>
        cellOf(field, data[all.indexOf(field)]!, { vectors: this.#vectors, valuesOf }),
      );
      yield* this.#lines(this.#format === 'csv' ? csvLine(cells) : objects(fields, cells), batch.rows);
    }
  }

  *end(): Generator<Buffer, void, void> {
    if (this.#format === 'json') yield Buffer.from(this.#rows === 0 ? ']}\n' : '\n]}\n');
  }

  #head(fields: readonly Field[]): string {
    switch (this.#format) {
      case 'json': {
        const columns = fields.map((field) => ({ name: field.name, type: typeName(field) }));
        return `{"columns":${JSON.stringify(columns)},"rows":[`;
      }
      case 'ndjson':
        return '';
      case 'csv':
        return `${fields.map(({ name }) => csvText(name)).join()}\r\n`;
    }
  }

  *#lines(line: WriteCell, rows: number): Generator<Buffer, void, void> {
    for (let row = 0; row < rows; ) {
      row = this.#fill(line, row, rows);
      yield this.#out.take();
    }
  }

  /** Writes rows until a part is full. Answers the next row. */
  #fill(line: WriteCell, from: number, rows: number): number {
    const [first, between, behind] = around[this.#format];
    const out = this.#out;
    let row = from;
    for (; row < rows && out.at < partBytes; row++) {
      out.raw(this.#rows === 0 ? first : between);
      line(out, row);
      out.raw(behind);
      this.#rows += 1;
    }
    return row;
  }
}

const [comma, quote] = [0x2c, 0x22];

const csvLine =
  (cells: readonly WriteCell[]): WriteCell =>
  (out, row) => {
    for (let i = 0; i < cells.length; i++) {
      if (i > 0) out.byte(comma);
      const start = out.at;
      cells[i]!(out, row);
      toCsv(out, start);
    }
  };

/** Makes a cell of the JSON from `start` on. NULL is empty, an empty text a pair of quotation marks, and what is nested its JSON. */
function toCsv(out: TextOut, start: number): void {
  const first = out.bytes[start];
  if (first !== quote && first !== 0x5b && first !== 0x7b) {
    if (first === 0x6e) out.at = start;
    return;
  }
  if (first === quote && isPlain(out.bytes, start + 1, out.at - 1)) {
    out.bytes.copyWithin(start, start + 1, out.at - 1);
    out.at -= 2;
    return;
  }
  const json = out.bytes.toString('utf8', start, out.at);
  out.at = start;
  out.raw(Buffer.from(csvText(first === quote ? (JSON.parse(json) as string) : json)));
}

/** Whether a text stands in a cell without quotation marks, and without what JSON escapes. */
function isPlain(bytes: Uint8Array, start: number, end: number): boolean {
  for (let at = start; at < end; at++) {
    const byte = bytes[at];
    if (byte === comma || byte === 0x5c) return false;
  }
  return end > start;
}

const csvText = (text: string): string =>
  text === '' || /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
