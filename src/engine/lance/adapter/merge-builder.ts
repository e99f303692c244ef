import type { CheckedSql, Filtered } from '../../../kernel/checked-sql.ts';
import type { MergeSpec } from '../../port/engine.ts';
import type { NativeMergeBuilder } from './native.ts';

/** What a merge is to do, as the engine is told. */
export function configured(builder: NativeMergeBuilder, spec: MergeSpec): NativeMergeBuilder {
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
