import { randomUUID } from 'node:crypto';
import type { Builds, CompactionOrder, CompactionResult, IndexBuild } from '../engine/port/reader-work.ts';
import { LancegateError } from '../kernel/errors.ts';
import { type Answered, expectAnswer, type Work } from './protocol.ts';
import type { ReaderPool } from './reader-pool.ts';

/** Maintenance is a principal of its own: it waits for one build of a client at the most, and a client for one of its builds. */
const maintenance = 'maintenance';

/**
 * Builds indexes and compacts in processes of its own: readers of a second pool, so that a build of minutes takes none from the
 * queries.
 */
export class Builders implements Builds {
  readonly #pool: ReaderPool;
  readonly #memoryBytes: number;

  constructor(pool: ReaderPool, memoryBytes: number) {
    this.#pool = pool;
    this.#memoryBytes = memoryBytes;
  }

  async build({ spec, principal = maintenance, ...build }: IndexBuild): Promise<void> {
    expectAnswer(await this.#ask({ ...build, principal }, { kind: 'index', spec }), 'built');
  }

  async compact({ spec, ...compaction }: CompactionOrder): Promise<CompactionResult> {
    const order = { ...compaction, principal: maintenance };
    return expectAnswer(await this.#ask(order, { kind: 'compact', spec }), 'compacted');
  }

  async #ask(
    { store, location, branch, version, principal, signal }: Omit<IndexBuild, 'spec'> & { readonly principal: string },
    work: Extract<Work, { readonly kind: 'index' | 'compact' }>,
  ): Promise<Answered> {
    // A dataset that was kept open says nothing of this one. A shadow is gone afterwards, so it is not kept open.
    const lineage = store === 'shadow' ? undefined : randomUUID();
    const order = { at: { store, location, branch, version, lineage }, work };
    try {
      return await this.#pool.ask(order, { principal, signal });
    } catch (error) {
      signal.throwIfAborted();
      throw error instanceof LancegateError && error.kind === 'ReaderDied' ? this.#died(error, work.kind) : error;
    }
  }

  #died(error: LancegateError, work: 'index' | 'compact'): LancegateError {
    const { internal } = error;
    const what = work === 'index' ? 'the index' : 'the compaction';
    const why =
      internal?.reason === 'memory'
        ? `${what} needs more than the ${Math.floor(this.#memoryBytes / 2 ** 20)} MiB that its process may have (--index-memory)`
        : `the process that built ${what} died`;
    return new LancegateError('ReaderDied', `${why}; nothing was written`, {
      cause: error,
      retryAfterSeconds: 1,
      ...(internal === undefined ? {} : { internal }),
    });
  }
}
