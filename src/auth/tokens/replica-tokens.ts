/**
 * How replicas of one service vouch for clients to one another: the replica that has authenticated a client signs a token for
 * the one that is to answer. All replicas share the keys; a client has none of them, so a header that it forges proves nothing.
 *
 * A token names its audience, one replica, and lives for a minute. A replica signs with the newest key and makes a new one
 * each day, so the clocks of replicas must agree within a minute. An unknown key is looked up, at most once a second.
 */
import { createSecretKey, type KeyObject, randomBytes } from 'node:crypto';
import { decodeProtectedHeader, SignJWT } from 'jose';
import type { IssuerKeyRecords } from '../../catalog/credentials.ts';
import { type Clock, dayMs, ExpiringCache, type NewId } from '../../kernel/clock.ts';
import { LancegateError } from '../../kernel/errors.ts';
import { isObject } from '../../kernel/json-bounds.ts';
import type { Principal } from '../../kernel/request-scope.ts';
import { invalidToken } from '../challenge.ts';
import { checkToken, claimedIssuer, refusalOf, unknownKey } from './jwt.ts';
import type { Credential, Verifier } from './verifier.ts';

interface ReplicaKey {
  readonly id: string;
  /** It has 32 random bytes in base64url. */
  readonly secret: string;
  readonly createdAtMs: number;
}

interface Deps {
  /** The document is a list of `ReplicaKey`s. */
  readonly keys: Pick<IssuerKeyRecords, 'read' | 'create' | 'replace'>;
  readonly replica: string;
  readonly clock: Clock;
  readonly newId: NewId;
}

interface HeldKey {
  readonly id: string;
  readonly key: KeyObject;
  readonly createdAtMs: number;
}

const issuer = 'lancegate-replica';
const tokenType = 'replica+jwt';
const algorithm = 'HS256';
const tokenLivesMs = 60_000;
const mostPrincipals = 10_000;

export class ReplicaTokens implements Verifier {
  readonly #deps: Deps;
  /** Each stands under its principal and audience. */
  readonly #signed: ExpiringCache<string>;
  /** Each stands under the digest of its token. */
  readonly #verified: ExpiringCache<Principal>;
  /** They are in order, the newest first. */
  #keys: readonly HeldKey[] = [];
  #lookedAtMs = Number.NEGATIVE_INFINITY;
  #looking: Promise<void> | undefined;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#signed = new ExpiringCache(mostPrincipals, deps.clock);
    this.#verified = new ExpiringCache(mostPrincipals, deps.clock);
  }

  /** A token by which `audience`, a replica, knows the principal. Throws what the store throws. */
  async sign(principal: Principal, audience: string): Promise<string> {
    const cacheKey = JSON.stringify([principal, audience]);
    const known = this.#signed.get(cacheKey);
    if (known !== undefined) return known;
    const { id, key } = await this.#signingKey();
    const nowMs = this.#deps.clock.nowMs();
    const token = await new SignJWT({ principal, replica: this.#deps.replica })
      .setProtectedHeader({ alg: algorithm, typ: tokenType, kid: id })
      .setIssuer(issuer)
      .setAudience(audience)
      .setExpirationTime(Math.floor((nowMs + tokenLivesMs) / 1_000))
      .sign(key);
    this.#signed.set(cacheKey, token, nowMs + tokenLivesMs / 2);
    return token;
  }

  async verify(credential: Credential): Promise<Principal | undefined> {
    if (credential.kind !== 'bearer') return undefined;
    const known = this.#verified.get(credential.digest);
    if (known !== undefined) return known;
    if (claimedIssuer(credential.secret) !== issuer) return undefined;
    const { principal, endsAtMs } = await this.#checked(credential.secret);
    this.#verified.set(credential.digest, principal, endsAtMs);
    return principal;
  }

  /** The signature says that a replica has written the claims, perhaps one of another version. */
  async #checked(token: string): Promise<{ readonly principal: Principal; readonly endsAtMs: number }> {
    try {
      const key = await this.#keyOf(token);
      const expected = {
        issuer,
        audiences: [this.#deps.replica],
        algorithms: [algorithm],
        tokenTypes: [tokenType],
        clockSkewMs: 60_000,
      };
      const { claims, endsAtMs } = await checkToken(token, () => key, expected, this.#deps.clock.nowMs());
      const { principal, replica } = claims;
      if (!isPrincipal(principal) || typeof replica !== 'string') throw invalidToken('The token names no principal.');
      return { principal: { ...principal, vouchedBy: replica }, endsAtMs };
    } catch (error) {
      throw refusalOf(error);
    }
  }

  async #keyOf(token: string): Promise<KeyObject> {
    const { kid } = decodeProtectedHeader(token);
    const find = () => this.#keys.find(({ id }) => id === kid)?.key;
    const held = find();
    if (held !== undefined) return held;
    await this.#look();
    const found = find();
    if (found === undefined) throw unknownKey();
    return found;
  }

  async #signingKey(): Promise<HeldKey> {
    const youngEnough = () => this.#keys.find(({ createdAtMs }) => createdAtMs > this.#deps.clock.nowMs() - dayMs);
    const held = youngEnough();
    if (held !== undefined) return held;
    await this.#look();
    const found = youngEnough();
    if (found !== undefined) return found;
    await this.#deps.keys.create('[]');
    await this.#deps.keys.replace(async (document) => this.#withYoungKey(parse(document)));
    await this.#lookOnce();
    const made = youngEnough();
    if (made !== undefined) return made;
    throw new LancegateError('Internal', 'the key that replicas sign with was made, and is not there');
  }

  /** Another replica may have made one meanwhile. */
  #withYoungKey(keys: readonly ReplicaKey[]): string {
    const { clock, newId } = this.#deps;
    const nowMs = clock.nowMs();
    const accepted = keys.filter(({ createdAtMs }) => createdAtMs > nowMs - 2 * dayMs);
    if (accepted.some(({ createdAtMs }) => createdAtMs > nowMs - dayMs)) return JSON.stringify(accepted);
    const made = { id: newId(), secret: randomBytes(32).toString('base64url'), createdAtMs: nowMs };
    return JSON.stringify([...accepted, made]);
  }

  /** Looks once at a time, and at most once each second: a token of an unknown key costs anyone nothing to make. */
  #look(): Promise<void> {
    if (this.#looking === undefined && this.#deps.clock.nowMs() < this.#lookedAtMs + 1_000) return Promise.resolve();
    this.#looking ??= this.#lookOnce().finally(() => {
      this.#looking = undefined;
    });
    return this.#looking;
  }

  async #lookOnce(): Promise<void> {
    this.#lookedAtMs = this.#deps.clock.nowMs();
    const document = await this.#deps.keys.read();
    this.#keys = parse(document ?? '[]')
      .map(({ id, secret, createdAtMs }) => ({ id, key: createSecretKey(secret, 'base64url'), createdAtMs }))
      .sort((a, b) => b.createdAtMs - a.createdAtMs);
  }
}

const isPrincipal = (claim: unknown): claim is Principal => {
  const { subject, issuer: issuedBy, scopes, groups } = isObject(claim) ? claim : {};
  const areTexts = [subject, issuedBy].every((text) => typeof text === 'string' && text !== '');
  return (
    areTexts && [scopes, groups].every((list) => Array.isArray(list) && list.every((text) => typeof text === 'string'))
  );
};

/** Only replicas write the document. */
const parse = (document: string): readonly ReplicaKey[] => JSON.parse(document) as readonly ReplicaKey[];
