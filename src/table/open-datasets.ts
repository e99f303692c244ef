import type { Dataset, Engine } from '../engine/port.ts';
import type { BranchName, Location } from '../kernel/ids.ts';

/**
 * Datasets kept open between requests, the least recently used forgotten first. Opening one costs about a millisecond and
 * re-reads the manifest; a warm one refreshes in a fraction of it. A forgotten dataset is not closed, because a request
 * may still be reading from it: the binding frees it when nobody holds it any more.
 */
export class OpenDatasets {
  readonly #engine: Engine;
  readonly #maxOpen: number;
  readonly #open = new Map<string, { readonly location: Location; readonly dataset: Promise<Dataset> }>();

  constructor(engine: Engine, maxOpen: number) {
    this.#engine = engine;
    this.#maxOpen = maxOpen;
  }

  /** At its newest version. Throws as `Engine.open` does, and what cannot be read any more is forgotten. */
  async latest(location: Location, branch: BranchName | undefined): Promise<Dataset> {
    const key = `${location}\n${branch ?? ''}`;
    const kept = this.#open.get(key);
    const entry = kept ?? { location, dataset: this.#engine.open({ location, branch }) };
    this.#open.delete(key);
    this.#open.set(key, entry);
    this.#shrink();
    try {
      const dataset = await entry.dataset;
      if (kept !== undefined) await dataset.refresh();
      return dataset;
    } catch (error) {
      if (this.#open.get(key) === entry) this.#open.delete(key);
      throw error;
    }
  }

  /** To be called when the files at a location, or a branch of it, are about to go. */
  forget(location: Location): void {
    for (const [key, entry] of this.#open) if (entry.location === location) this.#open.delete(key);
  }

  #shrink(): void {
    for (const key of this.#open.keys()) {
      if (this.#open.size <= this.#maxOpen) return;
      this.#open.delete(key);
    }
  }
}
