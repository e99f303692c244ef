import { LancegateError } from '../../kernel/errors.ts';

/**
 * Refusals that a caller of this port acts upon: several source rows match one target row; something is stored already
 * where a dataset was to be created.
 */
export type EngineRefusal = 'ambiguous merge' | 'location taken';
export const isRefusal = (error: unknown, refusal: EngineRefusal): boolean =>
  error instanceof LancegateError && error.internal?.refusal === refusal;

/** This way cannot make the version, and says why: another one may. */
export interface RefusedCommit {
  readonly refused: string;
  readonly version?: undefined;
}

/**
 * What a commit came to. Only one that made its version has written anything. `overtaken`: another program has committed since the head
 * was looked up, so the work begins anew at the head that is there.
 */
export type CommitOutcome<Made = { readonly version: number }> = Made | 'overtaken' | RefusedCommit;

export const isMade = <Made>(outcome: CommitOutcome<Made>): outcome is Made =>
  typeof outcome === 'object' && outcome !== null && !('refused' in outcome);
