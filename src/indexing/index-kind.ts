/** How an index that was built gets into a branch: its commit takes milliseconds, and may follow commits made meanwhile. */
import type { BranchHead, HeadCommits } from '../engine/port/dataset.ts';
import type { IndexSpec } from '../engine/port/index-spec.ts';
import type { PreparedCommit, Upkeep } from '../engine/port/upkeep.ts';
import { LancegateError } from '../kernel/errors.ts';
import {
  type Committed,
  type Head,
  unchanged,
  type WriteBatch,
  type WriteKind,
  type WriteRequest,
} from '../write/write.ts';
import { requireFree } from './index-names.ts';

export type IndexedBranch = BranchHead & Upkeep & Pick<HeadCommits, 'note'>;

export interface IndexRequest extends WriteRequest {
  readonly kind: 'index';
  readonly spec: IndexSpec;
  readonly isReplacing: boolean;
  /** The dataset that prepared the commit. */
  readonly dataset: IndexedBranch;
  /** Its owner discards it when the request is over. */
  readonly prepared: PreparedCommit;
}

export const indexKind: WriteKind<IndexRequest> = {
  batch([request]: readonly [IndexRequest]): WriteBatch {
    return { numRows: 0, on: [], commit: (head) => commit(request, head), discard: () => undefined };
  },
};

const noRows = { numInsertedRows: 0, numUpdatedRows: 0, numDeletedRows: 0 } as const;

async function commit(request: IndexRequest, head: Head): Promise<Committed> {
  const { dataset, spec, isReplacing, prepared, scope } = request;
  scope.signal.throwIfAborted();
  await dataset.refresh();
  requireFree((await dataset.layout()).indexes, spec, isReplacing);
  dataset.note(head.note?.([noRows]));
  const made = await prepared.commit().finally(() => dataset.note(undefined));
  if (made === undefined) throw columnChanged(spec);
  await head.dataset.refresh();
  return { ...unchanged([request], head), version: await head.dataset.version() };
}

const columnChanged = ({ column }: IndexSpec): LancegateError =>
  new LancegateError(
    'ConcurrentModification',
    `column ${column} was changed or dropped while its index was built; nothing was written`,
  );
