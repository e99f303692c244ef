/**
 * What the engine keeps in memory, for all datasets together. A session of the engine has a size from the start, and of an
 * index that was built anew the old pages stay until they are pushed out, so a large one fills up whatever is done: one
 * writer of single rows would take 128 MiB for an index of 2 (docs/adr/0010). Too small a one is worse: every merge of a
 * large group reads most of the index again (docs/adr/0012). So there is as much room as the indexes ask for.
 *
 * Room is made by a new session; what is in the old one is read again once. Each is at least twice as large as the one
 * before it, up to the limit, so that those which an idle dataset still holds on to are together no larger than that.
 */
import type { Session } from '@lancedb/lancedb';
import type { Location } from '../../../kernel/ids.ts';
import { type NativeIndex, type NativeTable, newSession, plainIndexName } from '../native/native.ts';

export interface CacheLimits {
  /** At most: there is less while indexes are small. */
  readonly indexCacheBytes: number;
  readonly metadataCacheBytes: number;
}

const firstIndexBytes = 2 ** 24;
/** For pages of the index that was there before, which the engine does not forget at once. */
const roomPerIndexByte = 1.5;

export class EngineCaches {
  readonly #limits: CacheLimits;
  /** What each takes in memory. */
  readonly #indexes = new Map<string, { readonly location: Location; readonly bytes: number }>();
  #capacityBytes: number;
  #session: Session;

  constructor(limits: CacheLimits) {
    this.#limits = limits;
    this.#capacityBytes = Math.min(firstIndexBytes, limits.indexCacheBytes);
    this.#session = newSession(this.#capacityBytes, limits.metadataCacheBytes);
  }

  /** For what is opened now. A dataset opened with another one works on, with less room. */
  get session(): Session {
    return this.#session;
  }

  /** Answers whether the whole of an index can be kept. As much of it as can be has room in the session from now on. */
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

/** As `Dataset.warmIndex`. `warmShadow` reads the index for the shadows of the branch, and is false if there can be none. */
export async function warmIndex(
  table: NativeTable,
  caches: DatasetCaches | undefined,
  column: string,
  warmShadow: (name: string) => Promise<boolean>,
): Promise<boolean> {
  const name = plainIndexName(column);
  const index = (await table.listIndices()).find((each) => each.name === name);
  if (index === undefined || caches === undefined) return true;
  if (!caches.makeRoom(column, bytesInMemory(index))) return false;
  if (await warmShadow(name)) return true;
  const other = await caches.open();
  await other.prewarmIndex(name).finally(() => other.close());
  return true;
}

/** Keys are stored packed; in memory each takes its row's address beside it, and numbers eight bytes. */
const bytesInMemory = ({ sizeBytes = 0, numIndexedRows = 0 }: NativeIndex): number => sizeBytes + 16 * numIndexedRows;
