import { onAbort } from '../kernel/request-scope.ts';
import { type Answered, expectAnswer, free, type QueryFacts, type QueryResult, type ResultPart } from './protocol.ts';

type Queried = Extract<Answered, { readonly kind: 'queried' }>;

/**
 * The bytes of a result on their way from a reader to a client, one message at a time: the reader's next message is not taken
 * before the client's side has asked for it, so the reader goes no faster than the client.
 */
export class RelayedResult implements QueryResult {
  /** Ends the query: aborts with the request, or once the result is left. */
  readonly signal: AbortSignal;
  readonly #ending = new AbortController();
  readonly #started = Promise.withResolvers<void>();
  #waiting: ResultPart | undefined;
  #taken: () => void = () => undefined;
  #wake: () => void = () => undefined;
  #queried: Queried | undefined;
  #failure: unknown;
  #whole: Buffer | undefined;
  #hasStarted = false;
  #isRead = false;

  constructor(signal: AbortSignal) {
    this.signal = this.#ending.signal;
    onAbort(signal, () => this.#ending.abort(signal.reason));
    onAbort(this.signal, () => this.#fail(this.signal.reason));
    this.#started.promise.catch(() => undefined); // each wait on `started` handles it
  }

  /** Resolves when there are bytes to read; rejects with what ended the query before that. */
  get started(): Promise<void> {
    return this.#started.promise;
  }

  get whole(): Buffer | undefined {
    return this.#whole;
  }

  get parts(): AsyncIterable<Uint8Array> {
    return this.#read();
  }

  facts(): QueryFacts | undefined {
    const isDone = this.#isRead || this.#whole !== undefined;
    return isDone ? this.#queried : undefined;
  }

  /** Resolves when the client's side has asked for the bytes, or the query has ended. */
  readonly take = (part: ResultPart): Promise<void> => {
    if (this.#failure !== undefined) return Promise.resolve();
    return new Promise((resolve) => {
      this.#taken = resolve;
      this.#offer(part);
      this.#started.resolve();
    });
  };

  /** The reader has answered, or it never will. */
  follow(answered: Promise<Answered>): void {
    answered.then((answer) => this.#end(expectAnswer(answer, 'queried'))).catch((error: unknown) => this.#fail(error));
  }

  #end(answer: Queried): void {
    if (!this.#hasStarted) this.#whole = answer.bytes;
    this.#queried = answer;
    this.#offer({ bytes: answer.bytes, readChunk: undefined });
    this.#started.resolve();
  }

  #offer(part: ResultPart): void {
    this.#hasStarted = true;
    this.#waiting = part;
    this.#wake();
  }

  #fail(error: unknown): void {
    this.#failure ??= error;
    this.#waiting = undefined;
    this.#started.reject(error);
    this.#taken();
    this.#wake();
  }

  async *#read(): AsyncGenerator<Buffer, void, void> {
    try {
      for (;;) {
        const next = await this.#next();
        if (next === undefined) break;
        yield next.bytes;
        if (next.readChunk !== undefined) free(next.readChunk);
      }
      this.#isRead = true;
    } finally {
      if (!this.#isRead) this.#ending.abort(new Error('the result was left before its end'));
    }
  }

  async #next(): Promise<ResultPart | undefined> {
    for (;;) {
      if (this.#failure !== undefined) throw this.#failure;
      const part = this.#waiting;
      if (part !== undefined) {
        this.#waiting = undefined;
        this.#taken();
        return part;
      }
      if (this.#queried !== undefined) return undefined;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}
