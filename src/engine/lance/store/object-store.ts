/**
 * What commits need of an object store, of any vendor, or of a folder. Keys are those of the bucket. Every method throws
 * `LancegateError` only: `StorageUnavailable` where the store refuses or does not answer, and nothing was written; a folder throws
 * the errors of `node:fs`.
 *
 * What a store has accepted is durable, and seen by every read after that.
 */

/** An object in a listing. */
export interface StoredObject {
  readonly key: string;
  readonly bytes: number;
  readonly modifiedAtMs: number;
  /** Differs where the content does. */
  readonly tag: string;
}

/** What an object is made of: bytes, or a local file of any size. */
export type Content = Uint8Array | { readonly path: string };

export interface ByteRange {
  readonly start: number;
  /** It is the first that is not in the range. */
  readonly end: number;
}

export interface ListRequest {
  readonly prefix: string;
  /** The first so many keys in the order of their bytes; without it all. */
  readonly most?: number;
  /** These were listed just now, and need not be looked at again. */
  readonly known?: ReadonlyMap<string, StoredObject>;
}

/** How each vendor's store is asked. */
export const asking = {
  /** Larger files go up in parts of this size. */
  partBytes: 2 ** 23,
  partsAtOnce: 2,
  /** One attempt at one request may take so long; the largest request has a part. */
  timeoutMs: 15_000,
  /** Each comes after a longer pause. */
  attempts: 4,
  keysPerPage: 1_000,
  deletionsAtOnce: 16,
} as const;

export interface ObjectStore {
  /**
   * The store refuses a conditional write that arrives later than this after its sending began, also if this process stood still
   * meanwhile. So long the number of a version stays taken.
   */
  readonly refusedAfterMs: number;
  /**
   * Makes the object unless there is one of this key: of any number of calls for a key one returns true. An answer that was lost is
   * looked up; where that fails, too, it throws `Internal`, and the object may be there then or later. `content` is unlike that
   * of any other call.
   */
  putIfAbsent(key: string, content: Uint8Array): Promise<boolean>;
  put(key: string, content: Content): Promise<void>;
  /** undefined where there is no such object. */
  get(key: string, range?: ByteRange): Promise<Buffer | undefined>;
  /** Without a copy through this machine where the store can do so. */
  copy(from: string, to: string): Promise<void>;
  list(request: ListRequest): AsyncIterable<StoredObject>;
  /** Harmless for keys that are not there. */
  delete(keys: readonly string[]): Promise<void>;
  close(): void;
}
