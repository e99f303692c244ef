import type { Layout } from '../../engine/port/engine.ts';
import {
  type Corrections,
  chosenSmall,
  correctedFactor,
  type Estimate,
  estimateCost,
  guessCost,
  noCorrections,
  type Way,
} from '../decide/estimate.ts';
import { type Choice, chooseRenewal, chooseTidying, type UpkeepLimits } from '../decide/policy.ts';
import type { BranchRef } from '../job.ts';
import { BranchHistory } from './branch-history.ts';

const commitsToLook = 2;
const commitsToLookAnew = 16;

interface Measured {
  readonly heldMs: number;
  readonly durationMs: number;
  /** Versions were removed as well, for which the engine reads all there are: that says nothing of the way. */
  readonly isPruned: boolean;
}

/** A branch that is looked after: what was seen of it, what tidying it would cost, and when to look again. */
export class WatchedBranch {
  readonly target: BranchRef;
  readonly history: BranchHistory;
  readonly #limits: UpkeepLimits;
  /** undefined until the branch was looked at. */
  #estimate: Estimate | undefined;
  /** How many commits there were then, where more can make another choice possible. */
  #commitsAtLook = Number.POSITIVE_INFINITY;
  #corrections: Corrections = noCorrections;
  #restUntilMs = 0;
  #tidyingRestUntilMs = 0;
  #failures = 0;
  #isWarmed = false;

  constructor(
    { table, tableId, branch, location }: BranchRef,
    limits: UpkeepLimits & { readonly retentionMs: number },
  ) {
    this.target = { table, tableId, branch, location };
    this.history = new BranchHistory(limits.retentionMs);
    this.#limits = limits;
  }

  /** Whether looking at it would lead to something. `mayPrune`: to the removal of versions, too. */
  isDue(nowMs: number, mayPrune = true): boolean {
    if (nowMs < this.#restUntilMs) return false;
    if (this.#estimate !== undefined && !this.#isOutdated)
      return this.#choose(nowMs, this.#estimate, mayPrune) !== undefined;
    return this.history.commitsSinceOptimize >= commitsToLook || this.history.prunableVersions(nowMs) > 0;
  }

  /** What was estimated is not so any more. */
  lookAgain(): void {
    this.#estimate = undefined;
  }

  /** With few fragments there is nothing small to put together, and then there is. */
  get #isOutdated(): boolean {
    return this.history.commitsSinceOptimize >= Math.max(commitsToLookAnew, 2 * this.#commitsAtLook);
  }

  /** True the first time only. */
  beginWarming(): boolean {
    const isFirst = !this.#isWarmed;
    this.#isWarmed = true;
    return isFirst;
  }

  /** After a failure without the small ones: what the engine refuses to do to some it may still do to all. */
  estimateOf(layout: Layout): Estimate {
    const estimate = estimateCost(layout, this.#corrections, this.#limits);
    return this.#failures === 0 ? estimate : { ...estimate, small: undefined };
  }

  /** What is to be done now; if that is nothing, what `layout` showed is remembered until it is something. */
  chooseFor(layout: Layout, nowMs: number, mayPrune = true): Choice | undefined {
    const estimate = this.estimateOf(layout);
    this.#estimate = estimate;
    this.#commitsAtLook = estimate.small === undefined ? this.history.commitsSinceOptimize : Number.POSITIVE_INFINITY;
    return this.#choose(nowMs, estimate, mayPrune);
  }

  /** What was done to what `layout` showed has ended. */
  learn(layout: Layout, way: Way, { heldMs, durationMs, isPruned }: Measured): void {
    const known = this.#corrections[way];
    const guess = way === 'small' ? chosenSmall(layout, known, this.#limits) : guessCost(layout, way);
    if (guess === undefined) return;
    const isHeld = guess.heldMs !== 0;
    const heldFactor = isHeld ? correctedFactor(known.heldFactor, heldMs / guess.heldMs) : known.heldFactor;
    const tailMs = isPruned ? known.tailMs : durationMs - heldMs;
    this.#corrections = { ...this.#corrections, [way]: { heldFactor, tailMs } };
  }

  /**
   * What was done took so long, and is not done again for as long, so that half of the time at most goes into it. Removing
   * versions takes seconds where many are kept; its indexes are renewed meanwhile, in half of that rest at most, or merges
   * would become slower all the while.
   */
  succeeded(way: Way | undefined, tookMs: number, nowMs: number): void {
    this.#failures = 0;
    if (way !== undefined && way !== 'index') this.#tidyingRestUntilMs = nowMs + tookMs;
    else this.#restUntilMs = nowMs + tookMs;
  }

  /** Answers for how long it is left alone: each time twice as long. */
  failed(nowMs: number): number {
    this.#failures += 1;
    const retryAfterMs = Math.min(longestRetryMs, firstRetryMs * 2 ** (this.#failures - 1));
    this.#restUntilMs = nowMs + retryAfterMs;
    return retryAfterMs;
  }

  #choose(nowMs: number, estimate: Estimate, mayPrune: boolean): Choice | undefined {
    const { commitsSinceOptimize, commitsSinceIndex, lossMs, looseLossMs, scanLossMs, scanLossSinceIndexMs } =
      this.history;
    const losses = { commitsSinceOptimize, commitsSinceIndex, lossMs, looseLossMs, scanLossMs, scanLossSinceIndexMs };
    const quietForMs = mayPrune ? this.history.quietForMs(nowMs) : 0;
    const prunableVersions = mayPrune ? this.history.prunableVersions(nowMs) : 0;
    if (nowMs < this.#tidyingRestUntilMs) return chooseRenewal(losses, estimate);
    const keptVersions = this.history.keptVersions(nowMs);
    return chooseTidying({ ...losses, quietForMs, prunableVersions, keptVersions }, estimate, this.#limits);
  }
}

const firstRetryMs = 1_000;
const longestRetryMs = 300_000;
