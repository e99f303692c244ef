/** Runs the steps of a change on a table of the engine's, which commits one version for each. */
import type { IpcFile } from '../../../arrow/format/ipc-file.ts';
import { type ChangeStep, hasClientFilter } from '../../port/change.ts';
import type { MergeCounts } from '../../port/merge-spec.ts';
import { filterName, type NativeTable, runMerge } from './native.ts';
import type { EngineCall } from './translate-errors.ts';

const nothing = { numInsertedRows: 0, numUpdatedRows: 0, numDeletedRows: 0, numAttempts: 1 };
const empty = Buffer.alloc(0) as Buffer as IpcFile;

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
    default:
      return { ...nothing, version: await changeColumns(table, step, file) };
  }
}

type ColumnStep = Exclude<ChangeStep, { kind: 'merge' | 'append' | 'overwrite' | 'update' | 'delete' }>;

/** Returns the version that it made. */
async function changeColumns(table: NativeTable, step: ColumnStep, file: IpcFile): Promise<number> {
  switch (step.kind) {
    case 'add columns': {
      const columns = step.columns.map(({ name, value }) => ({ name, valueSql: value }));
      return (await table.addColumns(columns)).version;
    }
    case 'add null columns':
      return (await table.addColumnsWithSchema(file)).version;
    case 'alter columns': {
      const alterations = step.alterations.map(({ path, rename, isNullable: nullable, dataType }) => ({
        ...{ path, rename, nullable, dataType },
      }));
      return (await table.alterColumns(alterations)).version;
    }
    case 'drop columns':
      return (await table.dropColumns([...step.columns])).version;
    case 'update field metadata': {
      const updates = step.updates.map(({ path, metadata, isWhole: replace }) => ({ path, metadata, replace }));
      return (await table.updateFieldMetadata(updates)).version;
    }
    case 'drop index':
      await table.dropIndex(step.name);
      return table.version();
  }
}

/** What errors of the step are translated as, and how its SQL is called in them. */
export function callOf(step: ChangeStep): { readonly call: EngineCall; readonly filter: string } {
  switch (step.kind) {
    case 'merge':
      return { call: hasClientFilter(step.spec) ? 'filtered merge' : 'merge', filter: filterName(step.spec) };
    case 'append':
    case 'overwrite':
      return { call: 'append', filter: '' };
    case 'update':
      return { call: 'change', filter: 'the predicate or an expression of the updates' };
    case 'delete':
      return { call: 'change', filter: 'the predicate' };
    case 'add columns':
      return { call: 'change', filter: 'an expression of the new columns' };
    case 'alter columns':
      return { call: 'change', filter: 'the data_type of a column' };
    case 'add null columns':
    case 'drop columns':
    case 'update field metadata':
    case 'drop index':
      return { call: 'change', filter: 'the request' };
  }
}
