/** A merge insert as SQL means it, row by row; but an upsert of whole rows leaves one row of each of its keys. */
import type { Column } from './columns.ts';
import { holds } from './conditions.ts';
import type { MergeStep } from './steps.ts';
import { keyOf, type Row } from './values.ts';

export interface Counts {
  readonly inserted: number;
  readonly updated: number;
  readonly deleted: number;
}

/** Every column is there; those that were not sent are NULL. */
export const whole = (row: Row, columns: readonly Column[]): Row =>
  Object.fromEntries(columns.map(({ name }) => [name, row[name] ?? null]));

/** Saying nothing is an upsert; once anything is said, what is left out is off, and a filter turns its action on. */
function actionsOf({ flags }: MergeStep) {
  const saysNothing = Object.values(flags).every((flag) => flag === undefined);
  return {
    updates: saysNothing || flags.update === true || flags.updateIf !== undefined,
    inserts: saysNothing || flags.insert === true,
    deletes: flags.delete === true || flags.deleteIf !== undefined,
  };
}

export function mergeRows(
  target: readonly Row[],
  columns: readonly Column[],
  step: MergeStep,
): { readonly rows: readonly Row[]; readonly counts: Counts } {
  const { updates, inserts, deletes } = actionsOf(step);
  const { updateIf, deleteIf } = step.flags;
  const paths = step.on.map(({ segments }) => segments);
  const sourceByKey = new Map(step.source.rows.map((row) => [keyOf(row, paths) ?? Symbol('NULL'), row]));
  const targetKeys = new Set(target.map((row) => keyOf(row, paths)));
  const leavesOneRow = updates && updateIf === undefined && inserts && step.source.columns.length === columns.length;
  const written = new Set<string>();
  const rows: Row[] = [];
  const counts = { inserted: 0, updated: 0, deleted: 0 };
  for (const row of target) {
    const key = keyOf(row, paths);
    const source = key === undefined ? undefined : sourceByKey.get(key);
    if (source === undefined) {
      if (deletes && (deleteIf === undefined || holds(deleteIf, { target: row }))) counts.deleted += 1;
      else rows.push(row);
    } else if (leavesOneRow && key !== undefined && written.has(key)) {
      counts.deleted += 1;
    } else if (updates && (updateIf === undefined || holds(updateIf, { target: row, source }))) {
      counts.updated += 1;
      if (key !== undefined) written.add(key);
      rows.push({ ...row, ...source });
    } else {
      rows.push(row);
    }
  }
  for (const [key, row] of sourceByKey) {
    if (!inserts || (typeof key === 'string' && targetKeys.has(key))) continue;
    counts.inserted += 1;
    rows.push(whole(row, columns));
  }
  return { rows, counts };
}
