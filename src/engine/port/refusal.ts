import { LancegateError } from '../../kernel/errors.ts';

/**
 * Refusals that a caller of this port acts upon: several source rows match one target row; something is stored already
 * where a dataset was to be created.
 */
export type EngineRefusal = 'ambiguous merge' | 'location taken';
export const isRefusal = (error: unknown, refusal: EngineRefusal): boolean =>
  error instanceof LancegateError && error.internal?.refusal === refusal;
