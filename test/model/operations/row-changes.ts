/** What the operations on rows do to a version: pure functions, shared by single requests and those of several operations. */
import type { ErrorName } from '#src/kernel/errors.ts';
import { type Column, columnAt } from '../columns.ts';
import { type Condition, holds, references } from '../conditions.ts';
import { faultsAt, faultsOfColumns, faultsOfSource, lacksRequired } from '../merge-faults.ts';
import { type Counts, mergeRows, whole } from '../merge-rows.ts';
import type { MergeStep, Source } from '../steps.ts';
import { type Expression, expressionType, expressionValue, readBy } from './expressions.ts';
import { newState, type State } from './world.ts';

export type Change =
  | { readonly refused: readonly ErrorName[] }
  | {
      readonly state: State;
      readonly counts: Counts;
      /** What changes no row makes none, unless it changes columns. */
      readonly isVersion: boolean;
    };

export const noCounts: Counts = { inserted: 0, updated: 0, deleted: 0 };

const ofRows = (state: State, rows: State['rows'], counts: Partial<Counts>): Change => {
  if (rows.some((row) => lacksRequired(row, state.columns))) return { refused: ['TableSchemaValidationError'] };
  const all = { ...noCounts, ...counts };
  return { state: { ...state, rows }, counts: all, isVersion: all.inserted + all.updated + all.deleted > 0 };
};

/** Those of a list that is not empty. */
export const refusedFor = (faults: readonly ErrorName[]): Change | undefined =>
  faults.length === 0 ? undefined : { refused: faults };

export function append(state: State, { columns, rows }: Pick<Source, 'columns' | 'rows'>): Change {
  const faults = faultsOfColumns(state.columns, columns);
  const added = rows.map((row) => whole(row, state.columns));
  return refusedFor(faults) ?? ofRows(state, [...state.rows, ...added], { inserted: rows.length });
}

/** The schema goes with the rows, and so do indexes. */
export const overwrite = ({ columns, rows }: Pick<Source, 'columns' | 'rows'>): Change => ({
  state: newState(columns, rows),
  counts: { ...noCounts, inserted: rows.length },
  isVersion: true,
});

export function merge(state: State, step: MergeStep): Change {
  const faults = [...faultsOfSource(step), ...faultsAt(state.columns, step)];
  if (faults.length > 0) return { refused: faults };
  const { rows, counts } = mergeRows(state.rows, state.columns, step);
  return ofRows(state, rows, counts);
}

const unknownIn = (condition: Condition | undefined, columns: readonly Column[]): ErrorName[] =>
  condition !== undefined && references(condition).some(({ segments }) => columnAt(columns, segments) === undefined)
    ? ['TableColumnNotFound']
    : [];

export function deleteRows(state: State, predicate: Condition): Change {
  const faults = unknownIn(predicate, state.columns);
  const rows = state.rows.filter((row) => !holds(predicate, { target: row }));
  return refusedFor(faults) ?? ofRows(state, rows, { deleted: state.rows.length - rows.length });
}

export interface RowsUpdate {
  readonly predicate?: Condition | undefined;
  readonly updates: readonly (readonly [column: string, value: Expression])[];
}

/** Every expression sees the old row. */
export function updateRows(state: State, { predicate, updates }: RowsUpdate): Change {
  const faults = [...unknownIn(predicate, state.columns), ...faultsOfUpdates(state.columns, updates)];
  if (faults.length > 0) return { refused: faults };
  const matches = (row: State['rows'][number]) => predicate === undefined || holds(predicate, { target: row });
  const rows = state.rows.map((row) =>
    matches(row)
      ? { ...row, ...Object.fromEntries(updates.map(([name, value]) => [name, expressionValue(value, row)])) }
      : row,
  );
  return ofRows(state, rows, { updated: state.rows.filter(matches).length });
}

function faultsOfUpdates(columns: readonly Column[], updates: RowsUpdate['updates']): ErrorName[] {
  const faults: ErrorName[] = [];
  const names = updates.map(([name]) => name);
  if (names.some((name) => columnAt(columns, name.split('.')) === undefined)) faults.push('TableColumnNotFound');
  if (updates.some(([, value]) => expressionType(value, columns) === undefined)) faults.push('TableColumnNotFound');
  if (names.some((name) => name.includes('.'))) faults.push('InvalidInput');
  if (new Set(names).size < names.length || needEachOther(updates)) faults.push('InvalidInput');
  return faults;
}

/** Columns that swap their values, or pass them round, have no order in which each expression sees the old row. */
function needEachOther(updates: RowsUpdate['updates']): boolean {
  const reads = new Map(updates.map(([name, value]) => [name, readBy(value)]));
  return updates.some(([name]) => {
    const passed = new Set<string>();
    for (let at = reads.get(name); at !== undefined && !passed.has(at); at = at === name ? undefined : reads.get(at)) {
      if (at === name) return passed.size > 0;
      passed.add(at);
    }
    return false;
  });
}
