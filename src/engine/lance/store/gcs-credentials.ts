import { createPrivateKey } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import {
  type AuthClient,
  AwsClient,
  type AwsClientOptions,
  GoogleAuth,
  IdentityPoolClient,
  type IdentityPoolClientOptions,
  JWT,
  UserRefreshClient,
} from 'google-auth-library';
import { isObject } from '../../../kernel/json-bounds.ts';
import type { StoreOptions } from './store-options.ts';
import { StoreUnusable } from './store-unusable.ts';

/** What requests to Google's store carry so that it lets them in. */
export interface GcsCredentials {
  /** Whatever has them is refused after this: nothing else bounds how late a request may still be carried out. */
  readonly longestMs: number;
  /** Taken from what is in memory, or fetched. */
  headers(): Promise<Headers>;
}

export interface GcsAccess {
  /** It has no slash at its end. */
  readonly url: string;
  readonly credentials: GcsCredentials;
}

const scope = 'https://www.googleapis.com/auth/devstorage.read_write';
const defaultUrl = 'https://storage.googleapis.com';
/** Google's tokens end after an hour, unless somebody has asked for longer ones; with some room for clocks. */
const tokenLifeMs = 65 * 60_000;
/** The longest that Google lets a token live. */
const longestTokenLifeMs = 12 * 3_600_000;
const fetchTimeoutMs = 10_000;
const fetching = { transporterOptions: { timeout: fetchTimeoutMs } };

/**
 * A token, a key, or a file as the engine takes them; else what Google's own tools find: the file that
 * `GOOGLE_APPLICATION_CREDENTIALS` or a login has left, and the machine's own account. Throws `StoreUnusable`, without any of a key.
 */
export async function gcsAccessIn(options: StoreOptions): Promise<GcsAccess> {
  const key = await keyIn(options);
  const url = options.of('base_url') ?? textIn(key, 'gcs_base_url') ?? defaultUrl;
  requirePlainUrl(url);
  const token = options.of('storage_token') ?? options.of('bearer_token');
  // Else the header that it is put into would be refused with it.
  if (token !== undefined && !/^[\x21-\x7e]+$/.test(token)) throw new StoreUnusable('the token of Google is malformed');
  const credentials =
    token !== undefined || key?.disable_oauth === true
      ? new FixedToken(token ?? '')
      : new GoogleTokens(key === undefined ? foundByGoogle : async () => clientOf(key));
  return { url: url.replace(/\/+$/, ''), credentials };
}

function requirePlainUrl(text: string): void {
  const { protocol, username, password } = URL.parse(text) ?? {};
  if ((protocol === 'https:' || protocol === 'http:') && `${username}${password}` === '') return;
  throw new StoreUnusable('google_base_url is not the URL of a server, without a user and a password');
}

/** It says nothing of its end. */
class FixedToken implements GcsCredentials {
  readonly longestMs = longestTokenLifeMs;
  readonly #token: string;

  constructor(token: string) {
    this.#token = token;
  }

  async headers(): Promise<Headers> {
    return new Headers({ authorization: `Bearer ${this.#token}` });
  }
}

/** Google's library fetches tokens, and fetches another some minutes before one ends. */
class GoogleTokens implements GcsCredentials {
  readonly longestMs = tokenLifeMs;
  readonly #open: () => Promise<AuthClient>;
  #client: AuthClient | undefined;

  constructor(open: () => Promise<AuthClient>) {
    this.#open = open;
  }

  async headers(): Promise<Headers> {
    try {
      this.#client ??= await this.#open();
      const headers = await this.#client.getRequestHeaders();
      requireEnd(this.#client);
      return headers;
    } catch (error) {
      throw withoutSecrets(error);
    }
  }
}

/** Old versions are kept for as long as a token may live (`refusedAfterMs`). */
function requireEnd(client: AuthClient): void {
  if (client instanceof JWT) return; // signs for an hour
  const { expiry_date: endMs } = client.credentials;
  if (typeof endMs === 'number' && endMs - Date.now() <= tokenLifeMs) return;
  throw new StoreUnusable(
    'Google has given out a token that lives longer than an hour, which old versions are not kept for',
  );
}

/** Errors of Google's library have requests in them, and those of parsers what they could not parse. */
function withoutSecrets(error: unknown): Error {
  if (error instanceof StoreUnusable) return error;
  if (error instanceof SyntaxError) return new StoreUnusable("Google's credentials are malformed");
  return new Error(
    `Google gives out no token: ${error instanceof Error ? error.message : 'for no reason that it names'}`,
  );
}

type Key = Readonly<Record<string, unknown>>;

const keyOption = 'google_service_account_key';

async function keyIn(options: StoreOptions): Promise<Key | undefined> {
  const text = options.of('service_account_key');
  if (text !== undefined) return parsedKey(text, keyOption);
  const path = options.of('service_account', 'service_account_path', 'application_credentials');
  if (path === undefined) return undefined;
  const content = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new StoreUnusable(`the file of Google's credentials cannot be read: ${path}: ${error.code}`);
  });
  return parsedKey(content, path);
}

function parsedKey(text: string, source: string): Key {
  const key = jsonIn(text);
  if (isObject(key)) return key;
  throw new StoreUnusable(`${source} is not a JSON object`);
}

function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // the parser's error would show a part of the key
  }
}

const textIn = (key: Key | undefined, name: string): string | undefined => {
  const value = key?.[name];
  return typeof value === 'string' ? value : undefined;
};

/** Those that the engine knows, too. */
function clientOf(key: Key): AuthClient {
  const type = textIn(key, 'type') ?? 'service_account';
  switch (type) {
    case 'service_account':
      return serviceAccountOf(key);
    case 'authorized_user':
      return userOf(key);
    case 'external_account':
      return externalAccountOf(key);
    default:
      throw new StoreUnusable(`Google's credentials are of a type that is not taken: ${type}`);
  }
}

function serviceAccountOf(key: Key): JWT {
  const secret = requiredIn(key, 'private_key');
  try {
    createPrivateKey(secret);
  } catch {
    throw new StoreUnusable('the private_key of the service account is not a private key in PEM');
  }
  const [email, keyId] = [requiredIn(key, 'client_email'), textIn(key, 'private_key_id')];
  const client = new JWT({ email, key: secret, ...(keyId !== undefined && { keyId }), scopes: [scope], ...fetching });
  client.useJWTAccessWithScope = true; // no server is asked for a token
  return client;
}

function userOf(key: Key): UserRefreshClient {
  const [clientId, clientSecret] = [requiredIn(key, 'client_id'), requiredIn(key, 'client_secret')];
  return new UserRefreshClient({ clientId, clientSecret, refreshToken: requiredIn(key, 'refresh_token'), ...fetching });
}

/** No program is run for one. */
function externalAccountOf(key: Key): AuthClient {
  const isOfAws = Object.hasOwn(Object(key.credential_source), 'environment_id');
  const client = isOfAws
    ? new AwsClient({ ...key, ...fetching } as unknown as AwsClientOptions)
    : new IdentityPoolClient({ ...key, ...fetching } as unknown as IdentityPoolClientOptions);
  client.scopes = [scope];
  return client;
}

function requiredIn(key: Key, name: string): string {
  const value = textIn(key, name);
  if (value === undefined) throw new StoreUnusable(`Google's credentials have no ${name}`);
  return value;
}

/** The name of a project, which nothing here needs, saves the library the search for one. */
const foundByGoogle = (): Promise<AuthClient> =>
  new GoogleAuth({ scopes: [scope], projectId: 'none', clientOptions: fetching }).getClient();
