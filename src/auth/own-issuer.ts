/**
 * The service's own issuer, for use without an authorization server: `lancegate token` mints, the service verifies.
 *
 * Both read one key file in the data folder; whoever comes first creates it. Whoever can read it can be anybody, so it
 * has mode 0600 and a file that others may read is refused. Its tokens cannot be revoked singly: they should be short,
 * and API keys be used for what lives long. Removing the file and starting anew ends all of them.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { type CryptoKey, exportJWK, generateKeyPair, importJWK, type JWK, SignJWT } from 'jose';
import type { Clock } from '../kernel/clock.ts';
import { invalidInput } from '../kernel/errors.ts';
import type { Principal } from '../kernel/principal.ts';
import { AccessSetupError } from './access-setup-error.ts';
import { ExpiringCache } from './bounded-cache.ts';
import { defaultClaimNames, principalFrom } from './claims.ts';
import { type CheckedToken, checkToken, claimedIssuer, type ExpectedToken, refusalOf } from './jwt.ts';
import { createPrivateFile, readPrivateFile } from './private-file.ts';
import { hashToken } from './token-hash.ts';
import type { Credential, Verifier } from './verifier.ts';

export interface TokenRequest {
  readonly subject: string;
  readonly scopes: readonly string[];
  readonly groups?: readonly string[];
  readonly expiresAfterMs: number;
}

interface Identity {
  readonly issuer: string;
  readonly privateKey: CryptoKey;
  readonly publicKey: CryptoKey;
}

const algorithm = 'ES256';
const audience = 'lancegate';
const tokenType = 'at+jwt';
const principalIssuer = 'lancegate';
const maxPrincipals = 1_000;
/** RFC 6749 section 3.3: a scope has no space, `"` or `\`. */
const scopeForm = /^[\x21\x23-\x5b\x5d-\x7e]+$/;

export class OwnIssuer {
  readonly verifier: Verifier = { verify: (credential) => this.#verify(credential) };
  readonly #identity: Identity;
  readonly #clock: Clock;
  readonly #principals: ExpiringCache<Principal>;

  private constructor(identity: Identity, clock: Clock) {
    this.#identity = identity;
    this.#clock = clock;
    this.#principals = new ExpiringCache(maxPrincipals, clock);
  }

  /** Reads the key file, or creates it together with its folder. `AccessSetupError` if it cannot be trusted or read. */
  static async open(path: string, clock: Clock): Promise<OwnIssuer> {
    const text = (await readPrivateFile(path)) ?? (await createIdentity(path));
    return new OwnIssuer(await readIdentity(path, text), clock);
  }

  /** A signed access token. `InvalidInput` for a request that no token could carry. */
  mint({ subject, scopes, groups = [], expiresAfterMs }: TokenRequest): Promise<string> {
    if (subject === '') throw invalidInput('A token needs a subject.');
    const misfit = scopes.find((scope) => !scopeForm.test(scope));
    if (misfit !== undefined) throw invalidInput(`'${misfit}' cannot be a scope.`);
    if (!(expiresAfterMs >= 1_000)) throw invalidInput('A token must live for at least one second.');

    const nowSeconds = Math.floor(this.#clock.nowMs() / 1_000);
    return new SignJWT({ scope: scopes.join(' '), groups: [...groups] })
      .setProtectedHeader({ alg: algorithm, typ: tokenType })
      .setIssuer(this.#identity.issuer)
      .setAudience(audience)
      .setSubject(subject)
      .setIssuedAt(nowSeconds)
      .setExpirationTime(nowSeconds + Math.floor(expiresAfterMs / 1_000))
      .setJti(randomUUID())
      .sign(this.#identity.privateKey);
  }

  async #verify({ kind, secret: token }: Credential): Promise<Principal | undefined> {
    if (kind !== 'bearer') return undefined;
    const key = hashToken(token);
    const known = this.#principals.get(key);
    if (known !== undefined) return known;
    if (claimedIssuer(token) !== this.#identity.issuer) return undefined;

    const { claims, endsAtMs } = await this.#checked(token);
    const principal = principalFrom(claims, principalIssuer, defaultClaimNames);
    this.#principals.set(key, principal, endsAtMs);
    return principal;
  }

  /** Minting and verifying share the machine's clock, so no difference is forgiven. */
  async #checked(token: string): Promise<CheckedToken> {
    const { issuer, publicKey } = this.#identity;
    const expected: ExpectedToken = {
      issuer,
      audiences: [audience],
      algorithms: [algorithm],
      tokenTypes: [tokenType],
      clockSkewMs: 0,
    };
    try {
      return await checkToken(token, () => publicKey, expected, this.#clock.nowMs());
    } catch (error) {
      throw refusalOf(error);
    }
  }
}

/** Another process may be doing the same: what the file holds afterwards is the identity of both. */
async function createIdentity(path: string): Promise<string> {
  const { privateKey } = await generateKeyPair(algorithm, { extractable: true });
  const issuer = `urn:lancegate:${randomBytes(16).toString('hex')}`;
  await createPrivateFile(path, `${JSON.stringify({ issuer, key: await exportJWK(privateKey) })}\n`);
  const text = await readPrivateFile(path);
  if (text === undefined) throw new AccessSetupError(`${path} was removed while it was being created.`);
  return text;
}

/** Says nothing of what the file holds: a parser's own message would quote the key. */
async function readIdentity(path: string, text: string): Promise<Identity> {
  try {
    const { issuer, key } = JSON.parse(text) as { issuer: unknown; key: JWK };
    if (typeof issuer !== 'string' || !issuer.startsWith('urn:lancegate:')) throw new TypeError('no issuer');
    const { d: _private, ...publicPart } = key;
    return { issuer, privateKey: await signingKey(key), publicKey: await signingKey(publicPart) };
  } catch {
    throw new AccessSetupError(`${path} is not a key file of this service, or is damaged. Remove it to get a new key.`);
  }
}

async function signingKey(jwk: JWK): Promise<CryptoKey> {
  const key = await importJWK(jwk, algorithm);
  if (key instanceof Uint8Array) throw new TypeError('a symmetric key');
  return key;
}
