import type { Principal } from './principal.ts';

/**
 * What travels with a command from `http/` down: who asks, until when, and whether they still listen.
 * `signal` aborts with a `LancegateError` as its reason when the client left or the deadline passed. Past a commit's
 * start nobody looks at it any more: the outcome stands (design, flow rule 7).
 */
export interface RequestScope {
  readonly requestId: string;
  readonly principal: Principal;
  readonly signal: AbortSignal;
  /** Milliseconds left until the deadline, or undefined without one. */
  remainingMs(): number | undefined;
}
