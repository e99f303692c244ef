/** Assembles rows whose columns come from several batches: some from what a client sent, others from what is stored. */

import { BatchPlan, type RowPlaces, type RowRuns } from '../column/batch-plan.ts';
import { type ColumnData, countZeros } from '../column/column-data.ts';
import { nulls } from '../column/fitted-rows.ts';
import { type IpcFile, writeFile } from '../format/ipc-file.ts';
import { refuseColumn } from '../schema/field-path.ts';
import { schemaMessage } from '../schema/read-schema.ts';
import type { Field, IpcChunk, Schema } from '../schema/schema.ts';
import type { Encoding } from './encoded-columns.ts';

/** A column of the result has values in each batch, and the rows have places there. Rows that are nowhere have NULL. */
export interface ColumnOrigin {
  readonly batches: readonly ColumnData[];
  readonly places: RowPlaces;
}

interface AssembledTable {
  readonly schema: Schema;
  /** The file has this schema. */
  readonly file: IpcFile;
}

/**
 * Makes so many rows with the columns of the table, in one batch. `TableSchemaValidationError` names a column that would have NULL where
 * the table has none. Throws `DictionaryFull`.
 */
export function assembleRows(
  { schema, file }: AssembledTable,
  rows: number,
  originOf: (field: Field) => ColumnOrigin,
  encoding: Encoding,
): IpcChunk {
  const plan = new BatchPlan(encoding.encode);
  for (const field of schema.fields) {
    const { batches, places } = originOf(field);
    const none = nulls(field, 1);
    const slices = places.placed.map(({ batch, runs }) => ({
      data: batch === undefined ? none : batches[batch]!,
      runs,
    }));
    if (!field.nullable && slices.some(hasNull)) {
      throw refuseColumn([field.name], 'has a NULL, and the table does not allow NULL in it');
    }
    plan.addColumn(field, slices);
  }
  const dictionaries = encoding.messages();
  const messages = dictionaries.map(({ message }) => message);
  const made = writeFile(schemaMessage(file), messages, [plan.message(rows)]);
  const decodedBytes = dictionaries.reduce((sum, { bytes }) => sum + bytes, plan.bytes);
  return { ...made, schema, rows, decodedBytes, release: () => undefined };
}

const hasNull = ({ data: { validity }, runs }: { readonly data: ColumnData; readonly runs: RowRuns }): boolean =>
  validity !== undefined && runs.starts.some((start, index) => countZeros(validity, start, runs.ends[index]!) > 0);
