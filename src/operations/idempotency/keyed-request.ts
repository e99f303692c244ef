import { createHash } from 'node:crypto';
import type { KeyedAnswer, KeyedRequest, RequestOwner } from '../../catalog/port.ts';
import type { IdempotencyKey } from '../../kernel/ids.ts';
import { type Principal, principalKey } from '../../kernel/principal.ts';

/** What came with an `Idempotency-Key`. */
export interface IdempotencyHeader {
  readonly key: IdempotencyKey;
  /** The SHA-256 of the whole body in hexadecimal; reads the part of it that is still unread. Once only. */
  readonly bodyDigest: () => Promise<string>;
}

/** A command that may carry an `Idempotency-Key`. All its other members but the source decide what it does. */
export interface RepeatableCommand {
  readonly source: unknown;
  readonly idempotency: IdempotencyHeader | undefined;
}

/** A request with an `Idempotency-Key`, whose body may not have been read yet. */
export interface Keyed extends Pick<KeyedRequest, 'owner' | 'key' | 'requestDigest'> {
  /** Reads what is left of the body. May be called again. */
  request(): Promise<KeyedRequest>;
}

export function keyedRequest(
  { key, bodyDigest }: IdempotencyHeader,
  owner: RequestOwner,
  digestOfRequest: string,
  expiresAtMs: number,
): Keyed {
  const known = { owner, key, requestDigest: digestOfRequest };
  let whole: Promise<KeyedRequest> | undefined;
  return {
    ...known,
    request: () => {
      whole ??= bodyDigest().then((digest) => ({ ...known, bodyDigest: digest, expiresAtMs }));
      return whole;
    },
  };
}

export const keyedAnswer = (request: KeyedRequest, result: object): KeyedAnswer => ({
  ...request,
  answer: JSON.stringify(result),
});

export const ownerOf = (principal: Principal): RequestOwner => principalKey(principal) as RequestOwner;

/**
 * Of everything that decides what the request does, as it was understood: spelling and order of the parameters make no
 * difference, and how long the client wants to wait is no part of it.
 */
export function requestDigest(operation: string, command: RepeatableCommand): string {
  const { source: _, idempotency: __, ...asked } = command;
  return createHash('sha256')
    .update(JSON.stringify([operation, asked], inOrder))
    .digest('hex');
}

/** For `JSON.stringify`: objects with their names in order. */
function inOrder(_name: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}
