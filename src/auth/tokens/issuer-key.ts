/**
 * The key file of the own issuer: the key that signs, and the public parts of those before it that are still accepted.
 *
 * Its reader can mint a token for any principal, so it has mode 0600, and a file that others may read is refused. Each write
 * replaces the file atomically, also across a crash. Two concurrent rotations would lose the key of one, so a rotation holds a
 * lock file; the first key needs none (see `createPrivateFile`).
 */
import { randomBytes } from 'node:crypto';
import { open, rm } from 'node:fs/promises';
import { type CryptoKey, calculateJwkThumbprint, exportJWK, generateKeyPair, importJWK, type JWK } from 'jose';
import type { Clock } from '../../kernel/clock.ts';
import { AccessSetupError } from '../challenge.ts';
import { createPrivateFile, privateMode, readPrivateFile, replacePrivateFile } from '../private-file.ts';

export const signatureAlgorithm = 'ES256';

export interface AcceptedKey {
  /** The key's thumbprint (RFC 7638). */
  readonly id: string;
  readonly publicKey: CryptoKey;
  /** Infinity for the one that signs. */
  readonly acceptedUntilMs: number;
}

export interface IssuerKeys {
  /** The `iss` of the tokens; it stays when keys are rotated. */
  readonly issuer: string;
  readonly signingId: string;
  readonly privateKey: CryptoKey;
  /** The signing key, then its predecessors, the latest first. Some may have ended since the file was written. */
  readonly accepted: readonly AcceptedKey[];
}

/** JSON. `retired` holds public parts; earlier releases wrote none. */
interface KeyFile {
  readonly issuer: string;
  readonly key: JWK;
  readonly retired?: readonly RetiredKey[];
}
interface RetiredKey {
  readonly key: JWK;
  /** ISO 8601. */
  readonly acceptedUntil: string;
}

/** Reads the file, or creates it together with its folder. `AccessSetupError` if it cannot be trusted or read. */
export async function openIssuerKeys(path: string): Promise<IssuerKeys> {
  return keysOf(path, await readOrCreate(path));
}

/** As `openIssuerKeys`, of a file that must be there. */
export async function readIssuerKeys(path: string): Promise<IssuerKeys> {
  const text = await readPrivateFile(path);
  if (text === undefined) throw new AccessSetupError(`${path} was removed.`);
  return keysOf(path, parse(path, text));
}

interface Rotation {
  readonly clock: Clock;
  /** How long tokens of the key that signed until now are accepted. 0 ends those of all earlier keys at once. */
  readonly acceptOldForMs: number;
}

/** Makes a new key that signs from now on. `AccessSetupError` while another rotation is under way. */
export async function rotateIssuerKey(path: string, rotation: Rotation): Promise<IssuerKeys> {
  return whileLocked(`${path}.lock`, async () => {
    const file = await readOrCreate(path);
    await replacePrivateFile(path, show({ ...file, key: await newKey(), retired: retiredAfter(file, rotation) }));
    return readIssuerKeys(path);
  });
}

function retiredAfter({ key, retired = [] }: KeyFile, { clock, acceptOldForMs }: Rotation): readonly RetiredKey[] {
  if (acceptOldForMs === 0) return [];
  const nowMs = clock.nowMs();
  const acceptedUntil = new Date(nowMs + acceptOldForMs).toISOString();
  const earlier = retired.filter((old) => Date.parse(old.acceptedUntil) > nowMs);
  return [{ key: publicPart(key), acceptedUntil }, ...earlier];
}

async function whileLocked<Result>(lockFile: string, run: () => Promise<Result>): Promise<Result> {
  const lock = await open(lockFile, 'wx', privateMode).catch((cause: NodeJS.ErrnoException) => {
    if (cause.code !== 'EEXIST') throw cause;
    throw new AccessSetupError(`Another rotation is under way. If a crash ended it, remove ${lockFile} and try again.`);
  });
  try {
    return await run();
  } finally {
    await lock.close();
    await rm(lockFile, { force: true });
  }
}

/** Two processes may do this concurrently: both then use what the file holds. */
async function readOrCreate(path: string): Promise<KeyFile> {
  const there = await readPrivateFile(path);
  if (there !== undefined) return parse(path, there);
  const issuer = `urn:lancegate:${randomBytes(16).toString('hex')}`;
  await createPrivateFile(path, show({ issuer, key: await newKey() }));
  const text = await readPrivateFile(path);
  if (text === undefined) throw new AccessSetupError(`${path} was removed while it was being created.`);
  return parse(path, text);
}

async function newKey(): Promise<JWK> {
  const { privateKey } = await generateKeyPair(signatureAlgorithm, { extractable: true });
  return exportJWK(privateKey);
}

const show = (file: KeyFile): string => `${JSON.stringify(file)}\n`;

/** The error quotes nothing: a parser's own message could hold a part of the key. */
function parse(path: string, text: string): KeyFile {
  try {
    const file = JSON.parse(text) as KeyFile;
    if (typeof file.issuer !== 'string' || !file.issuer.startsWith('urn:lancegate:')) throw new TypeError('no issuer');
    return file;
  } catch {
    throw damaged(path);
  }
}

async function keysOf(path: string, { issuer, key, retired = [] }: KeyFile): Promise<IssuerKeys> {
  try {
    const signing = await acceptedKey(key, Number.POSITIVE_INFINITY);
    const earlier = await Promise.all(retired.map((old) => acceptedKey(old.key, endOf(old))));
    return { issuer, signingId: signing.id, privateKey: await cryptoKey(key), accepted: [signing, ...earlier] };
  } catch {
    throw damaged(path);
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

const damaged = (path: string): AccessSetupError =>
  new AccessSetupError(`${path} is not a key file of this service, or is damaged. Remove it to get a new key.`);
