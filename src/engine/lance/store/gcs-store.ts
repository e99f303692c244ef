import { type FileHandle, open, readFile, stat } from 'node:fs/promises';
import { type PutOutcome, putUntilKnown } from './conditional-put.ts';
import { GcsClient, type GcsRequest, refused } from './gcs-client.ts';
import type { GcsAccess } from './gcs-credentials.ts';
import {
  asking,
  type ByteRange,
  type Content,
  type ListRequest,
  type ObjectStore,
  type StoredObject,
} from './object-store.ts';
import { UploadBudget } from './upload-budget.ts';

/** `fetch` copies what it sends. */
const copies = 2;
const asBytes = { 'content-type': 'application/octet-stream' };

/** A bucket of Google's store, by its JSON API. */
export class GcsStore implements ObjectStore {
  readonly refusedAfterMs: number;
  readonly #client: GcsClient;
  readonly #objects: string;
  readonly #newObjects: string;
  readonly #bucket: string;
  readonly #uploads = new UploadBudget();

  constructor(bucket: string, { url, credentials }: GcsAccess, timeoutMs?: number) {
    this.#client = new GcsClient(credentials, timeoutMs);
    this.refusedAfterMs = credentials.longestMs;
    this.#bucket = encodeURIComponent(bucket);
    this.#objects = `${url}/storage/v1/b/${this.#bucket}/o`;
    this.#newObjects = `${url}/upload/storage/v1/b/${this.#bucket}/o`;
  }

  putIfAbsent(key: string, content: Uint8Array): Promise<boolean> {
    return putUntilKnown(this, key, content, () => this.#putOnce(key, content));
  }

  async #putOnce(key: string, content: Uint8Array): Promise<PutOutcome> {
    const answer = await this.#client.askOnce(this.#upload(key, content, { ifGenerationMatch: '0' }), 200, 412);
    if (answer === undefined) return 'unclear';
    return answer.status === 200 ? 'made' : 'taken';
  }

  async put(key: string, content: Content): Promise<void> {
    if (content instanceof Uint8Array) return this.#put(key, content);
    const { path } = content;
    const { size } = await stat(path);
    if (size <= asking.partBytes)
      return this.#uploads.use(size * copies, async () => this.#put(key, await readFile(path)));
    await this.#uploads.use(asking.partBytes * copies, () => this.#putInParts(key, path, size));
  }

  async #put(key: string, content: Uint8Array): Promise<void> {
    await this.#client.ask(this.#upload(key, content), 200);
  }

  #upload(name: string, body: Uint8Array, condition: Readonly<Record<string, string>> = {}): GcsRequest {
    const query = new URLSearchParams({ uploadType: 'media', name, ...condition });
    return { method: 'POST', url: `${this.#newObjects}?${query}`, headers: asBytes, body };
  }

  async #putInParts(name: string, path: string, size: number): Promise<void> {
    const query = new URLSearchParams({ uploadType: 'resumable', name });
    const headers = { 'x-upload-content-type': asBytes['content-type'], 'x-upload-content-length': `${size}` };
    const { headers: begun } = await this.#client.ask(
      { method: 'POST', url: `${this.#newObjects}?${query}`, headers },
      200,
    );
    const session = begun.get('location') ?? '';
    const file = await open(path);
    try {
      const part = Buffer.allocUnsafe(asking.partBytes);
      for (let start = 0; start < size; ) start = await this.#putPart(session, { file, start, size, part });
    } finally {
      await file.close();
    }
  }

  /** Returns where the next one starts: a store may keep less of a part than it was sent, and a part that it has is sent again. */
  async #putPart(url: string, { file, start, size, part }: FilePart): Promise<number> {
    const { bytesRead } = await file.read(part, 0, asking.partBytes, start);
    const range = `bytes ${start}-${start + bytesRead - 1}/${size}`;
    const body = part.subarray(0, bytesRead);
    const answer = await this.#client.ask(
      { method: 'PUT', url, headers: { 'content-range': range }, body, isUrlSecret: true },
      200,
      201,
      308,
    );
    if (answer.status !== 308) return size;
    const next = Number(/-(\d+)$/.exec(answer.headers.get('range') ?? '')?.[1] ?? -1) + 1;
    if (next <= start) throw refused(answer);
    return next;
  }

  async get(key: string, range?: ByteRange): Promise<Buffer | undefined> {
    const headers = range && { range: `bytes=${range.start}-${range.end - 1}` };
    const request: GcsRequest = { method: 'GET', url: `${this.#of(key)}?alt=media`, ...(headers && { headers }) };
    const { status, body } = await this.#client.ask(request, 200, 206, 404);
    return status === 404 ? undefined : body;
  }

  async copy(from: string, to: string): Promise<void> {
    const url = `${this.#of(from)}/rewriteTo/b/${this.#bucket}/o/${encodeURIComponent(to)}`;
    let token: string | undefined;
    do {
      const query = token === undefined ? '' : `?${new URLSearchParams({ rewriteToken: token })}`;
      const { done, rewriteToken } = await this.#client.askJson<Rewritten>({ method: 'POST', url: `${url}${query}` });
      token = done === false ? rewriteToken : undefined;
    } while (token !== undefined);
  }

  async *list({ prefix, most = Number.POSITIVE_INFINITY }: ListRequest): AsyncIterable<StoredObject> {
    let left = most;
    let pageToken: string | undefined;
    do {
      const query = new URLSearchParams({
        prefix,
        maxResults: `${Math.min(left, asking.keysPerPage)}`,
        fields: listedFields,
      });
      if (pageToken !== undefined) query.set('pageToken', pageToken);
      const url = `${this.#objects}?${query}`;
      const { items = [], nextPageToken } = await this.#client.askJson<ListedPage>({ method: 'GET', url });
      yield* items.map(storedObject);
      left -= items.length;
      pageToken = nextPageToken;
    } while (pageToken && left > 0);
  }

  async delete(keys: readonly string[]): Promise<void> {
    for (let start = 0; start < keys.length; start += asking.deletionsAtOnce) {
      const some = keys.slice(start, start + asking.deletionsAtOnce);
      await Promise.all(some.map((key) => this.#client.ask({ method: 'DELETE', url: this.#of(key) }, 200, 204, 404)));
    }
  }

  close(): void {}

  #of(key: string): string {
    return `${this.#objects}/${encodeURIComponent(key)}`;
  }
}

interface FilePart {
  readonly file: FileHandle;
  readonly start: number;
  /** The whole file has so many bytes. */
  readonly size: number;
  readonly part: Buffer;
}

interface Rewritten {
  readonly done?: boolean;
  readonly rewriteToken?: string;
}

interface ListedPage {
  readonly items?: readonly ListedObject[];
  readonly nextPageToken?: string;
}

interface ListedObject {
  readonly name: string;
  readonly size: string;
  readonly timeCreated: string;
  readonly generation: string;
}

const listedFields = 'nextPageToken,items(name,size,timeCreated,generation)';

const storedObject = ({ name: key, size, timeCreated, generation: tag }: ListedObject): StoredObject => ({
  key,
  bytes: Number(size),
  modifiedAtMs: Date.parse(timeCreated),
  tag,
});
