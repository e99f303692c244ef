/**
 * The service's own issuer, for use without an authorization server: `lancegate token` mints, the service verifies.
 *
 * Both read the same key, from a file in the data folder or from the catalog; the first of them makes it (`issuer-key.ts`). Its
 * tokens cannot be revoked one by one, so they should be short-lived; API keys are for long-lived access. A rotation ends all
 * tokens of an old key.
 *
 * A running service accepts a rotated key within a second, and at once for a token that names an unknown key. A key that is
 * damaged, missing, or cannot be read changes nothing and is logged.
 */
import { randomUUID } from 'node:crypto';
import { decodeProtectedHeader, errors, SignJWT } from 'jose';
import type { IssuerKeyRecords } from '../../catalog/credentials.ts';
import { type Clock, ExpiringCache } from '../../kernel/clock.ts';
import { invalidInput } from '../../kernel/errors.ts';
import type { Principal } from '../../kernel/request-scope.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { invalidToken } from '../challenge.ts';
import { type AcceptedKey, type IssuerKeys, openIssuerKeys, readIssuerKeys, signatureAlgorithm } from './issuer-key.ts';
import { type CheckedToken, checkToken, claimedIssuer, type ExpectedToken, principalFrom, refusalOf } from './jwt.ts';
import type { Credential, Verifier } from './verifier.ts';

interface TokenRequest {
  readonly subject: string;
  readonly scopes: readonly string[];
  readonly groups?: readonly string[];
  readonly expiresAfterMs: number;
}

/** The keys of one read, and the principals that were verified with them. */
interface Held {
  readonly keys: IssuerKeys;
  readonly principals: ExpiringCache<Principal>;
}

const audience = 'lancegate';
const tokenType = 'at+jwt';
const principalIssuer = 'lancegate';
/** RFC 6749 section 3.3: a scope has no space, `"` or `\`. */
const scopeForm = /^[\x21\x23-\x5b\x5d-\x7e]+$/;

export class OwnIssuer implements Verifier {
  readonly #records: IssuerKeyRecords;
  readonly #clock: Clock;
  readonly #logger: Pick<Logger, 'info' | 'warn'> | undefined;
  #held: Held;
  /** Of the keys when they were last checked, whether they were usable or not. */
  #signature: string;
  #lookedAtMs: number;
  #looking: Promise<void> | undefined;

  private constructor({ records, clock, logger, keys, signature }: OwnIssuerParts) {
    this.#records = records;
    this.#clock = clock;
    this.#logger = logger;
    this.#held = this.#hold(keys);
    this.#signature = signature;
    this.#lookedAtMs = clock.nowMs();
  }

  /** Reads the keys, or makes the first one. `AccessSetupError` if they cannot be trusted or read. */
  static async open(
    records: IssuerKeyRecords,
    clock: Clock,
    logger?: Pick<Logger, 'info' | 'warn'>,
  ): Promise<OwnIssuer> {
    const signature = await records.signature(); // taken before the read, so that the next check finds a later key
    const keys = await openIssuerKeys(records);
    return new OwnIssuer({ records, clock, logger, keys, signature });
  }

