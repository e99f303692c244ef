/** What every JWT is checked for, whichever issuer signed it, and the error of a failed check. */
import { decodeJwt, errors, type JWTPayload, type JWTVerifyGetKey, jwtVerify } from 'jose';
import { LancegateError } from '../../kernel/errors.ts';
import { invalidToken } from '../challenge.ts';

export interface ExpectedToken {
  readonly issuer: string;
  readonly audiences: readonly string[];
  readonly algorithms: readonly string[];
  /** `typ` headers that are let in, without `application/`, in any case; a token without one counts as `JWT`. */
  readonly tokenTypes: readonly string[];
  /** Difference of clocks forgiven at `exp` and `nbf`. */
  readonly clockSkewMs: number;
}

export interface CheckedToken {
  readonly claims: JWTPayload;
  /** When it stops being valid, the forgiven difference of clocks included. */
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

/** What the token says before anything is checked: good for choosing who checks it, for nothing else. */
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
