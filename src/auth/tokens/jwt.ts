/** Every JWT is checked here, whichever issuer signed it; a failed check becomes an error, and the claims a principal. */
import { decodeJwt, errors, type JWTPayload, type JWTVerifyGetKey, jwtVerify } from 'jose';
import { LancegateError } from '../../kernel/errors.ts';
import type { Principal } from '../../kernel/request-scope.ts';
import { invalidToken } from '../challenge.ts';

export interface ExpectedToken {
  readonly issuer: string;
  readonly audiences: readonly string[];
  readonly algorithms: readonly string[];
  /** `typ` headers that are accepted are here without `application/`, in any case; a token without one counts as `JWT`. */
  readonly tokenTypes: readonly string[];
  /** How much clocks may differ, for `exp` and `nbf`. */
  readonly clockSkewMs: number;
}

export interface CheckedToken {
  readonly claims: JWTPayload;
  /** When the token stops being valid, with the tolerated difference of clocks. */
  readonly endsAtMs: number;
}

/** The JWT's claims, if they hold at `nowMs`; else throws what jose throws or a refusal: see `refusalOf`. */
export async function checkToken(
  token: string,
  keys: JWTVerifyGetKey,
  expected: ExpectedToken,
  nowMs: number,
): Promise<CheckedToken> {
  const { payload: claims, protectedHeader } = await jwtVerify(token, keys, {
    issuer: expected.issuer,
    audience: [...expected.audiences],
    algorithms: [...expected.algorithms],
    requiredClaims: ['exp'],
    clockTolerance: expected.clockSkewMs / 1_000,
    currentDate: new Date(nowMs),
  });
  const type = plainType(protectedHeader.typ ?? 'JWT');
  if (!expected.tokenTypes.some((accepted) => plainType(accepted) === type)) {
    throw invalidToken('The token is not an access token.');
  }
  return { claims, endsAtMs: (claims.exp ?? 0) * 1_000 + expected.clockSkewMs };
}

/** What the token says before any check: good for choosing its verifier, and for nothing else. */
export function claimedIssuer(token: string): string | undefined {
  try {
    return decodeJwt(token).iss;
  } catch (error) {
    if (error instanceof errors.JWTInvalid) return undefined;
    throw error;
  }
}

/** RFC 7515 4.1.9: `application/` may be left out, and a media type knows no case. */
const plainType = (typ: string): string => typ.toLowerCase().replace(/^application\//, '');

/**
 * The error that the caller gets for a failed check; an error that is not about the token means the issuer's keys are
 * unusable.
 */
export function refusalOf(error: unknown): LancegateError {
  if (error instanceof LancegateError) return error;
  if (error instanceof errors.JWTExpired) return invalidToken('The token has expired.');
  if (error instanceof errors.JWTClaimValidationFailed) {
    return invalidToken(`The claim ${error.claim} of the token does not fit.`, { reason: error.reason });
  }
  if (error instanceof errors.JOSEAlgNotAllowed) {
    return invalidToken('The token is signed with an algorithm this service does not accept.');
  }
  if (error instanceof errors.JWSSignatureVerificationFailed) {
    return invalidToken('The signature of the token does not match.');
  }
  if (error instanceof errors.JWKSNoMatchingKey) return unknownKey();
  if (error instanceof errors.JOSEError) return invalidToken('The token cannot be read.', { reason: error.code });
  return new LancegateError('IssuerUnavailable', 'The keys of the authorization server cannot be used.', {
    cause: error,
  });
}

export const unknownKey = (): LancegateError =>
  invalidToken('The token is signed with a key its issuer does not publish.');

/** It comes from outside, and nothing has checked its types. */
type Claims = Readonly<Record<string, unknown>>;

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

/** A client that acts for itself may have no `sub` (RFC 7662 leaves it out); `azp` is the client in OpenID Connect. */
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
/** Half a surrogate pair would become U+FFFD on its way into the policy, and two names would be one. */
const isText = (value: unknown): value is string => typeof value === 'string' && value !== '' && value.isWellFormed();

/** An array gives its strings, and a single string counts as an array of one; anything else in it is not a group. */
const texts = (value: unknown): readonly string[] => (Array.isArray(value) ? value : [value]).filter(isText);
