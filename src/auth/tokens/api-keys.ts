/**
 * API keys, for clients that cannot get a token: the principal of each, and when it ends. A key is `lgk_`, an id that may be
 * shown, and a secret of 256 bits that is shown once; only the hash of the secret is stored.
 */
import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { ApiKey, ApiKeyRecords } from '../../catalog/credentials.ts';
import type { Clock } from '../../kernel/clock.ts';
import { invalidInput } from '../../kernel/errors.ts';
import type { Principal } from '../../kernel/request-scope.ts';
import { invalidToken } from '../challenge.ts';
import type { Credential, Verifier } from './verifier.ts';

interface ApiKeyRequest {
  readonly subject: string;
  readonly scopes: readonly string[];
  readonly groups?: readonly string[];
  /** Without it, the key is valid until it is revoked. */
  readonly expiresAtMs?: number | undefined;
}

const principalIssuer = 'api-key';
const prefix = 'lgk_';
const form = /^lgk_([0-9a-f]{16})_([0-9a-f]{64})$/;

export const looksLikeApiKey = (credential: string): boolean => credential.startsWith(prefix);

/** One plain SHA-256 is enough: 256 random bits cannot be guessed, and every request pays for it. */
const hashSecret = (secret: string): Buffer => hash('sha256', secret, 'buffer');

export class ApiKeyStore implements Verifier {
  readonly #records: ApiKeyRecords;
  readonly #clock: Clock;
  /** A key's row never changes but for its revocation, so one key keeps one principal object. */
  readonly #principals = new LRUCache<string, Principal>({ maxSize: 10_000, sizeCalculation: () => 1 });
  /** For the comparison where the id is unknown, which so takes as long as with a wrong secret. */
  readonly #anyHash = randomBytes(32);

  constructor(records: ApiKeyRecords, clock: Clock) {
    this.#records = records;
    this.#clock = clock;
  }

  /** `key` is the only time the secret is seen. */
  async create(request: ApiKeyRequest): Promise<{ readonly key: string; readonly record: ApiKey }> {
    const { subject, scopes, groups = [], expiresAtMs } = request;
    const createdAtMs = this.#clock.nowMs();
    if (subject === '') throw invalidInput('An API key needs a subject.');
    if (expiresAtMs !== undefined && expiresAtMs <= createdAtMs) throw invalidInput('The expiry lies in the past.');

    const id = randomBytes(8).toString('hex');
    const secret = randomBytes(32).toString('hex');
    const record = { id, subject, scopes, groups, createdAtMs, expiresAtMs, revokedAtMs: undefined };
    await this.#records.insert({ ...record, secretHash: hashSecret(secret) });
    return { key: `${prefix}${id}_${secret}`, record };
  }

  /** Lists all keys, revoked ones too, the oldest first. */
  list(): Promise<readonly ApiKey[]> {
    return this.#records.list();
  }

  /** false if there is no such key. A key revoked before keeps the time of its revocation. */
  revoke(id: string): Promise<boolean> {
    return this.#records.revoke(id, this.#clock.nowMs());
  }

  async verify({ kind, secret: apiKey }: Credential): Promise<Principal | undefined> {
    if (kind === 'bearer' && !looksLikeApiKey(apiKey)) return undefined;
    const [, id, secret] = form.exec(apiKey) ?? [];
    if (id === undefined || secret === undefined) throw invalidToken('The API key is malformed.');

    const key = await this.#records.find(id);
    const matches = timingSafeEqual(hashSecret(secret), key?.secretHash ?? this.#anyHash);
    if (key === undefined || !matches) throw invalidToken('The API key is unknown.');

    if (key.revokedAtMs !== undefined) throw invalidToken('The API key was revoked.', { keyId: key.id });
    if (key.expiresAtMs !== undefined && key.expiresAtMs <= this.#clock.nowMs()) {
      throw invalidToken('The API key has expired.', { keyId: key.id });
    }
    return this.#principalOf(key);
  }

  #principalOf({ id, subject, scopes, groups }: ApiKey): Principal {
    const known = this.#principals.get(id);
    if (known !== undefined) return known;
    const principal = { subject, scopes, groups, issuer: principalIssuer, keyId: id };
    this.#principals.set(id, principal);
    return principal;
  }
}
