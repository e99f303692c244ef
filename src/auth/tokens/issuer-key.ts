/** The own issuer signs with one key, and still accepts those before it, of which it has the public parts. */
import { randomBytes } from 'node:crypto';
import { type CryptoKey, calculateJwkThumbprint, exportJWK, generateKeyPair, importJWK, type JWK } from 'jose';
import type { IssuerKeyRecords } from '../../catalog/credentials.ts';
import type { Clock } from '../../kernel/clock.ts';
import { AccessSetupError } from '../challenge.ts';

export const signatureAlgorithm = 'ES256';

export interface AcceptedKey {
  /** It is the key's thumbprint (RFC 7638). */
  readonly id: string;
  readonly publicKey: CryptoKey;
  /** Infinity for the one that signs. */
  readonly acceptedUntilMs: number;
}

export interface IssuerKeys {
  /** It is the `iss` of the tokens, and stays when keys are rotated. */
  readonly issuer: string;
  readonly signingId: string;
  readonly privateKey: CryptoKey;
  /** The signing key comes first, then its predecessors, the latest first. Some may have ended since the document was written. */
  readonly accepted: readonly AcceptedKey[];
}

/** The document is JSON. `retired` holds public parts; earlier releases wrote none. */
interface KeyDocument {
  readonly issuer: string;
  readonly key: JWK;
  readonly retired?: readonly RetiredKey[];
}
interface RetiredKey {
  readonly key: JWK;
  /** It is written as in ISO 8601. */
  readonly acceptedUntil: string;
}

/** Reads the keys, or makes the first one. `AccessSetupError` if they cannot be trusted or read. */
export async function openIssuerKeys(records: IssuerKeyRecords): Promise<IssuerKeys> {
  return keysOf(records.name, parse(records.name, await readOrCreate(records)));
}

/** Reads keys that must be there, and throws as `openIssuerKeys`. */
export async function readIssuerKeys(records: IssuerKeyRecords): Promise<IssuerKeys> {
  const text = await records.read();
  if (text === undefined) throw new AccessSetupError(`${records.name} was removed.`);
  return keysOf(records.name, parse(records.name, text));
}

interface Rotation {
  readonly clock: Clock;
  /** How long tokens of the key that signed until now are accepted. 0 ends those of all earlier keys at once. */
  readonly acceptOldForMs: number;
}

/** Makes a new key that signs from now on. `AccessSetupError` as with `openIssuerKeys`, or while another rotation is under way. */
export async function rotateIssuerKey(records: IssuerKeyRecords, rotation: Rotation): Promise<IssuerKeys> {
  await readOrCreate(records);
  await records.replace(async (text) => {
    const present = parse(records.name, text);
    return show({ ...present, key: await newKey(), retired: retiredAfter(present, rotation) });
  });
  return readIssuerKeys(records);
}

function retiredAfter({ key, retired = [] }: KeyDocument, { clock, acceptOldForMs }: Rotation): readonly RetiredKey[] {
  if (acceptOldForMs === 0) return [];
  const nowMs = clock.nowMs();
  const acceptedUntil = new Date(nowMs + acceptOldForMs).toISOString();
  const earlier = retired.filter((old) => Date.parse(old.acceptedUntil) > nowMs);
  return [{ key: publicPart(key), acceptedUntil }, ...earlier];
}

/** Two processes may do this concurrently: both then use what was created first. */
async function readOrCreate(records: IssuerKeyRecords): Promise<string> {
  const there = await records.read();
  if (there !== undefined) return there;
  const issuer = `urn:lancegate:${randomBytes(16).toString('hex')}`;
  await records.create(show({ issuer, key: await newKey() }));
  const text = await records.read();
  if (text === undefined) throw new AccessSetupError(`${records.name} was removed while it was being created.`);
  return text;
}

async function newKey(): Promise<JWK> {
  const { privateKey } = await generateKeyPair(signatureAlgorithm, { extractable: true });
  return exportJWK(privateKey);
}

const show = (document: KeyDocument): string => `${JSON.stringify(document)}\n`;

/** The error quotes nothing: a parser's own message could hold a part of the key. */
function parse(name: string, text: string): KeyDocument {
  try {
    const document = JSON.parse(text) as KeyDocument;
    const { issuer } = document;
    if (typeof issuer !== 'string' || !issuer.startsWith('urn:lancegate:')) throw new TypeError('no issuer');
    return document;
  } catch {
    throw damaged(name);
  }
}

async function keysOf(name: string, { issuer, key, retired = [] }: KeyDocument): Promise<IssuerKeys> {
  try {
    const signing = await acceptedKey(key, Number.POSITIVE_INFINITY);
    const earlier = await Promise.all(retired.map((old) => acceptedKey(old.key, endOf(old))));
    return { issuer, signingId: signing.id, privateKey: await cryptoKey(key), accepted: [signing, ...earlier] };
  } catch {
    throw damaged(name);
  }
}

function endOf({ acceptedUntil }: RetiredKey): number {
  const endMs = Date.parse(acceptedUntil);
  if (Number.isNaN(endMs)) throw new TypeError('no time');
  return endMs;
}

async function acceptedKey(key: JWK, acceptedUntilMs: number): Promise<AcceptedKey> {
  const jwk = publicPart(key);
  return { id: await calculateJwkThumbprint(jwk), publicKey: await cryptoKey(jwk), acceptedUntilMs };
}

function publicPart({ d: _private, ...rest }: JWK): JWK {
  return rest;
}

async function cryptoKey(jwk: JWK): Promise<CryptoKey> {
  const key = await importJWK(jwk, signatureAlgorithm);
  if (key instanceof Uint8Array) throw new TypeError('a symmetric key');
  return key;
}

const damaged = (name: string): AccessSetupError =>
  new AccessSetupError(`${name} is not a key file of this service, or is damaged. Remove it to get a new key.`);
