import { stat } from 'node:fs/promises';
import {
  AnonymousCredential,
  type BlobItem,
  BlobServiceClient,
  type ContainerClient,
  RestError,
  StorageSharedKeyCredential,
} from '@azure/storage-blob';
import { storageUnavailable } from '../../../kernel/errors.ts';
import { type PutOutcome, putUntilKnown } from './conditional-put.ts';
import type { ByteRange, Content, ListRequest, ObjectStore, StoredObject } from './object-store.ts';
import type { StoreOptions } from './store-options.ts';
import { UploadBudget } from './upload-budget.ts';

const mostTries = 4;
/** For one attempt at one request, of which the largest has a block. */
const tryTimeoutMs = 15_000;
const blockBytes = 2 ** 23;
const blocksAtOnce = 2;
const pageSize = 1_000;
const deletionsAtOnce = 16;

/** A container of Azure's blobs, by the vendor's library. It takes an account key or a SAS token. */
export class AzureStore implements ObjectStore {
  /** By the date that a request is signed with. */
  readonly refusedAfterMs = 15 * 60_000;
  readonly #container: ContainerClient;
  /** For requests whose refusal has to be distinguished from that of a repeated one. */
  readonly #once: ContainerClient;
  readonly #uploads = new UploadBudget();

  constructor(container: string, account: AzureAccount) {
    this.#container = clientOf(account, mostTries).getContainerClient(container);
    this.#once = clientOf(account, 1).getContainerClient(container);
  }

  putIfAbsent(key: string, content: Uint8Array): Promise<boolean> {
    return putUntilKnown(this, key, content, () => this.#putOnce(key, content));
  }

  async #putOnce(key: string, content: Uint8Array): Promise<PutOutcome> {
    try {
      const blob = this.#once.getBlockBlobClient(key);
      await blob.upload(Buffer.from(content), content.length, { conditions: { ifNoneMatch: '*' } });
      return 'made';
    } catch (error) {
      const { statusCode: status, code } = error instanceof RestError ? error : {};
      if (status === 412 || code === 'BlobAlreadyExists') return 'taken';
      if (status === undefined || status >= 500 || ambiguousStatus.has(status)) return 'unclear';
      throw failed(error);
    }
  }

  async put(key: string, content: Content): Promise<void> {
    const blob = this.#container.getBlockBlobClient(key);
    if (content instanceof Uint8Array) {
      await blob.upload(Buffer.from(content), content.length).catch(rethrow);
      return;
    }
    const { path } = content;
    const blocks = { blockSize: blockBytes, maxSingleShotSize: blockBytes, concurrency: blocksAtOnce };
    const bytes = Math.min((await stat(path)).size, blockBytes * blocksAtOnce);
    await this.#uploads.use(bytes, () => blob.uploadFile(path, blocks)).catch(rethrow);
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
    for await (const blobs of this.#pages(prefix, Math.min(most, pageSize))) {
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
    for (let start = 0; start < keys.length; start += deletionsAtOnce) {
      const some = keys.slice(start, start + deletionsAtOnce);
      await Promise.all(some.map((key) => this.#container.getBlobClient(key).deleteIfExists())).catch(rethrow);
    }
  }

  close(): void {}
}

const storedObject = ({ name: key, properties }: BlobItem): StoredObject => {
  const { contentLength: bytes = 0, lastModified, etag: tag = '' } = properties;
  return { key, bytes, modifiedAtMs: lastModified.getTime(), tag };
};

/** Of a timeout, a conflict with another request, and too many requests. */
const ambiguousStatus: ReadonlySet<number> = new Set([408, 409, 429]);

interface AzureAccount {
  readonly url: string;
  readonly name: string;
  readonly key: string | undefined;
  readonly sasToken: string | undefined;
}

/** undefined without an account key or a SAS token: then only the engine can reach the store. */
export function azureAccountIn(options: StoreOptions): AzureAccount | undefined {
  const name = options.of('account_name');
  const key = options.of('account_key', 'access_key', 'master_key');
  const sasToken = options.of('sas_token', 'sas_key');
  if (name === undefined || (key === undefined && sasToken === undefined)) return undefined;
  const url = options.of('endpoint') ?? `https://${name}.blob.core.windows.net`;
  return { url, name, key, sasToken };
}

function clientOf({ url, name, key, sasToken }: AzureAccount, maxTries: number): BlobServiceClient {
  const credential = key === undefined ? new AnonymousCredential() : new StorageSharedKeyCredential(name, key);
  const signed = key === undefined && sasToken !== undefined ? `${url}?${sasToken.replace(/^\?/, '')}` : url;
  return new BlobServiceClient(signed, credential, { retryOptions: { maxTries, tryTimeoutInMs: tryTimeoutMs } });
}

function failed(cause: unknown): Error {
  const status = cause instanceof RestError ? cause.statusCode : undefined;
  const isDenied = status === 401 || status === 403;
  const text = isDenied ? 'the object store denies access' : 'the object store does not do what it is asked';
  return storageUnavailable(text, cause, { status });
}

function rethrow(error: unknown): never {
  throw failed(error);
}
