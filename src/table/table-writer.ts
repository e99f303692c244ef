import type { MergeCounts } from '../engine/port.ts';
import { BranchWriter, type WriterParts } from './branch-writer.ts';
import type { MergeRequest } from './merge-request.ts';

/**
 * Idle writers are kept for the keys they know, the least recently used forgotten first. As many as tables are kept open: what
 * is known goes with the dataset it is known of. The keys have a budget of their own; besides them a writer has a few KB.
 */
const maxIdleWriters = 512;

/** The one way rows get into an existing table: each table branch has one writer, made when it is first written to. */
export class TableWriter {
  readonly #parts: WriterParts;
  readonly #writers = new Map<string, BranchWriter>();

  constructor(parts: WriterParts) {
    this.#parts = parts;
  }

  /**
   * Resolves when the rows are committed and the commit is recorded. Throws what `MergeRequest.locate` and `Dataset.merge`
   * throw, `SlowDown`, and the reason of the scope's signal: then nothing was written. `Internal` leaves that open.
   */
  async merge(request: MergeRequest): Promise<MergeCounts> {
    const leave = await this.#parts.gates.enterShared(request.table, request.scope.signal);
    try {
      return await this.#writerOf(request).merge(request);
    } finally {
      leave();
    }
  }

  /** Resolves when no commit is under way. */
  async settled(): Promise<void> {
    await Promise.all([...this.#writers.values()].map((writer) => writer.settled()));
  }

  #writerOf(request: MergeRequest): BranchWriter {
    const key = JSON.stringify([...request.table.namespace, request.table.name, request.branch ?? null]);
    const writer = this.#writers.get(key) ?? new BranchWriter(this.#parts);
    this.#writers.delete(key);
    this.#writers.set(key, writer);
    this.#forgetIdle();
    return writer;
  }

  #forgetIdle(): void {
    if (this.#writers.size <= maxIdleWriters) return;
    let idle = [...this.#writers.values()].filter((writer) => writer.isIdle).length;
    for (const [key, writer] of this.#writers) {
      if (idle <= maxIdleWriters) return;
      if (!writer.isIdle) continue;
      writer.forgetKeys();
      this.#writers.delete(key);
      idle -= 1;
    }
  }
}
