import type { IpcFile } from '../../../arrow/format/ipc-file.ts';
import type { CheckedSql, Filtered } from '../../../kernel/checked-sql.ts';
import type { MergeCounts, MergeSpec } from '../../port/merge-spec.ts';
import type { NativeMergeBuilder, NativeTable } from './native.ts';

/** Commits one version. Past `timeoutMs` the engine gives up. */
export async function runMerge(
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

/** Whether a client wrote any of the merge's SQL. */
export const hasClientFilter = ({ whenMatchedUpdateAll, whenNotMatchedBySourceDelete }: MergeSpec): boolean =>
  [whenMatchedUpdateAll, whenNotMatchedBySourceDelete].some((when) => typeof when === 'object' && when.isOurs !== true);

/** The engine does not say which of two filters it means. */
export function filterName({ whenMatchedUpdateAll: update, whenNotMatchedBySourceDelete: remove }: MergeSpec): string {
  if (typeof update === 'object' && typeof remove === 'object') return 'a filter';
  return typeof update === 'object'
    ? 'the filter of when_matched_update_all'
    : 'the filter of when_not_matched_by_source_delete';
}

const filterOf = (action: true | Filtered): CheckedSql | undefined => (action === true ? undefined : action.filter);
