import type { IndexBuild, IndexBuilds } from '../engine/port/reader-work.ts';
import { LancegateError } from '../kernel/errors.ts';
import { expectAnswer, type ReadAt } from './protocol.ts';
import type { ReaderPool } from './reader-pool.ts';

/** Maintenance is a principal of its own: it waits for one build of a client at the most, and a client for one of its builds. */
const maintenance = 'maintenance';

/** Builds indexes in processes of their own: readers of a second pool, so that a build of minutes takes none from the queries. */
export class IndexBuilders implements IndexBuilds {
  readonly #pool: ReaderPool;
  readonly #memoryBytes: number;
  #lastLineage = 0;

  constructor(pool: ReaderPool, memoryBytes: number) {
    this.#pool = pool;
    this.#memoryBytes = memoryBytes;
  }

  async build({ store, location, branch, version, spec, principal = maintenance, signal }: IndexBuild): Promise<void> {
    // Never the same twice: a dataset that was kept open says nothing of this one.
    this.#lastLineage += 1;
    const at: ReadAt = { store, location, branch, version, isExact: false, lineage: `build ${this.#lastLineage}` };
    const order = { at, work: { kind: 'index', spec }, extraBytes: 0 } as const;
    try {
      expectAnswer(await this.#pool.ask(order, { principal, signal }), 'built');
    } catch (error) {
      signal.throwIfAborted();
      throw error instanceof LancegateError && error.kind === 'ReaderDied' ? this.#died(error) : error;
    }
  }

  #died(error: LancegateError): LancegateError {
    const { internal } = error;
    const why =
      internal?.reason === 'memory'
        ? `the index needs more than the ${Math.floor(this.#memoryBytes / 2 ** 20)} MiB that its build may have (--index-memory)`
        : 'the process that built the index died';
    return new LancegateError('ReaderDied', `${why}; nothing was written`, {
      cause: error,
      retryAfterSeconds: 1,
      ...(internal === undefined ? {} : { internal }),
    });
  }
}
