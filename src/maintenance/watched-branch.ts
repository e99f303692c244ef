import type { Layout } from '../engine/port.ts';
import { BranchHistory } from './branch-history.ts';
import type { BranchRef, OptimizeReport } from './job.ts';
import {
  type Choice,
  type Corrections,
  chooseTidying,
  correctedFactor,
  type Estimate,
  estimateCost,
  guessCost,
  noCorrections,
  type UpkeepLimits,
} from './policy.ts';

const commitsToLook = 2;

/** A branch that is looked after: what was seen of it, what tidying it would cost, and when to look again. */
export class WatchedBranch {
  readonly target: BranchRef;
  readonly history: BranchHistory;
  readonly #limits: UpkeepLimits;
  /** undefined until the branch was looked at. */
  #estimate: Estimate | undefined;
  #corrections: Corrections = noCorrections;
  #restUntilMs = 0;
  #failures = 0;

  constructor(
    { table, tableId, branch, location }: BranchRef,
    limits: UpkeepLimits & { readonly retentionMs: number },
  ) {
    this.target = { table, tableId, branch, location };
    this.history = new BranchHistory(limits.retentionMs);
    this.#limits = limits;
  }

  /** Whether looking at it would lead to something. */
  isDue(nowMs: number): boolean {
    if (nowMs < this.#restUntilMs) return false;
    if (this.#estimate !== undefined) return this.#choose(nowMs, this.#estimate) !== undefined;
    return this.history.commitsSinceOptimize >= commitsToLook || this.history.prunableVersions(nowMs) > 0;
  }

  /** What was estimated is not so any more. */
  lookAgain(): void {
    this.#estimate = undefined;
  }

  estimateOf(layout: Layout): Estimate {
    return estimateCost(layout, this.history.commitsSinceOptimize, this.#corrections);
  }

  /** What is to be done now; if that is nothing, what `layout` showed is remembered until it is something. */
  chooseFor(layout: Layout, nowMs: number): Choice | undefined {
    const estimate = this.estimateOf(layout);
    this.#estimate = estimate;
    return this.#choose(nowMs, estimate);
  }

  /** A tidying of what `layout` showed has ended. */
  learn(layout: Layout, { extent, heldMs, durationMs }: OptimizeReport): void {
    const guess = guessCost(layout, extent);
    const heldFactor = correctedFactor(this.#corrections[extent].heldFactor, heldMs / guess.heldMs);
    this.#corrections = { ...this.#corrections, [extent]: { heldFactor, tailMs: durationMs - heldMs } };
    this.lookAgain();
  }

  succeeded(restUntilMs: number): void {
    this.#failures = 0;
    this.#restUntilMs = restUntilMs;
  }

  /** Answers for how long it is left alone: each time twice as long. */
  failed(nowMs: number): number {
    this.#failures += 1;
    const retryAfterMs = Math.min(longestRetryMs, firstRetryMs * 2 ** (this.#failures - 1));
    this.#restUntilMs = nowMs + retryAfterMs;
    return retryAfterMs;
  }

  #choose(nowMs: number, estimate: Estimate): Choice | undefined {
    const { commitsSinceOptimize, lossMs } = this.history;
    const quietForMs = this.history.quietForMs(nowMs);
    const prunableVersions = this.history.prunableVersions(nowMs);
    return chooseTidying({ commitsSinceOptimize, lossMs, quietForMs, prunableVersions }, estimate, this.#limits);
  }
}

const firstRetryMs = 1_000;
const longestRetryMs = 300_000;
