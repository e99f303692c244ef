/** Rows whose columns come from several batches: some from what a client sent, others from what is stored. */
import { type IpcFile, writeFile } from '../format/ipc-file.ts';
import { refuseColumn } from '../schema/field-path.ts';
import { schemaMessage } from '../schema/read-schema.ts';
import type { Field, IpcChunk, Schema } from '../schema/schema.ts';
import { BatchPlan, type RowRuns } from './batch-plan.ts';
import { type ColumnData, countZeros } from './column-data.ts';
import { nulls } from './fitted-rows.ts';

/** Rows of one batch that follow one another in the result; undefined for rows that are in none. */
interface PlacedRuns {
  readonly batch: number | undefined;
  readonly runs: RowRuns;
}

/** Where the rows of a result are, in its order. */
export class RowPlaces {
  readonly placed: readonly PlacedRuns[];
  readonly rows: number;

  /** The batch and the row in it of each row; undefined for one that is in none. */
  constructor(places: readonly (readonly [batch: number, row: number] | undefined)[]) {
    this.rows = places.length;
    const placed: PlacedRuns[] = [];
    for (let from = 0, end = 0; from < places.length; from = end) {
      const batch = places[from]?.[0];
      const [starts, ends]: [number[], number[]] = [[], []];
      for (; end < places.length && places[end]?.[0] === batch; end++) {
        const row = places[end]?.[1] ?? 0;
        if (batch !== undefined && ends.at(-1) === row) ends[ends.length - 1] = row + 1;
        else {
          starts.push(row);
          ends.push(row + 1);
        }
      }
      placed.push({
        batch,
        runs: { starts: Uint32Array.from(starts), ends: Uint32Array.from(ends), rows: end - from },
      });
    }
    this.placed = placed;
  }
}

/** A column of the result: its values in each batch, and where the rows are. Rows that are nowhere have NULL. */
export interface ColumnOrigin {
  readonly batches: readonly ColumnData[];
  readonly places: RowPlaces;
}

interface AssembledTable {
  readonly schema: Schema;
  /** A file with this schema. */
  readonly file: IpcFile;
}

/** Whether `assembleRows` can make rows of these columns: none is dictionary-encoded. */
export const canAssemble = (fields: readonly Field[]): boolean =>
  fields.every(({ dictionary, children }) => dictionary === undefined && canAssemble(children));

/**
 * So many rows with the columns of the table, in one batch. `TableSchemaValidationError` names a column that would have NULL where
 * the table has none.
 */
export function assembleRows(
  { schema, file }: AssembledTable,
  rows: number,
  originOf: (field: Field) => ColumnOrigin,
): IpcChunk {
  const plan = new BatchPlan();
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
  const made = writeFile(schemaMessage(file), [], [plan.message(rows)]);
  return { ...made, schema, rows, decodedBytes: plan.bytes, release: () => undefined };
}

const hasNull = ({ data: { validity }, runs }: { readonly data: ColumnData; readonly runs: RowRuns }): boolean =>
  validity !== undefined && runs.starts.some((start, index) => countZeros(validity, start, runs.ends[index]!) > 0);
