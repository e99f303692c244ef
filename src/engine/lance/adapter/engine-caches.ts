/**
 * What the engine keeps in memory, for all datasets together. A session of the engine has a fixed size. A large one fills up,
 * because the old pages of an index that was built anew stay until others evict them. With a small one, every
 * merge of a large batch reads most of the index again. So there is as much room as the indexes need.
 *
 * More room takes a new session, which reads its content again. Each is at least twice as large as the one before it, up to the
 * limit, so the old ones that idle datasets still hold are together no larger than that.
 */
import type { Session } from '@lancedb/lancedb';
import type { Location } from '../../../kernel/ids.ts';
import { type NativeTable, newSession } from '../native/native.ts';

export interface CacheLimits {
  /** The most that indexes may take; they take less while they are small. */
  readonly indexCacheBytes: number;
  /** The part of `indexCacheBytes` that is there from the start. A reader has all at once. */
  readonly firstIndexCacheBytes?: number;
  readonly metadataCacheBytes: number;
}

const firstIndexBytes = 2 ** 24;
/** Also for pages of the index before it, which the engine does not forget at once. */
const roomPerIndexByte = 1.5;

export class EngineCaches {
  readonly #limits: CacheLimits;
  /** The bytes that each takes in memory. */
  readonly #indexes = new Map<string, { readonly location: Location; readonly bytes: number }>();
  #capacityBytes: number;
  #session: Session;

  constructor(limits: CacheLimits) {
    this.#limits = limits;
    this.#capacityBytes = Math.min(limits.firstIndexCacheBytes ?? firstIndexBytes, limits.indexCacheBytes);
    this.#session = newSession(this.#capacityBytes, limits.metadataCacheBytes);
  }

  /** For datasets that are opened now. One that was opened with another session works on, with less room. */
  get session(): Session {
    return this.#session;
  }

  /** Makes room in the session for as much of an index as the limit allows. Returns whether that is all of it. */
  makeRoom(location: Location, column: string, bytes: number): boolean {
    const { indexCacheBytes } = this.#limits;
    this.#indexes.set(JSON.stringify([location, column]), { location, bytes });
    const sum = this.#indexes.values().reduce((total, index) => total + index.bytes, 0);
    const wantedBytes = Math.min(indexCacheBytes, Math.ceil(sum * roomPerIndexByte));
    if (wantedBytes > this.#capacityBytes) {
      const capacityBytes = Math.min(indexCacheBytes, Math.max(wantedBytes, this.#capacityBytes * 2));
      this.#session = newSession(capacityBytes, this.#limits.metadataCacheBytes);
      this.#capacityBytes = capacityBytes;
    }
    return bytes <= indexCacheBytes;
  }

  /** The dataset is gone. */
  forget(location: Location): void {
    for (const [key, index] of this.#indexes) if (index.location === location) this.#indexes.delete(key);
  }
}

/** The caches that a dataset was opened with. */
export interface DatasetCaches {
  areReplaced(): boolean;
  /** Whether an index of so many bytes can be kept, which may take other caches than these. */
  makeRoom(column: string, bytes: number): boolean;
  /** The newest version, with the caches there are now. */
  open(): Promise<NativeTable>;
}
