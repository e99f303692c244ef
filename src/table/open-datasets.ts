import { LRUCache } from 'lru-cache';
import type { Dataset } from '../engine/port/dataset.ts';
import type { Datasets } from '../engine/port/engine.ts';
import type { BranchName, Location } from '../kernel/ids.ts';

interface OpenDataset {
  readonly location: Location;
  readonly dataset: Promise<Dataset>;
}

/**
 * Keeps datasets open between requests, since a warm one refreshes in a fraction of the time that opening takes. The least
 * recently used are dropped. A dropped dataset is not closed, because a request may still be reading from it: the binding frees
 * it when nothing refers to it any more.
 */
export class OpenDatasets {
  readonly #engine: Datasets;
  readonly #open: LRUCache<string, OpenDataset>;
  readonly #onForgotten: (location: Location) => void;

  constructor(engine: Datasets, maxOpen: number, onForgotten: (location: Location) => void = () => undefined) {
    this.#engine = engine;
    this.#onForgotten = onForgotten;
    this.#open = new LRUCache({ max: maxOpen });
  }

  /** Returns the dataset at its newest version. Throws as `Engine.open` does. */
  latest(location: Location, branch: BranchName | undefined): Promise<Dataset> {
    return this.#latest(location, branch, 'to read');
  }

  /** Returns the dataset as `BranchHead.refresh` gives it to a commit. */
  toWrite(location: Location, branch: BranchName | undefined): Promise<Dataset> {
    return this.#latest(location, branch, 'to write');
  }

  /** Returns the dataset at the version it was last seen at, which is the newest unless another process commits. */
  async lastSeen(location: Location, branch: BranchName | undefined): Promise<Dataset> {
    return (await this.#find(location, branch)).dataset;
  }

  /** The caller calls this when the files at a location, or a branch of it, are about to go. */
  forget(location: Location): void {
    for (const [key, entry] of [...this.#open]) if (entry.location === location) this.#open.delete(key);
    this.#onForgotten(location);
  }

  async #latest(location: Location, branch: BranchName | undefined, purpose: 'to read' | 'to write'): Promise<Dataset> {
    const { entry, dataset, isKept } = await this.#find(location, branch);
    if (!isKept) return dataset;
    if ((await dataset.refresh(purpose)) !== 'replaced') return dataset;
    this.#drop(keyOf(location, branch), entry);
    return this.#latest(location, branch, purpose);
  }

  async #find(
    location: Location,
    branch: BranchName | undefined,
  ): Promise<{ entry: OpenDataset; dataset: Dataset; isKept: boolean }> {
    const key = keyOf(location, branch);
    const kept = this.#open.get(key);
    const entry = kept ?? { location, dataset: this.#engine.open({ location, branch }) };
    if (kept === undefined) this.#open.set(key, entry);
    try {
      return { entry, dataset: await entry.dataset, isKept: kept !== undefined };
    } catch (error) {
      this.#drop(key, entry);
      throw error;
    }
  }

  /** Drops it unless another one was opened since. */
  #drop(key: string, entry: OpenDataset): void {
    if (this.#open.peek(key) === entry) this.#open.delete(key);
  }
}

const keyOf = (location: Location, branch: BranchName | undefined): string => `${location}\n${branch ?? ''}`;
