import { hash } from 'node:crypto';
import type { Principal } from '../../kernel/request-scope.ts';

export type Credential = { readonly kind: 'bearer' | 'api-key'; readonly secret: string };

/**
 * Vouches for one sort of credential. `undefined` means "not of my sort": the next one is asked. Throws
 * `LancegateError` `Unauthenticated` for a credential of its sort that is not valid, and `IssuerUnavailable` when it
 * cannot tell because the authorization server does not answer.
 */
export interface Verifier {
  verify(credential: Credential): Promise<Principal | undefined>;
}

/** What a token is remembered by, so that no cache, dump or log of ours ever holds one. */
export const hashToken = (token: string): string => hash('sha256', token, 'base64');
