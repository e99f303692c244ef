import type { MergeCounts } from '../../engine/port/merge-spec.ts';
import type { MergeRequest } from '../merge-request.ts';
import { BranchQueue, type WriterParts } from './branch-queue.ts';

export interface TableWriterParts extends WriterParts {
  /**
   * Idle writers are kept for the keys they know, so many of them, the least recently used forgotten first. More than tables are
   * kept open is no use: what is known goes with the dataset it is known of.
   */
  readonly maxIdle: number;
}

/** The one way rows get into an existing table: each table branch has one writer, made when it is first written to. */
export class TableWriter {
  readonly #parts: TableWriterParts;
  readonly #writers = new Map<string, BranchQueue>();

  constructor(parts: TableWriterParts) {
    this.#parts = parts;
  }

  /**
   * Resolves when the rows are committed and the commit is recorded. Throws what `TableAccess.requireUnchanged` and `Dataset.merge`
   * throw, `SlowDown`, and the reason of the scope's signal: then nothing was written. `Internal` leaves that open.
   */
  async merge(request: MergeRequest): Promise<MergeCounts> {
    const leave = await this.#parts.locks.lockShared(request.table.ref, request.scope.signal);
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

  #writerOf(request: MergeRequest): BranchQueue {
    const key = JSON.stringify([...request.table.ref.namespace, request.table.ref.name, request.branch ?? null]);
    const writer = this.#writers.get(key) ?? new BranchQueue(this.#parts);
    this.#writers.delete(key);
    this.#writers.set(key, writer);
    this.#forgetIdle();
    return writer;
  }

  #forgetIdle(): void {
    const { maxIdle } = this.#parts;
    if (this.#writers.size <= maxIdle) return;
    let idle = [...this.#writers.values()].filter((writer) => writer.isIdle).length;
    for (const [key, writer] of this.#writers) {
      if (idle <= maxIdle) return;
      if (!writer.isIdle) continue;
      writer.forgetKeys();
      this.#writers.delete(key);
      idle -= 1;
    }
  }
}
