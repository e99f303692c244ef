/**
 * Makes columns of Arrow and Parquet files those of the table, whose types decide how a value is read: an int32 fits a column of int64,
 * and so does a float64 that is whole. Each value goes by its JSON, by the rules of rows that come as text (docs/rows.md), so none becomes
 * another one unseen. What text cannot say is left as it is, and the service says whether it takes it. So is what a table could get room
 * for, where it may be extended: whether it has it already changes nothing, so a second run of a load sends the same bytes.
 */
import { openBatch, openDictionary } from '../arrow/column/batch-buffers.ts';
import { allRows, BatchPlan } from '../arrow/column/batch-plan.ts';
import { type ColumnData, isText, readBatch } from '../arrow/column/column-data.ts';
import { asBuffer, bytesOfMessage } from '../arrow/format/ipc-file.ts';
import { type FlatTable, prefixBytes, readMessage } from '../arrow/format/message.ts';
import { schemaOfFields } from '../arrow/schema/copied-schema.ts';
import { couldHold } from '../arrow/schema/extended-schema.ts';
import { elementOf, type Field, type Schema, typeName, valuesField } from '../arrow/schema/schema.ts';
import { schemaBytes } from '../arrow/schema/schema-bytes.ts';
import { paired } from '../kernel/paired.ts';
import { cellOf } from '../rows/answers/cell-text.ts';
import { TextOut } from '../rows/answers/text-out.ts';
import { ColumnMaker } from '../rows/bodies/column-maker.ts';
import { parseExactly } from '../rows/bodies/json-rows.ts';
import { blockOf, type RowMessage, schemaOfMessage } from './row-messages.ts';

export async function* fittedTo(
  table: Schema | undefined,
  messages: AsyncIterable<RowMessage>,
  isExtending = false,
): AsyncGenerator<RowMessage> {
  let fitting: FittingColumns | undefined;
  for await (const message of messages) {
    if (message.kind === 'schema' && table !== undefined)
      fitting = FittingColumns.of(message.bytes, table, isExtending);
    const fitted = fitting === undefined ? message : fitting.fit(message);
    if (fitted !== undefined) yield fitted;
  }
}

/** A column of a file becomes another one, or stays the same field. */
interface ColumnFit {
  readonly from: Field;
  readonly to: Field;
}

class FittingColumns {
  readonly #columns: readonly ColumnFit[];
  /** It has, by id, the dictionaries of columns that become others. */
  readonly #dictionaries = new Map<bigint, ColumnData[]>();
  #rows = 0;

  private constructor(columns: readonly ColumnFit[]) {
    this.#columns = columns;
    for (const { from, to } of columns)
      if (from !== to && from.dictionary) this.#dictionaries.set(from.dictionary.id, []);
  }

  /** Answers undefined where all columns stay as they are. */
  static of(schemaMessage: Uint8Array, table: Schema, isExtending: boolean): FittingColumns | undefined {
    const columns = schemaOfMessage(schemaMessage).fields.map((from): ColumnFit => {
      const to = table.fields.find(({ name }) => name === from.name);
      const isSame = to === undefined || typeName(to) === typeName(from) || (isExtending && couldHold(to, from));
      return isSame || !mayBecome(from, to) ? { from, to: from } : { from, to };
    });
    return columns.some(({ from, to }) => from !== to) ? new FittingColumns(columns) : undefined;
  }

  /** Answers undefined for the dictionary of a column that becomes one without. */
  fit(message: RowMessage): RowMessage | undefined {
    switch (message.kind) {
      case 'schema':
        return { ...message, bytes: this.#schema(message.bytes) };
      case 'dictionary batch':
        return this.#keep(message.bytes) ? undefined : message;
      case 'record batch': {
        const bytes = this.#batch(asBuffer(message.bytes));
        this.#rows += message.rows;
        return { ...message, bytes };
      }
    }
  }

  #schema(bytes: Uint8Array): Uint8Array {
    const schema = tableOf(bytes);
    const become = paired(this.#columns, [...schema.tables(1)]).flatMap(([{ from, to }, field]) =>
      from === to ? field : [...tableOf(schemaBytes([to])).tables(1)],
    );
    return schemaOfFields(become, schema);
  }

  #keep(bytes: Uint8Array): boolean {
    const message = asBuffer(Uint8Array.from(bytes));
    const { id, values } = openDictionary(message, blockOf(message));
    const known = this.#dictionaries.get(id);
    const column = this.#columns.find(({ from }) => from.dictionary?.id === id);
    if (known === undefined || column === undefined) return false;
    known.splice(0, known.length, ...readBatch(values, [valuesField(column.from)]));
    return true;
  }

  #batch(message: Buffer): Uint8Array {
    const batch = openBatch(message, blockOf(message));
    // Whether NULL may stand where it does is the service's matter.
    const fields = this.#columns.map(({ from }) => ({ ...from, nullable: true }));
    const read = readBatch(batch, fields);
    const plan = new BatchPlan();
    for (const [{ from, to }, data] of paired(this.#columns, read)) {
      const fitted = from === to ? data : this.#converted(from, data, to, batch.rows);
      plan.addColumn(to, [{ data: fitted, runs: allRows(batch.rows) }]);
    }
    return bytesOfMessage(plan.message(batch.rows));
  }

  #converted(from: Field, data: ColumnData, to: Field, rows: number): ColumnData {
    const valuesOf = ({ dictionary }: Field) => (dictionary && this.#dictionaries.get(dictionary.id)) ?? [];
    const cell = cellOf(from, data, { vectors: 'full', valuesOf });
    const out = new TextOut(1 << 16);
    for (let row = 0; row < rows; row++) {
      out.ascii(row === 0 ? '[' : ',');
      cell.write(out, row);
    }
    const values = rows === 0 ? [] : parseExactly(`${out.take().toString()}]`);
    const place = (row: number): string => `row ${this.#rows + row + 1}`;
    return new ColumnMaker({ place, isText: false, takesAny: false }).column(to, Array.isArray(values) ? values : []);
  }
}

const tableOf = (message: Uint8Array): FlatTable => readMessage(asBuffer(message).subarray(prefixBytes)).header;

const isBinary = ({ type }: Field): boolean => /binary$/.test(type.kind);
const isList = ({ type }: Field): boolean => type.kind === 'list' || type.kind === 'fixed_size_list';

/** Says whether the JSON of one is a value of the other, or might be. A text is one of its own, so no number or time becomes one. */
function mayBecome(from: Field, to: Field): boolean {
  if (to.dictionary !== undefined) return false;
  if (['struct', 'map', 'large_list', 'interval', 'null'].includes(to.type.kind)) return false;
  if (from.type.kind === 'null') return true;
  if (isList(to)) return isList(from) && mayBecome(elementOf(from), elementOf(to));
  if (isBinary(to)) return isBinary(from);
  if (isText(to.type)) return isText(from.type);
  return !isBinary(from) && !isList(from) && !['struct', 'map', 'large_list', 'interval'].includes(from.type.kind);
}
