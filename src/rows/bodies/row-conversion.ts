/**
 * Makes an Arrow IPC stream of a body of JSON, NDJSON or CSV, piece by piece. The first rows are held until it is known which columns
 * there are: those of a table have its types, and others the types of their values (docs/rows.md).
 */
import { allRows, BatchPlan } from '../../arrow/column/batch-plan.ts';
import { bytesOfMessage, endMarker } from '../../arrow/format/ipc-file.ts';
import { refuseColumn } from '../../arrow/schema/field-path.ts';
import type { Field, Schema } from '../../arrow/schema/schema.ts';
import { comesAsText, schemaBytes } from '../../arrow/schema/schema-bytes.ts';
import { typeForBoth } from '../../arrow/schema/wider-types.ts';
import { dictionaryMessage } from '../../arrow/stream/joined-dictionaries.ts';
import { invalidInput } from '../../kernel/errors.ts';
import { nearest } from '../../kernel/nearest-word.ts';
import { paired } from '../../kernel/paired.ts';
import { ndjsonTypes, type RowFormat, type TextFormat, textTypes } from '../answer-form.ts';
import { ColumnMaker } from './column-maker.ts';
import { CsvRows } from './csv-rows.ts';
import { writerOf } from './fixed-writers.ts';
import { JsonRows, NdjsonRows } from './json-rows.ts';
import { type LeftOut, orLeftOut, type Row, type RowSource, type TakeRow } from './row-source.ts';
import { SeenFields, type SeenValues } from './seen-values.ts';

/** These first rows decide which columns there are, and the types of new ones: this many, */
const firstRows = 10_000;
/** or fewer, if they have this many bytes. */
const firstBytes = 1 << 20;
/** How many bytes of text become one batch. */
const batchBytes = 256 << 10;
/** The most values of one batch. The values that the text of a row leaves out count too. */
const mostValues = 1 << 18;
/** Rows are read from so many bytes at once. */
const pieceBytes = 64 << 10;

/** JavaScript's values take so many times the bytes of their text at the most, those of empty lists. */
const valuesPerByte = 16;

/** Says how much the conversion of a body of this type holds at the most. */
export const conversionBytes = (contentType: string | undefined): number =>
  textFormatOf(contentType) === undefined ? 0 : valuesPerByte * (firstBytes + batchBytes);

function sourceOf({ format, delimiter = ',', table }: ConversionOf, take: TakeRow): RowSource {
  if (format === 'json') return new JsonRows(take);
  if (format === 'ndjson') return new NdjsonRows(take);
  return new CsvRows({ table, delimiter, hasHeader: format === 'csv' }, take);
}

interface ConversionOf {
  readonly format: RowFormat;
  /** CSV has one ASCII character, a comma where it is not given. */
  readonly delimiter?: string;
  /** The table that the rows are for; undefined makes the types of a new one. */
  readonly table?: Schema | undefined;
  /** Columns that the table lacks get the types of their values, and so do integers for which it has no room. */
  readonly isExtending?: boolean;
  /** Columns whose types are not to be inferred, by their names. Rows of JSON have them also where none of the first names them. */
  readonly given?: ReadonlyMap<string, Field> | undefined;
  readonly leftOut?: LeftOut;
  /** A column of texts takes any value as its JSON, which is how it is inferred for a new table; false where a table is given. */
  readonly takesAny?: boolean;
}

/** The rows of a body are counted from 1. */
interface NumberedRow extends Row {
  readonly number: number;
}

export class RowConversion {
  readonly #isCsv: boolean;
  readonly #source: RowSource;
  readonly #given: ReadonlyMap<string, Field>;
  readonly #table: Schema | undefined;
  readonly #leftOut: LeftOut;
  readonly #takesAny: boolean;
  readonly #isExtending: boolean;
  readonly #mark = new ByteOrderMark();
  #fields: readonly Field[] | undefined;
  #rows: NumberedRow[] = [];
  #lastRow = 0;
  #bytes = 0;

