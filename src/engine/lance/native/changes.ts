/** The steps of a change: how the engine carries each of them out, and what errors of it say. */
import { type IpcFile, ownFile } from '../../../arrow/format/ipc-file.ts';
import { shownCharacters } from '../../../arrow/schema/field-path.ts';
import type { CheckedSql, Filtered } from '../../../kernel/checked-sql.ts';
import type { ChangeStep } from '../../port/change.ts';
import type { MergeCounts, MergeSpec } from '../../port/merge-spec.ts';
import type { NativeTable } from './native.ts';
import { type EngineCall, engineCall } from './translate-errors.ts';

interface EngineStep {
  /** Errors are translated as those of this call. */
  readonly call: EngineCall;
  /** Errors call its SQL so. The engine does not say which of several expressions it means. */
  readonly sql: string;
  /** Commits one version. `file`: see `ChangeStep`. Counts that it does not give are 0. */
  run(
    table: NativeTable,
    file: IpcFile,
    timeoutMs: number | undefined,
  ): Promise<Partial<MergeCounts> & { readonly version: number }>;
}

/** All that the engine has to know of a step stands in its case. */
function engineStep(step: ChangeStep): EngineStep {
  switch (step.kind) {
    case 'merge':
      return {
        call: isFiltered(step.spec) ? 'filtered merge' : 'merge',
        sql: filterName(step.spec),
        run: (table, file, timeoutMs) => runMerge(table, step.spec, file, timeoutMs),
      };
    case 'append':
    case 'overwrite':
      return {
        call: 'append',
        sql: '',
        run: async (table, file) => ({ numInsertedRows: step.rows, ...(await table.add(file, step.kind)) }),
      };
    case 'update':
      return {
        call: 'change',
        sql: `the predicate or the new value of ${namesOf(step.set.map(({ column }) => column))}`,
        run: async (table) => {
          const set = step.set.map(({ column, value }): [string, string] => [column, value]);
          const { rowsUpdated, version } = await table.update(step.where, set);
          return { numUpdatedRows: rowsUpdated, version };
        },
      };
    case 'delete':
      return {
        call: 'change',
        sql: step.parameter ?? 'the predicate',
        run: (table) => table.delete(step.where),
      };
    case 'add columns':
      return {
        call: 'change',
        sql: `the expression of the new column ${namesOf(step.columns.map(({ name }) => name))}`,
        run: (table) => table.addColumns(step.columns.map(({ name, value }) => ({ name, valueSql: value }))),
      };
    case 'add null columns':
      return { call: 'change', sql: theRequest, run: (table, file) => table.addColumnsWithSchema(file) };
    case 'alter columns':
      return {
        call: 'change',
        sql: `the data_type of ${namesOf(step.alterations.map(({ path }) => path))}`,
        run: (table) =>
          table.alterColumns(step.alterations.map(({ isNullable: nullable, ...others }) => ({ ...others, nullable }))),
      };
    case 'drop columns':
      return { call: 'change', sql: theRequest, run: (table) => table.dropColumns([...step.columns]) };
    case 'update field metadata':
      return {
        call: 'change',
        sql: theRequest,
        run: (table) =>
          table.updateFieldMetadata(step.updates.map(({ isWhole: replace, ...others }) => ({ ...others, replace }))),
      };
    case 'drop index':
      return {
        call: 'change',
        sql: theRequest,
        run: async (table) => {
          await table.dropIndex(step.name);
          return { version: await table.version() };
        },
      };
  }
}

const theRequest = 'the request';
const empty = ownFile(Buffer.alloc(0));

/** Runs a step on a table of the engine's, which commits one version. Only a merge heeds `timeoutMs`. */
export async function runStep(
  table: NativeTable,
  step: ChangeStep,
  file: IpcFile | undefined,
  timeoutMs: number | undefined,
): Promise<MergeCounts> {
  const made = await engineStep(step).run(table, file ?? empty, timeoutMs);
  const { version, numInsertedRows = 0, numUpdatedRows = 0, numDeletedRows = 0 } = made;
  return { version, numInsertedRows, numUpdatedRows, numDeletedRows };
}

/** Translates errors of what runs a step, here or in another process. */
export function stepCall<Result>(step: ChangeStep, run: () => Promise<Result>): Promise<Result> {
  const { call, sql } = engineStep(step);
  return engineCall(call, run, sql);
}

/** Past `timeoutMs` the engine gives up. */
function runMerge(
  table: NativeTable,
  spec: MergeSpec,
  file: IpcFile,
  timeoutMs: number | undefined,
): Promise<MergeCounts> {
  let builder = table.mergeInsert(spec.on);
  if (spec.whenMatchedUpdateAll !== false) builder = builder.whenMatchedUpdateAll(filterOf(spec.whenMatchedUpdateAll));
  if (spec.whenNotMatchedInsertAll) builder = builder.whenNotMatchedInsertAll();
  if (spec.whenNotMatchedBySourceDelete !== false) {
    builder = builder.whenNotMatchedBySourceDelete(filterOf(spec.whenNotMatchedBySourceDelete));
  }
  if (!spec.useIndex) builder = builder.useIndex(false);
  if (timeoutMs !== undefined) builder.setTimeout(Math.max(1, Math.floor(timeoutMs)));
  return builder.execute(file);
}

const filterOf = (action: true | Filtered): CheckedSql | undefined => (action === true ? undefined : action.filter);

function namesOf(columns: readonly string[]): string {
  const [first, ...others] = columns.map((name) =>
    name.length > shownCharacters ? `${name.slice(0, shownCharacters)}…` : name,
  );
  return others.length === 0
    ? `${first}`
    : `one of ${[first, ...others].slice(0, 10).join(', ')}${others.length > 9 ? ', …' : ''}`;
}

const isFiltered = ({ whenMatchedUpdateAll, whenNotMatchedBySourceDelete }: MergeSpec): boolean =>
  typeof whenMatchedUpdateAll === 'object' || typeof whenNotMatchedBySourceDelete === 'object';

function filterName({ whenMatchedUpdateAll: update, whenNotMatchedBySourceDelete: remove }: MergeSpec): string {
  if (typeof update === 'object' && typeof remove === 'object') return 'a filter';
  return typeof update === 'object'
    ? 'the filter of when_matched_update_all'
    : 'the filter of when_not_matched_by_source_delete';
}