  /** Signs an access token. `InvalidInput` for a request that no token could carry. */
  mint({ subject, scopes, groups = [], expiresAfterMs }: TokenRequest): Promise<string> {
    if (subject === '') throw invalidInput('A token needs a subject.');
    const misfit = scopes.find((scope) => !scopeForm.test(scope));
    if (misfit !== undefined) throw invalidInput(`'${misfit}' cannot be a scope.`);
    if (!(expiresAfterMs >= 1_000)) throw invalidInput('A token must live for at least one second.');

    const { issuer, signingId, privateKey } = this.#held.keys;
    const nowSeconds = Math.floor(this.#clock.nowMs() / 1_000);
    return new SignJWT({ scope: scopes.join(' '), groups: [...groups] })
      .setProtectedHeader({ alg: signatureAlgorithm, typ: tokenType, kid: signingId })
      .setIssuer(issuer)
      .setAudience(audience)
      .setSubject(subject)
      .setIssuedAt(nowSeconds)
      .setExpirationTime(nowSeconds + Math.floor(expiresAfterMs / 1_000))
      .setJti(randomUUID())
      .sign(privateKey);
  }

  async verify(credential: Credential): Promise<Principal | undefined> {
    if (credential.kind !== 'bearer') return undefined;
    const { secret: token, digest } = credential;
    if (this.#clock.nowMs() >= this.#lookedAtMs + 1_000) await this.#look();
    const known = this.#held.principals.get(digest);
    if (known !== undefined) return known;
    if (claimedIssuer(token) !== this.#held.keys.issuer) return undefined;
    if (this.#acceptedFor(token).length === 0) await this.#look();
    const { principals } = this.#held;
    const { checked, key } = await this.#checked(token);
    const principal = principalFrom(checked.claims, principalIssuer, ['groups']);
    principals.set(digest, principal, Math.min(checked.endsAtMs, key.acceptedUntilMs));
    return principal;
  }

  /** Tokens of earlier releases name no key: every accepted key is tried. */
  #acceptedFor(token: string): readonly AcceptedKey[] {
    const id = keyIdOf(token);
    const nowMs = this.#clock.nowMs();
    return this.#held.keys.accepted.filter((key) => key.acceptedUntilMs > nowMs && (id === undefined || key.id === id));
  }

  async #checked(token: string): Promise<{ readonly checked: CheckedToken; readonly key: AcceptedKey }> {
    let failure: unknown;
    for (const key of this.#acceptedFor(token)) {
      try {
        return { checked: await this.#checkedBy(key, token), key };
      } catch (error) {
        failure = error;
        if (!(error instanceof errors.JWSSignatureVerificationFailed)) break;
      }
    }
    throw failure === undefined
      ? invalidToken('The token is signed with a key that was replaced, or with none of this service.')
      : refusalOf(failure);
  }

  /** Minting and verifying share the machine's clock, so this tolerates no difference. */
  #checkedBy({ publicKey }: AcceptedKey, token: string): Promise<CheckedToken> {
    const expected: ExpectedToken = {
      issuer: this.#held.keys.issuer,
      audiences: [audience],
      algorithms: [signatureAlgorithm],
      tokenTypes: [tokenType],
      clockSkewMs: 0,
    };
    return checkToken(token, () => publicKey, expected, this.#clock.nowMs());
  }

  /** One check at a time, however many requests need one. Never rejects. */
  #look(): Promise<void> {
    this.#looking ??= this.#lookOnce().finally(() => {
      this.#looking = undefined;
    });
    return this.#looking;
  }

  async #lookOnce(): Promise<void> {
    const signature = await this.#records.signature().catch(() => 'unreadable');
    this.#lookedAtMs = this.#clock.nowMs();
    if (signature === this.#signature) return;
    this.#signature = signature;
    try {
      const keys = await readIssuerKeys(this.#records);
      const isOther = keys.signingId !== this.#held.keys.signingId;
      this.#held = this.#hold(keys);
      if (isOther) this.#logger?.info({ keyId: keys.signingId }, 'the key of the own issuer was replaced');
    } catch (error) {
      this.#logger?.warn({ error }, 'the key of the own issuer cannot be used: the keys stay as they are');
    }
  }

  #hold(keys: IssuerKeys): Held {
    return { keys, principals: new ExpiringCache(1_000, this.#clock) };
  }
}

interface OwnIssuerParts {
  readonly records: IssuerKeyRecords;
  readonly clock: Clock;
  readonly logger: Pick<Logger, 'info' | 'warn'> | undefined;
  readonly keys: IssuerKeys;
  readonly signature: string;
}

function keyIdOf(token: string): string | undefined {
  try {
    return decodeProtectedHeader(token).kid;
  } catch {
    return undefined; // translated: the check of the token says why
  }
}
