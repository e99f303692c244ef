/** What an issuer says about a token's holder, read into a principal. Claims are untyped JSON from outside. */
import type { Principal } from '../../kernel/principal.ts';
import { invalidToken } from '../challenge.ts';

export type Claims = Readonly<Record<string, unknown>>;

/**
 * `groupClaims` count together. Each is a claim's name (`groups`, or a URL as some issuers require) or a path into nested
 * claims (`realm_access.roles`); a claim of the whole name wins over the path.
 */
export function principalFrom(claims: Claims, issuer: string, groupClaims: readonly string[]): Principal {
  return {
    subject: subjectOf(claims),
    scopes: scopesOf(claims),
    groups: [...new Set(groupClaims.flatMap((name) => texts(claimAt(claims, name))))],
    issuer,
  };
}

/** A client that acts for itself may have no `sub` (RFC 7662 leaves it out); `azp` is OpenID Connect's client. */
function subjectOf(claims: Claims): string {
  const subject = [claims.sub, claims.client_id, claims.azp].find(isText);
  if (subject === undefined) throw invalidToken('The token names no subject.');
  return subject;
}

/** `scope` is RFC 8693 and RFC 9068; `scp` is what Entra ID (one string) and Okta (an array) send instead. */
function scopesOf({ scope, scp }: Claims): readonly string[] {
  const stated = scope === undefined ? scp : scope;
  const scopes = typeof stated === 'string' ? stated.split(' ').filter(isText) : texts(stated);
  return [...new Set(scopes)];
}

function claimAt(claims: Claims, name: string): unknown {
  if (Object.hasOwn(claims, name)) return claims[name];
  return name.split('.').reduce<unknown>((value, key) => (isClaims(value) ? value[key] : undefined), claims);
}

const isClaims = (value: unknown): value is Claims => typeof value === 'object' && value !== null;
/** Half a surrogate pair would turn into U+FFFD on its way into the policy, and make two names one. */
const isText = (value: unknown): value is string => typeof value === 'string' && value !== '' && value.isWellFormed();

/** The strings of an array, or a single string as an array of one; anything else in it is not a group. */
const texts = (value: unknown): readonly string[] => (Array.isArray(value) ? value : [value]).filter(isText);
