/** Why a merge is refused. */
import type { ErrorName } from '#src/kernel/errors.ts';
import { type Column, columnAt, sameColumnType } from './columns.ts';
import { type Condition, references } from './conditions.ts';
import type { MergeStep } from './steps.ts';
import { keyOf, type Row } from './values.ts';

/** Without rows to merge and without deleting, no row is looked at, and no filter. */
const reachesRows = ({ source, flags }: MergeStep): boolean =>
  source.rows.length > 0 || flags.delete === true || flags.deleteIf !== undefined;

/** Of a source without columns. */
export const faultsOfNone = (columns: readonly Column[]): ErrorName[] =>
  columns.length === 0 ? ['TableSchemaValidationError'] : [];

/** Of the request alone. */
export function faultsOfSource({ on, source, flags }: MergeStep): ErrorName[] {
  const faults: ErrorName[] = on.length === 0 ? ['InvalidInput'] : [];
  if (new Set(on.map(({ segments }) => JSON.stringify(segments))).size < on.length) faults.push('InvalidInput');
  faults.push(...faultsOfNone(source.columns));
  const columns = on.map(({ segments }) => columnAt(source.columns, segments));
  if (columns.includes(undefined)) faults.push('TableColumnNotFound');
  if (columns.some((column) => column?.type === 'struct' || column?.type === 'list')) faults.push('InvalidInput');
  const keys = source.rows
    .map((row) =>
      keyOf(
        row,
        on.map(({ segments }) => segments),
      ),
    )
    .filter((key) => key !== undefined);
  if (new Set(keys).size < keys.length) faults.push('InvalidInput');
  const { update, updateIf, insert, delete: deletes, deleteIf } = flags;
  const said = [update, insert, deletes].filter((flag) => flag !== undefined);
  if (said.length > 0 && !said.includes(true) && updateIf === undefined && deleteIf === undefined) {
    faults.push('InvalidInput');
  }
  return faults;
}

/** Of rows of these columns for a table. */
export function faultsOfColumns(table: readonly Column[], sent: readonly Column[]): ErrorName[] {
  const faults: ErrorName[] = [];
  for (const column of sent) {
    const known = table.find(({ name }) => name === column.name);
    if (known === undefined || !sameColumnType(known, column)) faults.push('TableSchemaValidationError');
  }
  const names = new Set(sent.map(({ name }) => name));
  if (table.some(({ name, nullable }) => !nullable && !names.has(name))) faults.push('TableSchemaValidationError');
  return faults;
}

/** Of the request at a table with these columns. */
export function faultsAt(table: readonly Column[], step: MergeStep): ErrorName[] {
  const { on, source, flags } = step;
  const faults = faultsOfColumns(table, source.columns);
  if (on.some(({ segments }) => columnAt(table, segments) === undefined)) faults.push('TableColumnNotFound');
  const isUnknown = (condition: Condition | undefined) =>
    condition !== undefined &&
    references(condition).some(({ side, segments }) => {
      const columns = side === 'source' ? source.columns : table;
      return columnAt(columns, segments) === undefined;
    });
  if (reachesRows(step) && (isUnknown(flags.updateIf) || isUnknown(flags.deleteIf))) faults.push('TableColumnNotFound');
  return faults;
}

export const lacksRequired = (row: Row, columns: readonly Column[]): boolean =>
  columns.some(({ name, nullable }) => !nullable && row[name] === null);
