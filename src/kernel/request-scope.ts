import type { Principal } from './principal.ts';

/**
 * What travels with a command from `http/` down: who asks, until when, and whether they still listen.
 * `signal` aborts with a `LancegateError` as its reason when the client left or the deadline passed. Once the
 * commit has begun it changes nothing: the outcome stands.
 */
export interface RequestScope {
  readonly requestId: string;
  readonly principal: Principal;
  readonly signal: AbortSignal;
  /** Milliseconds left until the deadline, or undefined without one. */
  remainingMs(): number | undefined;
}
