/** Until when an order of a change, or of rows, has time, and whose share it counts against. */
export interface ChangeLimits {
  readonly timeoutMs: number | undefined;
  /** `principalKey`. */
  readonly principal: string | undefined;
}

export const noLimits: ChangeLimits = { timeoutMs: undefined, principal: undefined };
