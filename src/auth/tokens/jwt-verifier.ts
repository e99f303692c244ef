/**
 * Access tokens that are JWTs of one configured issuer (RFC 9068, RFC 7519), checked here without a request to the issuer.
 *
 * Answers for tokens whose `iss` is that issuer; the other verifiers answer for all others. The audience excludes an ID token of
 * the same issuer, whose audience is the client: so the audience set here must name this service alone and never be a client's id.
 *
 * Fails closed. The service fetches keys at first use and holds them, so tokens with a known key work while the issuer is down;
 * the answer to a token with a new key is then `IssuerUnavailable`, since the token may be valid.
 */
import { createRemoteJWKSet, customFetch, errors, type RemoteJWKSet } from 'jose';
import { type Clock, ExpiringCache } from '../../kernel/clock.ts';
import type { Principal } from '../../kernel/request-scope.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { AccessSetupError } from '../challenge.ts';
import { boundedFetch, RemoteDocument } from '../remote-document.ts';
import { type IssuerLocation, type IssuerMetadata, issuerMetadata, requireSecure } from './issuer-metadata.ts';
import {
  type CheckedToken,
  checkToken,
  claimedIssuer,
  type ExpectedToken,
  principalFrom,
  refusalOf,
  unknownKey,
} from './jwt.ts';
import type { Credential, Verifier } from './verifier.ts';

/**
 * There is at least one of `audiences`, and a token must be made out to one of them. `algorithms` are asymmetric ones only, and
 * `clockSkewMs` is at most 300,000.
 */
export interface JwtIssuerSettings extends IssuerLocation, ExpectedToken {
  readonly groupClaims: readonly string[];
}

/** With a symmetric algorithm the verifying key can sign; the service must never take a public key for such a secret. */
const asymmetricAlgorithms: readonly string[] = [
  ...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  ...['ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519'],
];

export const jwtIssuerDefaults = {
  groupClaims: ['groups'],
  allowHttp: false,
  timeoutMs: 5_000,
  algorithms: asymmetricAlgorithms,
  tokenTypes: ['at+jwt', 'JWT'],
  clockSkewMs: 30_000,
} as const satisfies Partial<JwtIssuerSettings>;

const maxClockSkewMs = 300_000;

export class JwtVerifier implements Verifier {
  readonly #settings: JwtIssuerSettings;
  readonly #clock: Clock;
  readonly #metadata: RemoteDocument<IssuerMetadata>;
  readonly #keys: RemoteDocument<RemoteJWKSet>;
  readonly #principals: ExpiringCache<Principal>;

  /** `AccessSetupError` for settings that would accept tokens of others. Sends no request before the first token. */
  constructor(settings: JwtIssuerSettings, clock: Clock, logger: Pick<Logger, 'warn'>) {
    requireSound(settings);
    this.#settings = settings;
    this.#clock = clock;
    this.#metadata = issuerMetadata(settings, clock, logger);
    this.#keys = new RemoteDocument({
      title: `keys of the issuer ${settings.issuer}`,
      load: () => this.#fetchKeys(),
      freshForMs: 600_000,
      clock,
      logger,
    });
    this.#principals = new ExpiringCache(10_000, clock);
  }

  async verify(credential: Credential): Promise<Principal | undefined> {
    if (credential.kind !== 'bearer') return undefined;
    const { secret: token, digest } = credential;
    const known = this.#principals.get(digest);
    if (known !== undefined) return known;
    if (claimedIssuer(token) !== this.#settings.issuer) return undefined;

    const { claims, endsAtMs } = await this.#checked(token);
    const principal = principalFrom(claims, this.#settings.issuer, this.#settings.groupClaims);
    // A key that the issuer has withdrawn is accepted for a minute at most.
    this.#principals.set(digest, principal, Math.min(this.#clock.nowMs() + 60_000, endsAtMs));
    return principal;
  }

  /** An unknown key may be new: the service fetches the keys once more, as often as the cooldown allows. */
  async #checked(token: string): Promise<CheckedToken> {
    const keys = await this.#keys.current();
    try {
      return await this.#checkedWith(keys, token);
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey)) throw refusalOf(error);
    }
    const newer = await this.#keys.newerThan(keys);
    if (newer === undefined) throw unknownKey();
    return this.#checkedWith(newer, token).catch((error: unknown) => {
      throw refusalOf(error);
    });
  }

  #checkedWith(keys: RemoteJWKSet, token: string): Promise<CheckedToken> {
    return checkToken(token, keys, this.#settings, this.#clock.nowMs());
  }

  /**
   * jose fetches and reads the set; `RemoteDocument` decides when, because jose by itself forgets known keys when it cannot
   * renew them, and has no pause after a failure.
   */
  async #fetchKeys(): Promise<RemoteJWKSet> {
    const { jwks_uri: uri = '' } = await this.#metadata.current();
    const url = requireSecure(uri, this.#settings.allowHttp, `jwks_uri of ${this.#settings.issuer}`);
    const keys = createRemoteJWKSet(url, {
      [customFetch]: boundedFetch,
      timeoutDuration: this.#settings.timeoutMs,
      cooldownDuration: Number.POSITIVE_INFINITY,
      cacheMaxAge: Number.POSITIVE_INFINITY,
    });
    await keys.reload();
    return keys;
  }
}

function requireSound({ issuer, audiences, algorithms, clockSkewMs }: JwtIssuerSettings): void {
  if (audiences.length === 0) throw new AccessSetupError(`The issuer ${issuer} needs at least one audience.`);
  if (algorithms.length === 0) throw new AccessSetupError(`The issuer ${issuer} needs at least one algorithm.`);
  const refused = algorithms.find((algorithm) => !asymmetricAlgorithms.includes(algorithm));
  if (refused !== undefined) {
    const choice = asymmetricAlgorithms.join(', ');
    throw new AccessSetupError(`The issuer ${issuer} cannot use the algorithm ${refused}; possible are ${choice}.`);
  }
  if (!(clockSkewMs >= 0 && clockSkewMs <= maxClockSkewMs)) {
    throw new AccessSetupError(`The clock skew of the issuer ${issuer} must be 0 to ${maxClockSkewMs} ms.`);
  }
}
