/** Runs the steps of a change on a table of the engine's, which commits one version for each. */
import { type IpcFile, ownFile } from '../../../arrow/format/ipc-file.ts';
import { shownCharacters } from '../../../arrow/schema/field-path.ts';
import type { CheckedSql, Filtered } from '../../../kernel/checked-sql.ts';
import type { ChangeStep } from '../../port/change.ts';
import type { MergeCounts, MergeSpec } from '../../port/merge-spec.ts';
import type { NativeMergeBuilder, NativeTable } from './native.ts';
import type { EngineCall } from './translate-errors.ts';

const nothing = { numInsertedRows: 0, numUpdatedRows: 0, numDeletedRows: 0, numAttempts: 1 };
const empty = ownFile(Buffer.alloc(0));

/** `file`: see `ChangeStep`. Only a merge heeds `timeoutMs`. */
export async function runStep(
  table: NativeTable,
  step: ChangeStep,
  file: IpcFile = empty,
  timeoutMs?: number,
): Promise<MergeCounts> {
  switch (step.kind) {
    case 'merge':
      return runMerge(table, step.spec, file, timeoutMs);
    case 'append':
    case 'overwrite':
      return { ...nothing, numInsertedRows: step.rows, ...(await table.add(file, step.kind)) };
    case 'update': {
      const set = step.set.map(({ column, value }): [string, string] => [column, value]);
      const { rowsUpdated, version } = await table.update(step.where, set);
      return { ...nothing, numUpdatedRows: rowsUpdated, version };
    }
    case 'delete': {
      const { numDeletedRows, version } = await table.delete(step.where);
      return { ...nothing, numDeletedRows, version };
    }
    case 'add columns': {
      const columns = step.columns.map(({ name, value }) => ({ name, valueSql: value }));
      return { ...nothing, version: (await table.addColumns(columns)).version };
    }
    case 'add null columns':
      return { ...nothing, version: (await table.addColumnsWithSchema(file)).version };
    case 'alter columns': {
      const alterations = step.alterations.map(({ path, rename, isNullable: nullable, dataType }) => ({
        ...{ path, rename, nullable, dataType },
      }));
      return { ...nothing, version: (await table.alterColumns(alterations)).version };
    }
    case 'drop columns':
      return { ...nothing, version: (await table.dropColumns([...step.columns])).version };
    case 'update field metadata': {
      const updates = step.updates.map(({ path, metadata, isWhole: replace }) => ({ path, metadata, replace }));
      return { ...nothing, version: (await table.updateFieldMetadata(updates)).version };
    }
    case 'drop index':
      await table.dropIndex(step.name);
      return { ...nothing, version: await table.version() };
  }
}

/** Commits one version. Past `timeoutMs` the engine gives up. */
async function runMerge(
  table: NativeTable,
  spec: MergeSpec,
  file: IpcFile,
  timeoutMs: number | undefined,
): Promise<MergeCounts> {
  const builder = configured(table.mergeInsert(spec.on), spec);
  if (timeoutMs !== undefined) builder.setTimeout(Math.max(1, Math.floor(timeoutMs)));
  const { version, numInsertedRows, numUpdatedRows, numDeletedRows, numAttempts } = await builder.execute(file);
  return { version, numInsertedRows, numUpdatedRows, numDeletedRows, numAttempts };
}

function configured(builder: NativeMergeBuilder, spec: MergeSpec): NativeMergeBuilder {
  let next = builder;
  if (spec.whenMatchedUpdateAll !== false) next = next.whenMatchedUpdateAll(filterOf(spec.whenMatchedUpdateAll));
  if (spec.whenNotMatchedInsertAll) next = next.whenNotMatchedInsertAll();
  if (spec.whenNotMatchedBySourceDelete !== false) {
    next = next.whenNotMatchedBySourceDelete(filterOf(spec.whenNotMatchedBySourceDelete));
  }
  return spec.useIndex ? next : next.useIndex(false);
}

const filterOf = (action: true | Filtered): CheckedSql | undefined => (action === true ? undefined : action.filter);

/** What errors of the step are translated as, and how its SQL is called in them. */
export function callOf(step: ChangeStep): { readonly call: EngineCall; readonly filter: string } {
  switch (step.kind) {
    case 'merge':
      return { call: isFiltered(step.spec) ? 'filtered merge' : 'merge', filter: filterName(step.spec) };
    case 'append':
    case 'overwrite':
      return { call: 'append', filter: '' };
    case 'update':
      return {
        call: 'change',
        filter: `the predicate or the new value of ${namesOf(step.set.map(({ column }) => column))}`,
      };
    case 'delete':
      return { call: 'change', filter: step.parameter ?? 'the predicate' };
    case 'add columns':
      return {
        call: 'change',
        filter: `the expression of the new column ${namesOf(step.columns.map(({ name }) => name))}`,
      };
    case 'alter columns':
      return { call: 'change', filter: `the data_type of ${namesOf(step.alterations.map(({ path }) => path))}` };
    case 'add null columns':
    case 'drop columns':
    case 'update field metadata':
    case 'drop index':
      return { call: 'change', filter: 'the request' };
  }
}

/** The engine does not say which of them it means. */
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

/** The engine does not say which of two filters it means. */
function filterName({ whenMatchedUpdateAll: update, whenNotMatchedBySourceDelete: remove }: MergeSpec): string {
  if (typeof update === 'object' && typeof remove === 'object') return 'a filter';
  return typeof update === 'object'
    ? 'the filter of when_matched_update_all'
    : 'the filter of when_not_matched_by_source_delete';
}
