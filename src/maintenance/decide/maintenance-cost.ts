/** What maintenance costs: guessed from the layout of a branch, corrected by what it took there before. */
import type { FragmentFacts, Layout } from '../../engine/port/engine.ts';

export interface JobCost {
  /** Writers wait for it. */
  readonly lockedMs: number;
  /** Writers go on beside it. */
  readonly backgroundMs: number;
}

/** Background work costs the writers about half of one of two cores. */
export const priceOf = ({ lockedMs, backgroundMs }: JobCost): number => lockedMs + backgroundMs / 2;

/** Measured time by guessed time. */
export interface CostFactors {
  readonly compact: number;
  readonly index: number;
}

export const noFactors: CostFactors = { compact: 1, index: 1 };

/** A measurement that differs from the guess by more counts as an accident. */
const largestFactor = 20;

/** Half of it is new, since one slow run on a busy machine says little of the next. */
export const corrected = (known: number, guessMs: number, measuredMs: number): number =>
  Math.min(largestFactor, Math.max(1 / largestFactor, (known + (known * measuredMs) / Math.max(1, guessMs)) / 2));

export const liveRows = ({ rows, deletedRows }: FragmentFacts): number => rows - deletedRows;

/** Guesses of the engine's compaction, its commit, and a BTREE index; two cores, local ext4 (docs/adr/0006). */
const msToBegin = 20;
const msPerRow = 0.0001;
const msPerMb = 2.5;
const msToCommit = 5;
const msPerFragment = 0.2;
const indexMsPerRow = 0.00015;

export const rewriteMs = ({ bytes, rows }: Layout, fragments: readonly FragmentFacts[]): number => {
  const msPerRewrittenRow = msPerRow + (rows === 0 ? 0 : (bytes / rows / 1e6) * msPerMb);
  return msToBegin + msPerRewrittenRow * fragments.reduce((sum, fragment) => sum + liveRows(fragment), 0);
};

export const commitMs = (fragments: number): number => msToCommit + fragments * msPerFragment;

/** How many fragments a compaction can replace while writers wait for so long. */
export const fragmentsWithin = (lockedMs: number): number => Math.floor((lockedMs - msToCommit) / msPerFragment);

export const indexMs = ({ rows }: Layout, columns: number): number => columns * (msToBegin + rows * indexMsPerRow);
