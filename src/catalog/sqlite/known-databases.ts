import { LRUCache } from 'lru-cache';
import type { ObjectName } from '../../kernel/ids.ts';

/**
 * Names that are no databases. Clients send one with every request, and the query costs what a small read can do without. One process
 * owns the database, so only its own changes make one of them.
 */
export class KnownDatabases {
  readonly #none = new LRUCache<ObjectName, true>({ max: 1_000 });
  #changes = 0;

  async isDatabase(name: ObjectName, read: (name: ObjectName) => Promise<boolean>): Promise<boolean> {
    if (this.#none.has(name)) return false;
    const changes = this.#changes;
    const isDatabase = await read(name);
    if (!isDatabase && changes === this.#changes) this.#none.set(name, true);
    return isDatabase;
  }

  /** What was read while the change was under way is not kept. */
  async changing<Done>(change: Promise<Done>): Promise<Done> {
    try {
      return await change;
    } finally {
      this.#changes += 1;
      this.#none.clear();
    }
  }
}
