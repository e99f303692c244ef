import { hash } from 'node:crypto';
import type { Principal } from '../kernel/request-scope.ts';
import { invalidToken, UnauthenticatedError } from './challenge.ts';
import type { Credential, Verifier } from './tokens/verifier.ts';

/** The request headers that can carry a credential, by their lower-case names. */
export interface CredentialHeaders {
  readonly authorization?: string | undefined;
  readonly 'x-api-key'?: string | undefined;
}

/** RFC 6750 section 2.1 takes the scheme in any case, one or more spaces, then a b64token. */
const bearer = /^bearer +([A-Za-z0-9\-._~+/]+=*)$/i;

/**
 * Asks one verifier after the other until one knows the credential, and says whose it is.
 *
 * `Authorization` wins over `x-api-key`, and nothing falls back from one to the other: generated clients send both
 * when both are configured, and the LanceDB SDKs send a placeholder key together with an OAuth token. An empty header counts
 * as absent.
 */
export class Authenticator {
  readonly #verifiers: readonly Verifier[];

  constructor(verifiers: readonly Verifier[]) {
    this.#verifiers = verifiers;
  }

  /** `Unauthenticated` (an `UnauthenticatedError`, see `challengeFor`), `IssuerUnavailable`, `SlowDown`. */
  async authenticate(headers: CredentialHeaders): Promise<Principal> {
    const credential = credentialIn(headers);
    for (const verifier of this.#verifiers) {
      const principal = await verifier.verify(credential);
      if (principal !== undefined) return principal;
    }
    throw invalidToken('No issuer this service trusts vouches for the token.');
  }
}

function credentialIn(headers: CredentialHeaders): Credential {
  const { authorization, 'x-api-key': apiKey } = headers;
  if (authorization) {
    const secret = bearerToken(authorization);
    return { kind: 'bearer', secret, digest: hash('sha256', secret, 'base64') };
  }
  if (apiKey) return { kind: 'api-key', secret: apiKey };
  throw new UnauthenticatedError('no_credentials', 'The request carries no credential.');
}

function bearerToken(authorization: string): string {
  const token = bearer.exec(authorization)?.[1];
  if (token === undefined) {
    throw new UnauthenticatedError('invalid_request', 'The Authorization header must read: Bearer, a space, a token.');
  }
  return token;
}
