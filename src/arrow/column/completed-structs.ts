/**
 * The structs that a table holds complete those of a source, of which some fields were not sent. A struct is NULL where both
 * are; where only one of them is, its fields count as NULL.
 */

import { paired } from '../../kernel/paired.ts';
import { copyOf, writeFile } from '../format/ipc-file.ts';
import { refuseColumn } from '../schema/field-path.ts';
import type { AbsentField } from '../schema/fitted-schema.ts';
import { schemaMessage } from '../schema/read-schema.ts';
import { bytesOfBits, type Field, type IpcChunk } from '../schema/schema.ts';
import { allRows, BatchPlan, rowsInOrder } from './batch-plan.ts';
import { bitAt, type ColumnData, readColumns, setBit } from './column-data.ts';

export interface StoredStructs {
  /** They are one batch, with the structs as columns of their names; undefined where the table has none of the rows. */
  readonly rows: IpcChunk | undefined;
  /** Each row of the source has that of `rows`, or -1 where the table has none. */
  readonly rowOf: Int32Array;
}

/**
 * Completes the chunk with the `absent` fields, taken from `stored`. Throws `TableSchemaValidationError` where a field that allows no NULL
 * would become NULL.
 */
export function completeStructs(chunk: IpcChunk, absent: readonly AbsentField[], stored: StoredStructs): IpcChunk {
  const { rows: storedRows } = stored;
  if (storedRows === undefined) return chunk;
  const completion = new Completion(absent);
  let from = 0;
  const batches = readColumns(chunk).map(({ rows, columns }) => {
    const rowOf = stored.rowOf.subarray(from, from + rows);
    from += rows;
    const taken = takeRows(storedRows, rowOf);
    const plan = new BatchPlan();
    for (const [field, sent] of paired(chunk.schema.fields, columns)) {
      const held = taken.get(field.name);
      const data = held === undefined ? sent : completion.column(field, sent, held, rowOf);
      plan.addColumn(field, [{ data, runs: allRows(rows) }]);
    }
    return plan.message(rows);
  });
  const dictionaries = chunk.dictionaries.map((block) => copyOf(chunk.file, block));
  const made = writeFile(schemaMessage(chunk.file), dictionaries, batches);
  return { ...chunk, ...made, decodedBytes: Math.max(chunk.decodedBytes, made.file.length) };
}

/** Some row stands for one that is not there. */
function takeRows(stored: IpcChunk, rowOf: Int32Array): ReadonlyMap<string, ColumnData> {
  const plan = new BatchPlan();
  const { fields } = stored.schema;
  const runs = rowsInOrder(rowOf.map((row) => Math.max(row, 0)));
  for (const { columns } of readColumns(stored))
    for (const [field, data] of paired(fields, columns)) plan.addColumn(field, [{ data, runs }]);
  const file = writeFile(schemaMessage(stored.file), [], [plan.message(rowOf.length)]);
  const names = fields.map(({ name }) => name);
  return new Map(
    readColumns({ ...stored, ...file, rows: rowOf.length }).flatMap(({ columns }) => paired(names, columns)),
  );
}

/** Each row has a bit; undefined where all are one. */
type Bits = Uint8Array | undefined;

/** It says which rows have a struct in the source, and which in the table. */
interface Places {
  readonly sent: Bits;
  readonly stored: Bits;
  /** The table has these rows. */
  readonly found: Bits;
}

class Completion {
  readonly #absent: ReadonlySet<string>;
  /** The structs around the absent fields. */
  readonly #around: ReadonlySet<string>;

  constructor(absent: readonly AbsentField[]) {
    const paths = absent.map(({ path }) => path.segments);
    this.#absent = new Set(paths.map(keyOf));
    this.#around = new Set(paths.flatMap((path) => path.slice(1).map((_, i) => keyOf(path.slice(0, i + 1)))));
  }

  column(field: Field, sent: ColumnData, stored: ColumnData, rowOf: Int32Array): ColumnData {
    const found = bitsWhere(rowOf.length, (row) => rowOf[row] !== -1);
    return this.#struct(field, sent, stored, { sent: undefined, stored: found, found }, [field.name]);
  }

  #struct(field: Field, sent: ColumnData, stored: ColumnData, around: Places, path: readonly string[]): ColumnData {
    const { length } = sent;
    const here: Places = {
      sent: both(around.sent, sent.validity, length),
      stored: both(around.stored, stored.validity, length),
      found: around.found,
    };
    const validity = either(here.sent, here.stored, length);
    const children = paired(field.children, paired(sent.children, stored.children)).map(([child, sentAndStored]) => {
      const inner = [...path, child.name];
      const data = this.#child(child, ...sentAndStored, here, inner);
      return child.nullable ? data : withoutNull(data, both(validity, here.found, length), inner);
    });
    return { ...sent, validity, children };
  }

  #child(field: Field, sent: ColumnData, stored: ColumnData, here: Places, path: readonly string[]): ColumnData {
    const key = keyOf(path);
    if (this.#around.has(key)) return this.#struct(field, sent, stored, here, path);
    if (this.#absent.has(key)) return { ...stored, validity: both(stored.validity, here.stored, stored.length) };
    return { ...sent, validity: both(sent.validity, here.sent, sent.length) };
  }
}

const keyOf = (path: readonly string[]): string => JSON.stringify(path);

function bitsWhere(length: number, isSet: (row: number) => boolean): Uint8Array {
  const bits = new Uint8Array(bytesOfBits(length));
  for (let row = 0; row < length; row++) if (isSet(row)) setBit(bits, row);
  return bits;
}

const isOne = (bits: Bits, row: number): boolean => bits === undefined || bitAt(bits, row);

const both = (a: Bits, b: Bits, length: number): Bits =>
  a === undefined || b === undefined ? (a ?? b) : bitsWhere(length, (row) => bitAt(a, row) && bitAt(b, row));

const either = (a: Bits, b: Bits, length: number): Bits =>
  a === undefined || b === undefined ? undefined : bitsWhere(length, (row) => bitAt(a, row) || bitAt(b, row));

/** Requires values of a field that allows no NULL. `needed` are the rows whose struct is there; what the others hold counts for nothing. */
function withoutNull(data: ColumnData, needed: Bits, path: readonly string[]): ColumnData {
  for (let row = 0; row < data.length; row++) {
    if (isOne(needed, row) && !isOne(data.validity, row)) {
      throw refuseColumn(path, 'would become NULL in a row that is updated, and the table does not allow it');
    }
  }
  return { ...data, validity: undefined };
}
