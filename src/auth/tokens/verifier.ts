import type { Principal } from '../../kernel/request-scope.ts';

/** An API key may also come as a bearer token. */
export type Credential =
  | { readonly kind: 'api-key'; readonly secret: string }
  | {
      readonly kind: 'bearer';
      readonly secret: string;
      /** Verifiers remember the secret by its SHA-256: no cache, dump or log holds a token. */
      readonly digest: string;
    };

/**
 * Vouches for one kind of credential. `undefined` means "not of my kind": the authenticator asks the next verifier.
 * `Unauthenticated` for a credential of its kind that is not valid, `IssuerUnavailable` where the authorization server
 * must decide and does not answer.
 */
export interface Verifier {
  verify(credential: Credential): Promise<Principal | undefined>;
}
