/**
 * Text of a result of several batches. A thread writes it while this one sends what is ready: on one thread they took 2.7 times as long as
 * the same result in Arrow (docs/measurements/rows.md). Most results have one batch, and are written before a thread were asked; the
 * thread is started by the second batch, and gets the first one that finds it ready.
 */
import { Worker } from 'node:worker_threads';
import { asBuffer, type IpcFile } from '../arrow/format/ipc-file.ts';
import { LancegateError } from '../kernel/errors.ts';
import { RowText, type TextForm } from '../rows/answers/row-text.ts';
import { errorOf, mostReplyBytes, type PlainError } from './protocol.ts';

/** One message to the thread, which answers each. */
export type ToWrite =
  | { readonly kind: 'begin'; readonly form: TextForm; readonly rows: number }
  | { readonly kind: 'add'; readonly file: Uint8Array }
  | { readonly kind: 'next' | 'end' };

/** The next part, in memory that the thread shares; none behind the last of a batch. `rows`: so far. */
export type WrittenText =
  | { readonly part: Uint8Array | undefined; readonly rows: number }
  | { readonly fault: PlainError };

/** Its objects are few: batches and text lie outside of them. */
const resourceLimits = { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 4 };

/** Writes the results of one reader, one after the other. */
export class TextThread {
  #worker: Worker | undefined;
  #isReady = false;
  readonly #waiting: PromiseWithResolvers<WrittenText>[] = [];

  get isReady(): boolean {
    return this.#isReady;
  }

  start(): void {
    if (this.#worker !== undefined) return;
    const worker = new Worker(new URL('./text-thread.ts', import.meta.url), { execArgv: [], resourceLimits });
    worker.on('online', () => {
      this.#isReady = true;
    });
    worker.on('message', (written: WrittenText) => this.#waiting.shift()?.resolve(written));
    worker.on('error', (error) => this.#end(error));
    this.#worker = worker;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#worker?.terminate();
  }

  async ask(message: ToWrite): Promise<Extract<WrittenText, { readonly rows: number }>> {
    const worker = this.#worker;
    if (worker === undefined) throw new LancegateError('Internal', 'the thread that wrote the rows has ended');
    const waiting = Promise.withResolvers<WrittenText>();
    this.#waiting.push(waiting);
    worker.postMessage(message);
    const written = await waiting.promise;
    if ('fault' in written) throw errorOf(written.fault);
    return written;
  }

  /** The next long result has another thread. */
  #end(error: unknown): void {
    this.#worker = undefined;
    this.#isReady = false;
    for (const waiting of this.#waiting.splice(0)) waiting.reject(error);
  }
}

export class ThreadedText {
  readonly #form: TextForm;
  readonly #thread: TextThread;
  readonly #here: RowText;
  /** WrittenText by the thread; undefined before it has the first batch. */
  #rowsThere: number | undefined;
  #batches = 0;

  constructor(form: TextForm, thread: TextThread) {
    this.#form = form;
    this.#thread = thread;
    this.#here = new RowText(form, mostReplyBytes);
  }

  /** In the files so far. */
  get rows(): number {
    return this.#rowsThere ?? this.#here.rows;
  }

  async *add(file: IpcFile): AsyncGenerator<Buffer, void, void> {
    this.#batches += 1;
    if (this.#batches > 1) this.#thread.start();
    if (this.#rowsThere === undefined && (this.#batches === 1 || !this.#thread.isReady)) {
      yield* this.#here.add(file);
      return;
    }
    if (this.#rowsThere === undefined) yield* this.#handOver();
    yield* this.#written({ kind: 'add', file });
  }

  async *end(): AsyncGenerator<Buffer, void, void> {
    if (this.#rowsThere === undefined) yield* this.#here.end();
    else yield* this.#written({ kind: 'end' });
  }

  async *#handOver(): AsyncGenerator<Buffer, void, void> {
    const { rows } = this.#here;
    this.#rowsThere = rows;
    yield this.#here.rest();
    yield* this.#written({ kind: 'begin', form: this.#form, rows });
  }

  /** The thread writes one part while the last one leaves. */
  async *#written(message: ToWrite): AsyncGenerator<Buffer, void, void> {
    let asked = this.#thread.ask(message);
    for (;;) {
      const { part, rows } = await asked;
      this.#rowsThere = rows;
      if (part === undefined) return;
      asked = this.#thread.ask({ kind: 'next' });
      asked.catch(() => undefined); // the next round awaits it, and throws what it throws
      yield asBuffer(part);
    }
  }
}
