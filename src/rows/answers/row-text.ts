/** Writes results as rows of JSON, NDJSON or CSV (RFC 4180), in parts as they come: no more than one batch is held. */
import { openBatch } from '../../arrow/column/batch-buffers.ts';
import { readBatch, readDictionary } from '../../arrow/column/column-data.ts';
import { type IpcFile, readFooter } from '../../arrow/format/ipc-file.ts';
import { readSchemaTable } from '../../arrow/schema/read-schema.ts';
import { type Field, typeName } from '../../arrow/schema/schema.ts';
import { paired } from '../../kernel/paired.ts';
import type { AnswerForm, RowFormat, VectorText } from '../answer-form.ts';
import { cellOf, isVector, ObjectText } from './cell-text.ts';
import type { Cell } from './column-cell.ts';
import { fixedText, TextOut } from './text-out.ts';

/** The memory of a large result is used again, since V8 would collect all garbage each time that so much of it has gathered. */
const buffers = 3;

/** The texts stand before the first row, between two, and behind each. */
const aroundLine = [fixedText(''), fixedText(''), fixedText('\r\n')] as const;
const around = {
  json: [fixedText('\n'), fixedText(',\n'), fixedText('')],
  ndjson: [fixedText(''), fixedText(''), fixedText('\n')],
  csv: aroundLine,
  'csv-without-header': aroundLine,
} as const;

type RowLine = ObjectText | CsvLine;

/** A part is good until `buffers - 1` more were asked for. */
export class RowText {
  readonly #format: RowFormat;
  readonly #isCsv: boolean;
  readonly #vectors: VectorText;
  readonly #partBytes: number;
  /** The first is small, as most results are. */
  readonly #outs = [new TextOut(16 * 1024)];
  #parts = 0;
  #isBegun = false;
  #rows = 0;

  /** Every part but the last has at least `partBytes`, and ends with a row. */
  constructor({ format, vectors }: Extract<AnswerForm, { readonly kind: 'text' }>, partBytes: number) {
    this.#format = format;
    this.#isCsv = format === 'csv' || format === 'csv-without-header';
    this.#vectors = vectors;
    this.#partBytes = partBytes;
  }

  get rows(): number {
    return this.#rows;
  }

  *add(file: IpcFile): Generator<Buffer, void, void> {
    const { schema, dictionaries, batches } = readFooter(file);
    const all = readSchemaTable(schema).fields;
    const isShown = (field: Field) => this.#vectors !== 'omit' || !isVector(field);
    const fields = all.filter(isShown);
    if (!this.#isBegun) this.#out.raw(Buffer.from(this.#head(fields)));
    this.#isBegun = true;
    const valuesOf = (field: Field) => readDictionary(file, dictionaries, field);
    for (const block of batches) {
      const batch = openBatch(file, block);
      const cells = paired(all, readBatch(batch, all)).flatMap(([field, data]) =>
        isShown(field) ? [cellOf(field, data, { vectors: this.#vectors, valuesOf })] : [],
      );
      yield* this.#lines(this.#isCsv ? new CsvLine(cells) : new ObjectText(fields, cells), batch.rows);
    }
  }

  *end(): Generator<Buffer, void, void> {
    if (this.#format === 'json') this.#out.ascii(this.#rows === 0 ? ']}\n' : '\n]}\n');
    yield this.#out.take();
  }

  get #out(): TextOut {
    const next = this.#parts % buffers;
    const out = this.#outs[next] ?? new TextOut(this.#partBytes * 1.25);
    this.#outs[next] = out;
    return out;
  }

  #head(fields: readonly Field[]): string {
    switch (this.#format) {
      case 'json': {
        const columns = fields.map((field) => ({ name: field.name, type: typeName(field) }));
        return `{"columns":${JSON.stringify(columns)},"rows":[`;
      }
      case 'ndjson':
      case 'csv-without-header':
        return '';
      case 'csv':
        return `${fields.map(({ name }) => csvText(name)).join()}\r\n`;
    }
  }

  *#lines(line: RowLine, rows: number): Generator<Buffer, void, void> {
    for (let row = this.#fill(line, 0, rows); row < rows; row = this.#fill(line, row, rows)) {
      const part = this.#out.take();
      this.#parts += 1;
      yield part;
    }
  }

  /** Writes rows until a part is full. Answers the next row. */
  #fill(line: RowLine, from: number, rows: number): number {
    const [first, between, behind] = around[this.#format];
    const out = this.#out;
    let row = from;
    for (; row < rows && out.at < this.#partBytes; row++) {
      out.fixed(this.#rows === 0 ? first : between);
      line.write(out, row);
      out.fixed(behind);
      this.#rows += 1;
    }
    return row;
  }
}

const [comma, quote] = [0x2c, 0x22];

class CsvLine {
  readonly #cells: readonly Cell[];

  constructor(cells: readonly Cell[]) {
    this.#cells = cells;
  }

  write(out: TextOut, row: number): void {
    const cells = this.#cells;
    for (let i = 0; i < cells.length; i++) {
      if (i > 0) out.byte(comma);
      const start = out.at;
      cells[i]!.write(out, row);
      toCsv(out, start);
    }
  }
}

/** Makes a cell of the JSON from `start` on. NULL is empty, an empty text a pair of quotation marks, and what is nested its JSON. */
function toCsv(out: TextOut, start: number): void {
  const first = out.bytes[start];
  if (first !== quote && first !== 0x5b && first !== 0x7b) {
    if (first === 0x6e) out.at = start;
    return;
  }
  if (first === quote && out.unquoted(start)) return;
  const json = out.bytes.toString('utf8', start, out.at);
  out.at = start;
  out.raw(Buffer.from(csvText(first === quote ? String(JSON.parse(json)) : json)));
}

const csvText = (text: string): string =>
  text === '' || /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
