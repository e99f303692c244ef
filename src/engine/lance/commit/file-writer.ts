/**
 * Writes the small files of a commit, many of them on a thread of its own: to make a file takes 0.05 ms, but 0.3 to 0.6 on an
 * ext4 without a journal that has just removed thousands (measured: it looks at each of those first), and a commit of a busy
 * table has 20 to 40. On the event loop that was a sixth of all time, for which everybody waited (P10).
 *
 * It syncs nothing. If the thread ends, what it was asked for has failed, and the next who asks has another one.
 */
import { Worker } from 'node:worker_threads';
import { type NewFile, removeFiles, writeFiles } from './version-commit.ts';

/** To the thread. */
export interface WriteOrder {
  readonly id: number;
  readonly files: readonly NewFile[];
}

/** From the thread. */
export interface WriteOutcome {
  readonly id: number;
  /** Errors lose their code on the way. */
  readonly failure: { readonly code: string | undefined; readonly message: string } | undefined;
}

type Settle = (failure: Error | undefined) => void;

/** They take 0.5 ms, and 5 at worst; on another thread it would take a turn of the event loop more, which may be as long. */
const fewFiles = 8;
/** Four files of 16 KiB take as long as four of 100 bytes; seven of 60 KiB took 1.7 to 2.9 ms beside other writers (measured). */
const fewBytes = 2 ** 16;

export class FileWriter {
  readonly #waiting = new Map<number, Settle>();
  #worker: Worker | undefined;
  #lastId = 0;

  /** All of them, or none. Rejects with the errors of `node:fs`. */
  async write(files: readonly NewFile[]): Promise<void> {
    const bytes = files.reduce((sum, { content }) => sum + content.length, 0);
    if (files.length <= fewFiles && bytes <= fewBytes) return writeFiles(files);
    try {
      await this.#order(files);
    } catch (error) {
      removeFiles(files); // the thread has, unless it ended
      throw error;
    }
  }

  /** Lets go of the thread; whoever asks again has another one. */
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
    worker.on('message', (outcome: WriteOutcome) => this.#settle(worker, outcome));
    worker.on('error', (cause) => this.#ended(worker, cause));
    worker.on('exit', () => this.#ended(worker, undefined));
    this.#worker = worker;
    return worker;
  }

  #settle(worker: Worker, { id, failure }: WriteOutcome): void {
    this.#waiting.get(id)?.(failure && Object.assign(new Error(failure.message), { code: failure.code }));
    this.#waiting.delete(id);
    // A process that has nothing else to do may end.
    if (this.#waiting.size === 0) worker.unref();
  }

  #ended(worker: Worker, cause: unknown): void {
    if (this.#worker !== worker) return;
    this.#worker = undefined;
    for (const settle of this.#waiting.values()) settle(new Error('the thread that writes files ended', { cause }));
    this.#waiting.clear();
  }
}
