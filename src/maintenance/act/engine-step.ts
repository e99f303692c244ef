import type { Dataset, Layout } from '../../engine/port/engine.ts';
import { neverAborts } from '../../kernel/read-write-lock.ts';
import type { RecoveryMarks } from '../../table/recovery-marks.ts';
import { isAnythingToPutTogether } from '../decide/fragments.ts';
import type { BranchRef } from '../job.ts';
import type { MoveParts } from './move-together.ts';

/** What one call of the engine did. */
export interface Step {
  readonly heldMs: number;
  readonly removedFragments: number;
  readonly removedVersions: number;
  readonly removedBytes: number;
  readonly isHeldByTag: boolean;
}

export interface StepRequest {
  /** As it was a moment before the turn. */
  readonly layoutBefore: Layout;
  readonly pruneBeforeMs: number;
  readonly leavesIndexes: boolean;
  /** Done under the turn, before the engine is called. `rewrites` says whether it will find anything to put together. */
  readonly prepare: (rewrites: boolean) => Promise<void>;
  readonly onRewritten: () => void;
}

export const nothingRemoved = { removedFragments: 0, removedVersions: 0, removedBytes: 0 } as const;
/**
 * The engine's one call: it puts fragments together, for which writers wait, then removes old versions and brings indexes up
 * to date beside them.
 */
export async function engineStep(
  { locks, recoveryMarks }: MoveParts,
  dataset: Dataset,
  target: BranchRef,
  request: StepRequest,
): Promise<Step> {
  const { layoutBefore, pruneBeforeMs, leavesIndexes, onRewritten } = request;
  // Where there are tags this reads all versions.
  const taggedAtMs = pruneBeforeMs === 0 ? undefined : await dataset.oldestTaggedAtMs();
  const isHeldByTag = taggedAtMs !== undefined && taggedAtMs < pruneBeforeMs;
  const leave = await locks.lockBranch(target.table, target.branch, neverAborts);
  const startMs = performance.now();
  let heldMs: number | undefined;
  const letIn = (): void => {
    heldMs = performance.now() - startMs;
    leave();
  };
  try {
    await dataset.refresh();
    await recoveryMarks.beforeCommit(target.tableId, target.branch, dataset);
    // Nobody waits for the 10 to 20 ms that this takes, unless what was committed meanwhile can make a difference.
    const isSettled = pruneBeforeMs === 0 && isAnythingToPutTogether(layoutBefore);
    const layout = isSettled ? layoutBefore : await dataset.layout();
    const keptFromMs =
      pruneBeforeMs === 0 ? 0 : await keepNewest(recoveryMarks, dataset, target, layout, pruneBeforeMs);
    const rewrites = isAnythingToPutTogether(layout);
    if (!rewrites && leavesIndexes) return { heldMs: performance.now() - startMs, ...nothingRemoved, isHeldByTag };
    await request.prepare(rewrites);
    // The engine would not say that it has found nothing until it has read all versions.
    if (!rewrites) letIn();
    const result = await dataset.optimize({
      pruneBeforeMs: isHeldByTag ? Math.min(taggedAtMs, keptFromMs) : keptFromMs,
      leavesIndexes,
      onRewritten: () => {
        if (!rewrites) return;
        onRewritten();
        letIn();
      },
    });
    await recoveryMarks.acknowledge(target.tableId, target.branch, dataset);
    return { heldMs: heldMs ?? performance.now() - startMs, ...result, isHeldByTag };
  } finally {
    leave();
  }
}

/**
 * Under the turn: a power cut goes back to the newest version from now on, and that is not pruned though it will be an old
 * one, whatever clock it was dated by (P3). Answers from when on versions are kept.
 */
async function keepNewest(
  recoveryMarks: RecoveryMarks,
  dataset: Dataset,
  { tableId, branch }: BranchRef,
  { committedAtMs }: Layout,
  pruneBeforeMs: number,
): Promise<number> {
  await recoveryMarks.acknowledge(tableId, branch, dataset);
  return Math.min(pruneBeforeMs, committedAtMs ?? pruneBeforeMs);
}
