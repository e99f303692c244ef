/**
 * Writes the small files of a commit, many of them on a thread of its own: a commit of a busy table has 20 to 40, which take a file
 * system long enough to hold up the event loop (P10).
 *
 * It syncs nothing. If the thread ends, the writes under way fail, and the next one starts another thread.
 */
import { Worker } from 'node:worker_threads';
import { type NewFile, removeFiles, writeFiles } from './version-commit.ts';

/** What the service sends to the thread. */
export interface WriteOrder {
  readonly id: number;
  readonly files: readonly NewFile[];
}

/** What the thread answers. */
export interface WriteOutcome {
  readonly id: number;
  /** Errors lose their code on the way. */
  readonly failure: { readonly code: string | undefined; readonly message: string } | undefined;
}

/** undefined: whatever is best for other work of the event loop. */
export type Pace = 'in haste' | undefined;

type Finish = (failure: Error | undefined) => void;

/** So few take less time than the trip to the thread and back. */
const fewFiles = 8;
/** More bytes than this in all files take long next to other writers. */
const fewBytes = 2 ** 16;

export class FileWriter {
  readonly #waiting = new Map<number, Finish>();
  #worker: Worker | undefined;
  #lastId = 0;

  /**
   * All of them, or none. Rejects with the errors of `node:fs`. `in haste`: beside a program that commits all the time, which may win
   * during a trip to the thread; ten times as much is written at once then.
   */
  async write(files: readonly NewFile[], pace?: Pace): Promise<void> {
    const bytes = files.reduce((sum, { content }) => sum + content.length, 0);
    const times = pace === 'in haste' ? 10 : 1;
    if (files.length <= fewFiles * times && bytes <= fewBytes * times) return writeFiles(files);
    try {
      await this.#order(files);
    } catch (error) {
      removeFiles(files); // the thread has, unless it ended
      throw error;
    }
  }

  /** Ends the thread; a later write starts another one. */
  async close(): Promise<void> {
    await this.#worker?.terminate();
  }

  #order(files: readonly NewFile[]): Promise<void> {
    const worker = this.#thread();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#lastId += 1;
    this.#waiting.set(this.#lastId, (failure) => (failure === undefined ? resolve() : reject(failure)));
    worker.ref();
    worker.postMessage({ id: this.#lastId, files } satisfies WriteOrder);
    return promise;
  }

  #thread(): Worker {
    if (this.#worker !== undefined) return this.#worker;
    const worker = new Worker(new URL('./file-writer-thread.ts', import.meta.url), { execArgv: [] });
    worker.on('message', (outcome: WriteOutcome) => this.#finish(worker, outcome));
    worker.on('error', (cause) => this.#ended(worker, cause));
    worker.on('exit', () => this.#ended(worker, undefined));
    this.#worker = worker;
    return worker;
  }

  #finish(worker: Worker, { id, failure }: WriteOutcome): void {
    this.#waiting.get(id)?.(failure && Object.assign(new Error(failure.message), { code: failure.code }));
    this.#waiting.delete(id);
    // A process that has nothing else to do may end.
    if (this.#waiting.size === 0) worker.unref();
  }

  #ended(worker: Worker, cause: unknown): void {
    if (this.#worker !== worker) return;
    this.#worker = undefined;
    for (const finish of this.#waiting.values()) finish(new Error('the thread that writes files ended', { cause }));
    this.#waiting.clear();
  }
}
