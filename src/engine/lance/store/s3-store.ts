import { createReadStream, type ReadStream } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import {
  CopyObjectCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
  type S3ClientConfig,
  S3ServiceException,
} from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
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
import { mustBeSignedWithin, NothingSent } from './standstill.ts';
import type { StoreOptions } from './store-options.ts';
import { UploadBudget } from './upload-budget.ts';

const mostSockets = 128;
const connectTimeoutMs = 5_000;

/** A bucket of a store that speaks S3, by the vendor's library, which also finds and refreshes credentials. */
export class S3Store implements ObjectStore {
  /** The store refuses by the date that a request is signed with. */
  readonly refusedAfterMs = 15 * 60_000;
  readonly #bucket: string;
  readonly #client: S3Client;
  /** It sends once: a refusal has to be distinguished from that of a repeated request. */
  readonly #once: S3Client;
  readonly #timeoutMs: number;
  readonly #uploads = new UploadBudget();

  constructor(bucket: string, options: StoreOptions, timeoutMs: number = asking.timeoutMs) {
    this.#bucket = bucket;
    this.#timeoutMs = timeoutMs;
    this.#client = new S3Client({ ...configOf(options), maxAttempts: asking.attempts });
    this.#once = new S3Client({ ...configOf(options), maxAttempts: 1 });
  }

  putIfAbsent(key: string, content: Uint8Array): Promise<boolean> {
    return putUntilKnown(this, key, content, () => this.#putOnce(key, content));
  }

  async #putOnce(key: string, content: Uint8Array): Promise<PutOutcome> {
    const requireInTime = mustBeSignedWithin(this.#timeoutMs);
    const command = new PutObjectCommand({ Bucket: this.#bucket, Key: key, Body: content, IfNoneMatch: '*' });
    command.middlewareStack.add(
      (next) => (signed) => {
        requireInTime();
        return next(signed);
      },
      { step: 'finalizeRequest', priority: 'low' },
    );
    try {
      await this.#once.send(command);
      return 'made';
    } catch (error) {
      if (error instanceof NothingSent) throw failed(error);
      const status = statusOf(error);
      if (status === 412) return 'taken';
      if (status === undefined || status >= 500 || ambiguousStatus.has(status)) return 'unclear';
      throw failed(error);
    }
  }

  async put(key: string, content: Content): Promise<void> {
    if (content instanceof Uint8Array) return this.#put(key, content);
    const { path } = content;
    const { size } = await stat(path);
    if (size <= asking.partBytes) return this.#uploads.use(size, async () => this.#put(key, await readFile(path)));
    await this.#uploads.use(asking.partBytes * asking.partsAtOnce, () => this.#putInParts(key, createReadStream(path)));
  }

  async #put(key: string, Body: Uint8Array): Promise<void> {
    await this.#client.send(new PutObjectCommand({ Bucket: this.#bucket, Key: key, Body })).catch(rethrow);
  }

  async #putInParts(key: string, Body: ReadStream): Promise<void> {
    const params = { Bucket: this.#bucket, Key: key, Body };
    const parts = { partSize: asking.partBytes, queueSize: asking.partsAtOnce };
    await new Upload({ client: this.#client, params, ...parts }).done().catch(rethrow);
  }

  async get(key: string, range?: ByteRange): Promise<Buffer | undefined> {
    const Range = range && `bytes=${range.start}-${range.end - 1}`;
    try {
      const { Body } = await this.#client.send(new GetObjectCommand({ Bucket: this.#bucket, Key: key, Range }));
      return Buffer.from((await Body?.transformToByteArray()) ?? []);
    } catch (error) {
      if (statusOf(error) === 404 && !isOfBucket(error)) return undefined;
      throw failed(error);
    }
  }

  async copy(from: string, to: string): Promise<void> {
    const source = `${this.#bucket}/${from.split('/').map(encodeURIComponent).join('/')}`;
    await this.#client
      .send(new CopyObjectCommand({ Bucket: this.#bucket, Key: to, CopySource: source }))
      .catch(rethrow);
  }

  async *list({ prefix, most }: ListRequest): AsyncIterable<StoredObject> {
    let left = most ?? Number.POSITIVE_INFINITY;
    let token: string | undefined;
    do {
      const page = await this.#client
        .send(
          new ListObjectsV2Command({
            Bucket: this.#bucket,
            Prefix: prefix,
            MaxKeys: Math.min(left, asking.keysPerPage),
            ContinuationToken: token,
          }),
        )
        .catch(rethrow);
      for (const { Key: key = '', Size: bytes = 0, LastModified, ETag: tag = '' } of page.Contents ?? []) {
        yield { key, bytes, modifiedAtMs: LastModified?.getTime() ?? 0, tag };
      }
      left -= page.KeyCount ?? 0;
      token = page.NextContinuationToken;
    } while (token !== undefined && left > 0);
  }

  async delete(keys: readonly string[]): Promise<void> {
    for (let start = 0; start < keys.length; start += asking.keysPerPage) {
      const Objects = keys.slice(start, start + asking.keysPerPage).map((Key) => ({ Key }));
      const { Errors: [error] = [] } = await this.#client
        .send(new DeleteObjectsCommand({ Bucket: this.#bucket, Delete: { Objects, Quiet: true } }))
        .catch(rethrow);
      if (error !== undefined) throw failed(`${error.Code}: ${error.Message}`);
    }
  }

  close(): void {
    this.#once.destroy();
    this.#client.destroy();
  }
}

/** A timeout, a conflict with another conditional request, and too many requests have these. */
const ambiguousStatus: ReadonlySet<number> = new Set([408, 409, 429]);

function configOf(options: StoreOptions): S3ClientConfig {
  const of = (name: string) => options.of(name);
  const [endpoint, accessKeyId, secretAccessKey] = ['endpoint', 'access_key_id', 'secret_access_key'].map(of);
  const sessionToken = of('session_token');
  const region = of('region') ?? (endpoint === undefined ? undefined : 'us-east-1');
  const isVirtualHosted = of('virtual_hosted_style_request') === 'true';
  return {
    ...(region !== undefined && { region }),
    ...(endpoint !== undefined && { endpoint, forcePathStyle: !isVirtualHosted }),
    ...(accessKeyId !== undefined &&
      secretAccessKey !== undefined && {
        credentials: { accessKeyId, secretAccessKey, ...(sessionToken !== undefined && { sessionToken }) },
      }),
    // Other stores than Amazon's do not know the newer checksums.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    requestHandler: {
      connectionTimeout: connectTimeoutMs,
      requestTimeout: asking.timeoutMs,
      throwOnRequestTimeout: true,
      httpAgent: { maxSockets: mostSockets, keepAlive: true },
      httpsAgent: { maxSockets: mostSockets, keepAlive: true },
    },
  };
}

const statusOf = (error: unknown): number | undefined =>
  error instanceof S3ServiceException ? error.$metadata.httpStatusCode : undefined;

const isOfBucket = (error: unknown): boolean => error instanceof Error && error.name === 'NoSuchBucket';

function failed(cause: unknown): Error {
  const status = statusOf(cause);
  const text =
    status === 401 || status === 403
      ? 'the object store denies access'
      : isOfBucket(cause)
        ? 'the object store has no such bucket'
        : 'the object store does not do what it is asked';
  return storageUnavailable(text, cause, { status });
}

function rethrow(error: unknown): never {
  throw failed(error);
}
