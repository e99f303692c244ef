/** Finds the rows of a source that hold NULL where the table allows none, before the source is laid out as the table. */
import { paired } from '../../kernel/paired.ts';
import { refuseColumn } from '../schema/field-path.ts';
import { childNamed, isNull as isOfNulls, targetOf } from '../schema/fitted-schema.ts';
import { columnLayout, type Field, type IpcChunk, type Schema } from '../schema/schema.ts';
import { type ColumnData, isNullAt, readColumns } from './column-data.ts';

/** Calls `found` for each such row, with the first column at fault. Throws `InvalidInput` on invalid buffers. */
export function findUnallowedNulls(chunk: IpcChunk, table: Schema, found: (row: number, reason: string) => void): void {
  const columns = chunk.schema.fields.map((field) => ({ field, target: targetOf(field, table) }));
  if (!columns.some(({ target }) => target !== undefined && needsValues(target))) return;
  let before = 0;
  for (const { rows, columns: ofBatch } of readColumns(chunk)) {
    const suspects = paired(columns, ofBatch).flatMap(([{ field, target }, data]) =>
      target !== undefined && needsValues(target) && hasNulls(data) ? [{ field, target, data }] : [],
    );
    for (let row = 0; row < rows && suspects.length > 0; row++) {
      const fault = suspects.find(({ field, target, data }) => breaks(field, target, data, row));
      if (fault !== undefined) found(before + row, refusal(fault.target.name));
    }
    before += rows;
  }
}

const refusal = (name: string): string => refuseColumn([name], 'holds a NULL, and the table does not allow it').message;

const needsValues = ({ nullable, children }: Field): boolean => !nullable || children.some(needsValues);

const hasNulls = ({ validity, children }: ColumnData): boolean => validity !== undefined || children.some(hasNulls);

/** Whether the value at `at` is, or holds, a NULL that the target does not allow. */
function breaks(field: Field, target: Field, data: ColumnData, at: number): boolean {
  if (isOfNulls(field)) return !target.nullable;
  if (isNullAt(data, at)) return !target.nullable;
  if (field.dictionary !== undefined || !hasNulls(data)) return false;
  const [start, end] = itemsAt(field, data, at);
  return paired(field.children, data.children).some(([child, values], i) => {
    const inner = field.type.kind === 'struct' ? childNamed(target, child.name) : target.children[i];
    if (inner === undefined || !needsValues(inner)) return false;
    for (let item = start; item < end; item++) if (breaks(child, inner, values, item)) return true;
    return false;
  });
}

/** The values of the children that belong to one value: one of a struct, and several of a list. */
function itemsAt(field: Field, { offsets }: ColumnData, at: number): readonly [number, number] {
  const { childValues, offsetBytes } = columnLayout(field);
  if (offsetBytes > 0) return [offsets[at] ?? 0, offsets[at + 1] ?? 0];
  const values = childValues ?? 1;
  return [at * values, (at + 1) * values];
}
