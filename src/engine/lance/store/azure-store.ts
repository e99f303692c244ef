import { createReadStream } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import {
  AnonymousCredential,
  type BlobItem,
  BlobSASPermissions,
  BlobServiceClient,
  BlockBlobClient,
  type ContainerClient,
  generateBlobSASQueryParameters,
  newPipeline,
  RestError,
  StorageSharedKeyCredential,
} from '@azure/storage-blob';
import { storageUnavailable } from '../../../kernel/errors.ts';
import { type PutOutcome, putUntilKnown } from './conditional-put.ts';
import {
  asking,
  type ByteRange,
  type Content,
  type ListRequest,
  type ObjectStore,
  type StoredObject,
} from './object-store.ts';
import type { StoreOptions } from './store-options.ts';
import { StoreUnusable } from './store-unusable.ts';
import { UploadBudget } from './upload-budget.ts';

/** The signature of one conditional write is valid for so long. */
const signatureLifeMs = 15 * 60_000;
/** Azure's own limit for tokens that no account key has signed. */
const longestTokenLifeMs = 7 * 24 * 3_600_000;

/** A container of Azure's blobs, by the vendor's library. It takes an account key or a SAS token. */
export class AzureStore implements ObjectStore {
  readonly refusedAfterMs: number;
  readonly #container: ContainerClient;
  readonly #account: AzureAccount;
  /** It sends once: a refusal has to be distinguished from that of a repeated request. */
  readonly #once = newPipeline(new AnonymousCredential(), triesOf(1));
  readonly #uploads = new UploadBudget();

  constructor(container: string, account: AzureAccount) {
    this.#account = account;
    this.refusedAfterMs = account.signer === undefined ? longestTokenLifeMs : signatureLifeMs;
    this.#container = clientOf(account).getContainerClient(container);
  }

  putIfAbsent(key: string, content: Uint8Array): Promise<boolean> {
    return putUntilKnown(this, key, content, () => this.#putOnce(key, content));
  }

  async #putOnce(key: string, content: Uint8Array): Promise<PutOutcome> {
    try {
      const blob = new BlockBlobClient(this.#urlOfOneWrite(key), this.#once);
      await blob.upload(Buffer.from(content), content.length, { conditions: { ifNoneMatch: '*' } });
      return 'made';
    } catch (error) {
      const { statusCode: status, code } = error instanceof RestError ? error : {};
      if (status === 412 || code === 'BlobAlreadyExists') return 'taken';
      if (status === undefined || status >= 500 || ambiguousStatus.has(status)) return 'unclear';
      throw failed(error);
    }
  }

  /** Signed before anything is awaited: Azure looks at the end of this signature, and not at when the request was sent. */
  #urlOfOneWrite(blobName: string): string {
    const { url } = this.#container.getBlobClient(blobName);
    const { signer } = this.#account;
    if (signer === undefined) return url; // with the token of the options
    const { containerName } = this.#container;
    const permissions = BlobSASPermissions.parse('cw');
    const expiresOn = new Date(Date.now() + signatureLifeMs);
    return `${url}?${generateBlobSASQueryParameters({ containerName, blobName, permissions, expiresOn }, signer)}`;
  }

  async put(key: string, content: Content): Promise<void> {
    if (content instanceof Uint8Array) return this.#put(key, content);
    const { path } = content;
    const { size } = await stat(path);
    if (size <= asking.partBytes) return this.#uploads.use(size, async () => this.#put(key, await readFile(path)));
    // One more is being filled.
    await this.#uploads.use(asking.partBytes * (asking.partsAtOnce + 1), () => this.#putInBlocks(key, path));
  }

