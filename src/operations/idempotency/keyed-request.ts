import { createHash } from 'node:crypto';
import type { KeyedAnswer, KeyedRequest, RequestOwner } from '../../catalog/port.ts';
import { type Principal, principalKey } from '../../kernel/principal.ts';
import type { CreateTableCommand, IdempotencyHeader, MergeRowsCommand } from '../commands.ts';

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
export function requestDigest(operation: string, command: CreateTableCommand | MergeRowsCommand): string {
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
