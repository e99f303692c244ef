import { onAbort } from '../kernel/request-scope.ts';
import type { Answered, QueryFacts, QueryResult, ResultPart } from './protocol.ts';

type Queried = Extract<Answered, { readonly kind: 'queried' }>;

/**
 * The bytes of a result on their way from a reader to a client, one message at a time: the reader's next message is not taken
 * before the client's side has asked for it, so the reader goes no faster than the client.
 */
export class RelayedResult implements QueryResult {
  /** What ends the query: the request's own end, or that nobody reads on. */
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
    this.#started.promise.catch(() => undefined); // who asked handles it
  }

  /** Resolves when there is something to read; rejects with what came before that. */
  get started(): Promise<void> {
    return this.#started.promise;
  }

  get whole(): Buffer | undefined {
    return this.#whole;
  }

  get parts(): AsyncIterable<ResultPart> {
    return this.#read();
  }

  facts(): QueryFacts | undefined {
    const isDone = this.#isRead || this.#whole !== undefined;
    return isDone ? this.#queried : undefined;
  }

  /** Resolves when the bytes are on their way to the client, or nobody wants them. */
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
    answered.then(
      (answer) => this.#end(answer),
      (error: unknown) => this.#fail(error),
    );
  }

  #end(answer: Answered): void {
    if (answer.kind !== 'queried') {
      this.#fail(new Error('a reader answered another question'));
      return;
    }
    if (!this.#hasStarted) this.#whole = answer.bytes;
    this.#queried = answer;
    this.#offer({ bytes: answer.bytes, free: () => undefined });
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

  async *#read(): AsyncGenerator<ResultPart, void, void> {
    try {
      for (;;) {
        const next = await this.#next();
        if (next === undefined) break;
        yield next;
      }
      this.#isRead = true;
    } finally {
      if (!this.#isRead) this.#ending.abort(new Error('nobody reads the result'));
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
