/** What a merge knows of its source before it may queue. */
import type { FieldPath } from '../arrow/schema/field-path.ts';
import type { IpcChunk } from '../arrow/schema/schema.ts';
import { type DistinctKeys, readDistinctKeys, readMemberKeys } from '../keys/key-columns.ts';
import type { KeyHasher } from '../keys/key-hasher.ts';
import type { MergeFlags } from './merge-command.ts';

/** Rows, and their keys. */
export interface KeyedRows extends DistinctKeys {
  readonly chunk: IpcChunk;
}

/** A key that is there twice is refused, unless the merge only deletes by source. */
export async function readSourceKeys(
  chunk: IpcChunk,
  on: readonly FieldPath[],
  flags: MergeFlags,
  hasher: KeyHasher,
): Promise<KeyedRows> {
  if (onlyDeletes(flags)) return readMemberKeys(chunk, on, hasher);
  return { chunk, ...(await readDistinctKeys(chunk, on, hasher)) };
}

/** Nothing of the source is written then: only which keys it has counts. */
const onlyDeletes = ({ whenMatchedUpdateAll, whenNotMatchedInsertAll }: MergeFlags): boolean =>
  whenMatchedUpdateAll === false && !whenNotMatchedInsertAll;