  constructor(conversion: ConversionOf) {
    const { format, table, given = new Map(), leftOut, takesAny = table === undefined } = conversion;
    this.#isExtending = conversion.isExtending === true;
    this.#isCsv = format !== 'json' && format !== 'ndjson';
    this.#source = sourceOf(conversion, (read) => {
      const number = this.#lastRow + 1;
      let isRow = true;
      const row = orLeftOut(leftOut, number, () => {
        const values = read();
        isRow = values !== undefined;
        return values;
      });
      if (isRow) this.#lastRow = number;
      if (row !== undefined) this.#rows.push({ ...row, number });
    });
    this.#leftOut = leftOut;
    this.#table = table;
    this.#takesAny = takesAny;
    this.#given = given;
  }

  /**
   * Gives the next bytes of the stream when they are asked for, in memory of their own. The piece may be used for something else once it
   * ends.
   */
  async *add(piece: Uint8Array): AsyncGenerator<Uint8Array, void, void> {
    const text = this.#mark.strip(piece);
    for (let at = 0; at < text.length; at += pieceBytes) {
      const part = text.subarray(at, at + pieceBytes);
      await this.#source.push(part);
      this.#bytes += part.length;
      yield* this.#ready(false);
    }
  }

  async *end(): AsyncGenerator<Uint8Array, void, void> {
    const rest = this.#mark.rest();
    await this.#source.push(rest);
    this.#bytes += rest.length;
    await this.#source.end();
    yield* this.#ready(true);
    yield endMarker;
  }

  *#ready(isEnd: boolean): Generator<Uint8Array, void, void> {
    if (this.#fields === undefined) {
      const isEnough = this.#rows.length >= firstRows || (this.#rows.length > 0 && this.#bytes >= firstBytes);
      if (!isEnd && !isEnough) return;
      if (this.#leftOut !== undefined) this.#rows = this.#rowsOfTable(this.#rows);
      this.#fields = this.#columnsOf(this.#rows);
      yield schemaBytes(this.#fields);
    }
    if (this.#rows.length === 0 || (!isEnd && this.#bytes < batchBytes)) return;
    const rowsAtOnce = Math.max(1, Math.floor(mostValues / valuesOfRow(this.#fields)));
    for (let row = 0; row < this.#rows.length; row += rowsAtOnce) {
      yield* this.#fittingBatch(this.#fields, this.#rows.slice(row, row + rowsAtOnce));
    }
    [this.#rows, this.#bytes] = [[], 0];
  }

  /** Leaves out those that have columns which the table has not. */
  #rowsOfTable(rows: readonly NumberedRow[]): NumberedRow[] {
    if (this.#table === undefined || this.#isExtending) return [...rows];
    const known = new Set(this.#table.fields.map(({ name }) => name));
    return rows.filter((row) => orLeftOut(this.#leftOut, row.number, () => requireKnown(row, known)) !== undefined);
  }

  /** Makes batches of all rows, unless those that do not fit are left out. */
  #fittingBatch(
    fields: readonly Field[],
    rows: readonly NumberedRow[],
  ): readonly Uint8Array[] | Generator<Uint8Array, void, void> {
    if (this.#leftOut === undefined) return this.#batch(fields, rows);
    try {
      return [...this.#batch(fields, rows)];
    } catch {
      // compensated: each row by itself says whether it was the one
      const fits = (row: NumberedRow) =>
        orLeftOut(this.#leftOut, row.number, () => [...this.#batch(fields, [row])]) !== undefined;
      const fitting = rows.filter(fits);
      return fitting.length === 0 ? [] : this.#batch(fields, fitting);
    }
  }

  #columnsOf(rows: readonly Row[]): readonly Field[] {
    if (rows.length === 0) {
      if (this.#table === undefined) throw invalidInput('there are no rows to see columns in');
      return this.#table.fields.filter(comesAsText); // a merge finds its key in them
    }
    const seen = new SeenFields(this.#isCsv);
    for (const { values, place } of rows) seen.see(values, place);
    const columns = this.#isExtending ? withValues(seen.byName, this.#table, this.#given) : seen.byName;
    requireNamed(columns, this.#given, this.#isCsv);
    if (this.#table === undefined) return fieldsOf(columns, this.#given);
    if (!this.#isExtending) return fieldsOfTable(columns, this.#table, this.#given);
    return fieldsOfExtended(columns, this.#table, this.#given).map((field) => this.#roomFor(field, rows, columns));
  }

  /** An integer column of the table stays as it is where each of the values is one of its integers. */
  #roomFor(field: Field, rows: readonly Row[], columns: Columns): Field {
    const seen = columns.get(field.name)?.field(field.name, true);
    if (field.type.kind !== 'int' || field.dictionary !== undefined || seen === undefined) return field;
    const wider = typeForBoth(field.type, seen.type);
    const write = writerOf(field.type, new Uint8Array(8), this.#isCsv);
    const fits = ({ values: { [field.name]: value } }: Row) => value === null || value === undefined || write(value, 0);
    return wider === undefined || rows.every(fits) ? field : { ...field, type: wider };
  }

  *#batch(fields: readonly Field[], rows: readonly Row[]): Generator<Uint8Array, void, void> {
    const making = { place: (row: number) => rows[row]!.place, isText: this.#isCsv };
    const maker = new ColumnMaker({ ...making, takesAny: this.#takesAny });
    const makerOfNew = new ColumnMaker({ ...making, takesAny: true });
    const known = this.#isExtending ? new Set(this.#table?.fields.map(({ name }) => name)) : undefined;
    const plan = new BatchPlan();
    for (const [field, values] of paired(fields, valuesByColumn(fields, rows, this.#isExtending))) {
      const making = known?.has(field.name) === false ? makerOfNew : maker;
      plan.addColumn(field, [{ data: making.column(field, values), runs: allRows(rows.length) }]);
    }
    for (const [id, { field, data }] of maker.dictionaries) {
      yield bytesOfMessage(dictionaryMessage(id, field, [{ data, runs: allRows(data.length) }]).message);
    }
    yield bytesOfMessage(plan.message(rows.length));
  }
}

const markBytes = Buffer.from([0xef, 0xbb, 0xbf]);

/** Programs for spreadsheets begin a text with three bytes, which may come one by one. */
class ByteOrderMark {
  #begun: Buffer = Buffer.alloc(0);
  #isOver = false;

  strip(piece: Uint8Array): Uint8Array {
    if (this.#isOver) return piece;
    const head = Buffer.concat([this.#begun, piece]);
    const isMark = markBytes.subarray(0, head.length).equals(head.subarray(0, markBytes.length));
    this.#isOver = !isMark || head.length >= markBytes.length;
    this.#begun = this.#isOver ? Buffer.alloc(0) : head;
    if (!this.#isOver) return this.#begun.subarray(head.length);
    return isMark ? head.subarray(markBytes.length) : head;
  }

  /** Gives what was taken for the beginning of one. */
  rest(): Uint8Array {
    return this.#begun;
  }
}

type Columns = ReadonlyMap<string, SeenValues>;
type GivenFields = ReadonlyMap<string, Field>;

/** A column of JSON may come in a later row, but where its name is near to one that is there it is misspelt. */
function requireNamed(columns: Columns, given: GivenFields, isCsv: boolean): void {
  const names = [...columns.keys()];
  const others = (name: string) => names.filter((each) => withoutDigits(each) !== withoutDigits(name));
  const isMisspelt = (name: string) => !columns.has(name) && (isCsv || nearest(name, others(name)) !== undefined);
  const missing = [...given.keys()].find(isMisspelt);
  if (missing === undefined) return;
  throw invalidInput(`there is no column ${JSON.stringify(missing)}; the columns are ${names.join(', ')}`);
}

/** The fields get the types that their values have. */
function fieldsOf(columns: Columns, given: GivenFields): readonly Field[] {
  if (columns.size === 0) throw invalidInput('the rows have no columns');
  const later = [...given].filter(([name]) => !columns.has(name)).map(([, field]) => field);
  const seen = [...columns].map(([name, values]) => given.get(name) ?? values.field(name, true));
  return [...seen, ...later];
}

/** The fields get the types that the table has for them. */
function fieldsOfTable(columns: Columns, table: Schema, given: GivenFields): readonly Field[] {
  const known = new Set(table.fields.map(({ name }) => name));
  for (const [name, { place }] of columns) if (!known.has(name)) throw unknownColumn(name, place);
  return table.fields.flatMap((field) => {
    const values = columns.get(field.name);
    if (values !== undefined) return [fieldSeen(field, values)];
    return given.has(field.name) ? [field] : [];
  });
}

/** A column that the table lacks, and that has no value yet, has no type either. */
function withValues(columns: Columns, table: Schema | undefined, given: GivenFields): Columns {
  const known = new Set([...(table?.fields.map(({ name }) => name) ?? []), ...given.keys()]);
  return new Map([...columns].filter(([name, { hasValue }]) => hasValue || known.has(name)));
}

/** The fields get the types that the table has, or would get, in the order of the rows: the table's own changes where it is extended. */
function fieldsOfExtended(columns: Columns, table: Schema, given: GivenFields): readonly Field[] {
  const types = new Map([...given, ...table.fields.map((field) => [field.name, field] as const)]);
  const seen = [...columns].map(([name, values]) => {
    const field = types.get(name);
    return field === undefined ? values.field(name, true) : fieldSeen(field, values);
  });
  const later = [...given.keys()].filter((name) => !columns.has(name));
  return [...seen, ...later.flatMap((name) => types.get(name) ?? [])];
}

/** Columns that are numbered have names as near as misspelt ones. */
const withoutDigits = (name: string): string => name.replaceAll(/\d/g, '');

const unknownColumn = (name: string, place: string) =>
  invalidInput(`${place}: ${refuseColumn([name], 'does not exist in the table').message}`);

function requireKnown({ values, place }: Row, known: ReadonlySet<string>): true {
  for (const name of Object.keys(values)) if (!known.has(name)) throw unknownColumn(name, place);
  return true;
}

/** A struct has the fields that a row has sent, so that a merge keeps the others. */
function fieldSeen(field: Field, seen: SeenValues): Field {
  if (field.type.kind !== 'struct' || field.dictionary !== undefined || seen.fields.byName.size === 0) return field;
  const children = field.children.flatMap((child) => {
    const values = seen.fields.byName.get(child.name);
    return values === undefined ? [] : [fieldSeen(child, values)];
  });
  return children.length === 0 ? field : { ...field, children };
}

/** Most rows have their columns in one order. NULL in a column without a field is passed over where `takesNulls`. */
function valuesByColumn(
  fields: readonly Field[],
  rows: readonly Row[],
  takesNulls: boolean,
): readonly (readonly unknown[])[] {
  const columns = fields.map(() => new Array<unknown>(rows.length).fill(null));
  const byName = new Map(paired(fields, columns).map(([{ name }, column]) => [name, column]));
  for (const [row, { values, place }] of rows.entries()) {
    for (const name of Object.keys(values)) {
      const column = byName.get(name);
      const value = values[name];
      if (column !== undefined) column[row] = value;
      else if (!takesNulls || (value !== null && value !== undefined)) throw unknownFirst(name, place, takesNulls);
    }
  }
  return columns;
}

function unknownFirst(name: string, place: string, isExtending: boolean) {
  const first = `${firstRows} rows, or ${firstBytes} bytes`;
  const why = isExtending
    ? `has no value in the first rows, by which a new column gets its type (${first}); put a row that has one before them`
    : `is in none of the first rows, of which the columns are taken (${first}); name it in one of them, with null where it has no value, or load the file with --types ${name}=TYPE`;
  return invalidInput(`${place}: column ${JSON.stringify(name)} ${why}`);
}

/** Counts the values of a row, also those that stand for vectors that are NULL. */
const valuesOfRow = (fields: readonly Field[]): number =>
  fields.reduce((sum, { type, children }) => {
    const times = type.kind === 'fixed_size_list' ? type.listSize : 1;
    return sum + 1 + (type.kind === 'list' ? 0 : times * valuesOfRow(children));
  }, 0);

/** A body of these types may have these formats besides Arrow. */
const formats = new Map<string, TextFormat>([
  [textTypes.json, 'json'],
  [textTypes.csv, 'csv'],
  ...ndjsonTypes.map((type) => [type, 'ndjson'] as const),
]);

/** Answers undefined for Arrow, and for bodies that do not say what they are. */
const textFormatOf = (contentType: string | undefined): TextFormat | undefined =>
  formats.get(contentType?.split(';', 1)[0]?.trim().toLowerCase() ?? '');

/** Answers as `textFormatOf`, by the parameters of the type too: RFC 4180 has `header` for CSV. */
export function bodyFormatOf(contentType = ''): RowFormat | undefined {
  const format = textFormatOf(contentType);
  if (format === undefined) return undefined;
  const given = [...contentType.matchAll(/;\s*([\w-]+)\s*=\s*"?([^";]*)/g)];
  const parameters = new Map(
    given.map(([, name = '', value = '']) => [name.toLowerCase(), value.trim().toLowerCase()]),
  );
  const charset = parameters.get('charset') ?? 'utf-8';
  if (!['utf-8', 'utf8', 'us-ascii'].includes(charset)) throw invalidInput('content-type: charset: rows come as UTF-8');
  const header = (format === 'csv' && parameters.get('header')) || 'present';
  if (header === 'absent') return 'csv-without-header';
  if (header !== 'present') throw invalidInput('content-type: header: expected present or absent');
  return format;
}