  async #put(key: string, content: Uint8Array): Promise<void> {
    await this.#container.getBlockBlobClient(key).upload(Buffer.from(content), content.length).catch(rethrow);
  }

  /** As a stream: the library would open a file that it is named for each block, also when another one has failed and it is gone. */
  async #putInBlocks(key: string, path: string): Promise<void> {
    const file = createReadStream(path);
    try {
      await this.#container
        .getBlockBlobClient(key)
        .uploadStream(file, asking.partBytes, asking.partsAtOnce)
        .catch(rethrow);
    } finally {
      file.destroy();
    }
  }

  async get(key: string, range?: ByteRange): Promise<Buffer | undefined> {
    try {
      const { start, end } = range ?? { start: 0, end: undefined };
      const count = end === undefined ? undefined : end - start;
      const { readableStreamBody } = await this.#container.getBlobClient(key).download(start, count);
      const chunks: Buffer[] = [];
      for await (const chunk of readableStreamBody ?? []) chunks.push(Buffer.from(chunk));
      return Buffer.concat(chunks);
    } catch (error) {
      if (error instanceof RestError && error.code === 'BlobNotFound') return undefined;
      throw failed(error);
    }
  }

  async copy(from: string, to: string): Promise<void> {
    try {
      const source = this.#container.getBlobClient(from).url;
      const copying = await this.#container.getBlobClient(to).beginCopyFromURL(source, { intervalInMs: 100 });
      await copying.pollUntilDone();
    } catch (error) {
      throw failed(error);
    }
  }

  async *list({ prefix, most = Number.POSITIVE_INFINITY }: ListRequest): AsyncIterable<StoredObject> {
    let left = most;
    for await (const blobs of this.#pages(prefix, Math.min(most, asking.keysPerPage))) {
      yield* blobs.slice(0, left).map(storedObject);
      left -= blobs.length;
      if (left <= 0) return;
    }
  }

  async *#pages(prefix: string, maxPageSize: number): AsyncIterable<readonly BlobItem[]> {
    try {
      const pages = this.#container.listBlobsFlat({ prefix }).byPage({ maxPageSize });
      for await (const { segment } of pages) yield segment.blobItems;
    } catch (error) {
      throw failed(error);
    }
  }

  async delete(keys: readonly string[]): Promise<void> {
    for (let start = 0; start < keys.length; start += asking.deletionsAtOnce) {
      const some = keys.slice(start, start + asking.deletionsAtOnce);
      await Promise.all(some.map((key) => this.#container.getBlobClient(key).deleteIfExists())).catch(rethrow);
    }
  }

  close(): void {}
}

const storedObject = ({ name: key, properties }: BlobItem): StoredObject => {
  const { contentLength: bytes = 0, lastModified, etag: tag = '' } = properties;
  return { key, bytes, modifiedAtMs: lastModified.getTime(), tag };
};

/** A timeout, a conflict with another request, and too many requests have these. */
const ambiguousStatus: ReadonlySet<number> = new Set([408, 409, 429]);

interface AzureAccount {
  /** It has a SAS token, if there is no account key. */
  readonly url: string;
  readonly signer: StorageSharedKeyCredential | undefined;
}

interface AzureContainer {
  readonly container: string;
  /** undefined where the options name it. */
  readonly accountName: string | undefined;
}

/** `authority` is a container, or in a URI of abfss also the account that it is in. */
export function azureContainerIn(authority: string): AzureContainer {
  const [container = '', host] = authority.split('@');
  if (host === undefined) return { container, accountName: undefined };
  const accountName = /^([a-z0-9]+)\.(?:dfs|blob)\.core\.windows\.net$/.exec(host)?.[1];
  if (accountName !== undefined) return { container, accountName };
  throw new StoreUnusable('an abfss URI of Azure has the form abfss://container@account.dfs.core.windows.net/path');
}

/**
 * Throws `StoreUnusable` without an account key or a SAS token, for a token that does not end soon enough, and for options that name
 * another account than the URI does (`nameInUri`).
 */
export function azureAccountIn(options: StoreOptions, nowMs: number, nameInUri?: string): AzureAccount {
  const name = options.of('account_name') ?? nameInUri;
  if (nameInUri !== undefined && name !== nameInUri) {
    throw new StoreUnusable(`the storage root is in the account ${nameInUri} of Azure, and account_name is another`);
  }
  const key = options.of('account_key', 'access_key', 'master_key');
  const token = options.of('sas_token', 'sas_key')?.replace(/^\?/, '');
  if (name === undefined) throw new StoreUnusable('Azure needs an account_name among the storage options');
  const url = options.of('endpoint') ?? `https://${name}.blob.core.windows.net`;
  if (key !== undefined) return { url, signer: new StorageSharedKeyCredential(name, key) };
  if (token === undefined) {
    throw new StoreUnusable('Azure needs an account_key or a sas_token among the storage options');
  }
  requireEnd(token, nowMs);
  return { url: `${url}?${token}`, signer: undefined };
}

/** Old versions are kept for as long as a token may live (`refusedAfterMs`): nothing else bounds how late a write is carried out. */
function requireEnd(token: string, nowMs: number): void {
  const endMs = Date.parse(new URLSearchParams(token).get('se') ?? '');
  if (endMs - nowMs <= longestTokenLifeMs) return;
  throw new StoreUnusable(
    'the SAS token of Azure has to name its end (se), a week ahead at most; an account key has no such bound',
  );
}

const triesOf = (maxTries: number) => ({ retryOptions: { maxTries, tryTimeoutInMs: asking.timeoutMs } });

const clientOf = ({ url, signer }: AzureAccount): BlobServiceClient =>
  new BlobServiceClient(url, signer ?? new AnonymousCredential(), triesOf(asking.attempts));

function failed(cause: unknown): Error {
  const status = cause instanceof RestError ? cause.statusCode : undefined;
  const isDenied = status === 401 || status === 403;
  const text = isDenied ? 'the object store denies access' : 'the object store does not do what it is asked';
  return storageUnavailable(text, cause, { status });
}

function rethrow(error: unknown): never {
  throw failed(error);
}
