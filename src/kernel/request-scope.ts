/** What a verified credential says of the client. */
export interface Principal {
  readonly subject: string;
  readonly scopes: readonly string[];
  readonly groups: readonly string[];
  /** Where the credential came from: an issuer's URL, `lancegate` for our own tokens, or `api-key`. */
  readonly issuer: string;
  /** An API key has an id, which is no secret. */
  readonly keyId?: string;
  /** The id of the replica that has verified the credential and sent the request on; absent where this one has. */
  readonly vouchedBy?: string;
}

/** Keys are equal for the same principal and for no other: subjects are unique within their issuer only. */
export const principalKey = ({ issuer, subject }: Pick<Principal, 'issuer' | 'subject'>): string =>
  JSON.stringify([issuer, subject]);

/**
 * These travel with a command from `http/` down: the principal, the deadline, and a signal.
 * `signal` aborts with a `LancegateError` as its reason when the client leaves or the deadline passes. Past the start of a
 * commit it changes nothing: the outcome stands.
 */
export interface RequestScope {
  readonly requestId: string;
  readonly principal: Principal;
  readonly signal: AbortSignal;
  /** How many milliseconds are left until the deadline; undefined without one. */
  remainingMs(): number | undefined;
}

/** Calls `run` when the signal aborts, at once if it has aborted already. The returned function removes the listener. */
export function onAbort(signal: AbortSignal, run: () => void): () => void {
  if (signal.aborted) {
    run();
    return () => undefined;
  }
  signal.addEventListener('abort', run, { once: true });
  return () => signal.removeEventListener('abort', run);
}

export const reasonOf = (signal: AbortSignal): Error => signal.reason;

/** Settles as `work` does, or rejects with the signal's reason if that aborts first. */
export async function firstOf<Result>(work: Promise<Result>, signal: AbortSignal): Promise<Result> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const stopListening = onAbort(signal, () => reject(reasonOf(signal)));
  try {
    return await Promise.race([work, aborted]);
  } finally {
    stopListening();
  }
}
