/** An index that was built gets into a branch so: its commit takes milliseconds, and may follow commits made meanwhile. */
import { parseFieldPath, resolveField } from '../arrow/schema/field-path.ts';
import type { BranchHead, Snapshot } from '../engine/port/dataset.ts';
import type { IndexSpec } from '../engine/port/index-spec.ts';
import { isMade } from '../engine/port/refusal.ts';
import type { PreparedCommit, Upkeep } from '../engine/port/upkeep.ts';
import { LancegateError } from '../kernel/errors.ts';
import type { Properties } from '../kernel/ids.ts';
import {
  type Committed,
  type Head,
  unchanged,
  type WriteBatch,
  type WriteKind,
  type WriteRequest,
} from '../write/write.ts';
import { requireFree } from './index-names.ts';

export type IndexedBranch = Pick<Snapshot, 'schema'> & BranchHead & Upkeep;

export interface IndexRequest extends WriteRequest {
  readonly kind: 'index';
  readonly spec: IndexSpec;
  readonly isReplacing: boolean;
  /** The dataset that prepared the commit. */
  readonly dataset: IndexedBranch;
  /** Its owner discards it when the request is over. */
  readonly prepared: PreparedCommit;
  /** Builds the index while the branch is locked, in a few seconds; undefined where it takes longer. */
  readonly prepareLocked: (() => Promise<PreparedCommit>) | undefined;
}

export const indexKind: WriteKind<IndexRequest> = {
  batch([request]: readonly [IndexRequest]): WriteBatch {
    return { numRows: 0, on: [], commit: (head) => commitIndex(request, head), discard: () => undefined };
  },
};

const noRows = { numInsertedRows: 0, numUpdatedRows: 0, numDeletedRows: 0 } as const;

async function commitIndex(request: IndexRequest, head: Head): Promise<Committed> {
  const { dataset, spec, isReplacing, scope } = request;
  scope.signal.throwIfAborted();
  await dataset.refresh();
  requireFree((await dataset.layout()).indexes, spec, isReplacing);
  await commitBuilt(request, head.note?.([noRows]));
  await head.dataset.refresh();
  return { ...unchanged([request], head), version: await head.dataset.version() };
}

/** Writers that change every fragment in place, time and again, leave nothing of an index that was built beside them. */
async function commitBuilt(
  { dataset, spec, prepared, prepareLocked }: IndexRequest,
  properties: Properties | undefined,
): Promise<void> {
  if (isMade(await prepared.commit(properties))) return;
  if (resolveField(await dataset.schema(), parseFieldPath(spec.column)) === undefined) throw columnDropped(spec);
  const again = await prepareLocked?.();
  try {
    if (again === undefined || !isMade(await again.commit(properties))) throw columnChanged(spec);
  } finally {
    again?.discard();
  }
}

const columnDropped = ({ column }: IndexSpec): LancegateError =>
  new LancegateError(
    'TableColumnNotFound',
    `column ${column} was dropped while its index was built; nothing was written`,
  );

export const columnChanged = ({ column }: IndexSpec): LancegateError =>
  new LancegateError(
    'ConcurrentModification',
    `all values of column ${column} were written anew while its index was built; nothing was written`,
    { retryAfterSeconds: 1 },
  );
