/**
 * Where credentials are kept: in files of the data folder, or in the catalog that replicas share. `auth/` makes and judges them.
 */

export interface ApiKey {
  readonly id: string;
  readonly subject: string;
  readonly scopes: readonly string[];
  readonly groups: readonly string[];
  readonly createdAtMs: number;
  /** Where it is undefined, the key is valid until it is revoked. */
  readonly expiresAtMs: number | undefined;
  readonly revokedAtMs: number | undefined;
}

/** Tables store a key in these columns, without its secret. */
export interface ApiKeyColumns {
  readonly id: string;
  readonly subject: string;
  readonly scopes: string;
  readonly groups: string;
  readonly created_at_ms: number;
  readonly expires_at_ms: number | null;
  readonly revoked_at_ms: number | null;
}

export const apiKeyOf = (row: ApiKeyColumns): ApiKey => ({
  id: row.id,
  subject: row.subject,
  scopes: textsIn(row.scopes),
  groups: textsIn(row.groups),
  createdAtMs: row.created_at_ms,
  expiresAtMs: row.expires_at_ms ?? undefined,
  revokedAtMs: row.revoked_at_ms ?? undefined,
});

function textsIn(json: string): readonly string[] {
  const list: unknown = JSON.parse(json);
  return Array.isArray(list) ? list.map(String) : [];
}

export interface StoredApiKey extends ApiKey {
  /** It is the SHA-256; the secret itself is not kept. */
  readonly secretHash: Uint8Array;
}

export interface ApiKeyRecords {
  insert(key: StoredApiKey): Promise<void>;
  /** Finds the key as it is, or was a second ago. */
  find(id: string): Promise<StoredApiKey | undefined>;
  /** Lists the oldest first. */
  list(): Promise<readonly ApiKey[]>;
  /** false if there is no such key. A key revoked before keeps the time of its revocation. */
  revoke(id: string, atMs: number): Promise<boolean>;
}

/** One document in JSON has the keys of an issuer. A program that reads it can mint a token for any principal. */
export interface IssuerKeyRecords {
  /** Operators read it at the start of a sentence. */
  readonly name: string;
  /** Changes whenever the document does. */
  signature(): Promise<string>;
  /** undefined if there is none. */
  read(): Promise<string | undefined>;
  /** Nothing where there is one. */
  create(document: string): Promise<void>;
  /** Replaces the document, which is there, by what `next` makes of it; of two at once, the second makes it of the first's. */
  replace(next: (document: string) => Promise<string>): Promise<void>;
}

export interface Credentials extends AsyncDisposable {
  readonly apiKeys: ApiKeyRecords;
  /** The own issuer signs with these. */
  readonly issuerKeys: IssuerKeyRecords;
}
