import type { Clock } from '../kernel/clock.ts';
import { LancegateError } from '../kernel/errors.ts';
import { onAbort } from '../kernel/request-scope.ts';
import { type Answered, expectAnswer, free, type QueryFacts, type QueryResult, type ResultPart } from './protocol.ts';
import type { ResultSpool } from './result-spool.ts';

type Queried = Extract<Answered, { readonly kind: 'queried' }>;

interface RelayParts {
  /** The request has this signal. */
  readonly signal: AbortSignal;
  readonly clock: Clock;
  readonly spool: ResultSpool;
  /** Says whether a query that waits would have the reader of this one, or such a query of another principal. */
  readonly isReaderWanted: (by: 'anybody' | 'others') => boolean;
}

/** A reader waits for its client so long in all before others that wait count. */
const waitsForClientMs = 100;
const lookEveryMs = 25;
/** A result that is too long to be spooled waits so long for a client that takes less than this, while others wait. */
const waitsWhileWantedMs = 2_000;
const leastBytesPerMs = 16_000;
const spooledPartBytes = 256 * 1024;

/**
 * Relays the bytes of a result from a reader to a client, one message at a time: the reader's next message is not taken before
 * the client's side has asked for it, so the reader goes no faster than the client. Where others wait for the reader of a
 * client that lets it wait, the rest of the result is spooled, and the reader is free as soon as it has computed it (P10).
 */
export class RelayedResult implements QueryResult {
  /** Ends the query: aborts with the request, or once the result is left. */
  readonly signal: AbortSignal;
  readonly #parts: RelayParts;
  readonly #ending = new AbortController();
  readonly #started = Promise.withResolvers<void>();
  #waiting: ResultPart | undefined;
  #taken: () => void = () => undefined;
  #wake: () => void = () => undefined;
  /** The reader has waited so long for the client. */
  #waitedMs = 0;
  /** The client has asked for so many so far. */
  #takenBytes = 0;
  /** There is no room to spool since then, and the client had taken so much by then. */
  #full: { readonly sinceMs: number; readonly takenBytes: number } | undefined;
  #queried: Queried | undefined;
  #failure: unknown;
  #whole: Buffer | undefined;
  #hasStarted = false;
  #isRead = false;

  constructor(parts: RelayParts) {
    this.#parts = parts;
    this.signal = this.#ending.signal;
    onAbort(parts.signal, () => this.#ending.abort(parts.signal.reason));
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

  /** Resolves when the client's side has asked for the bytes, when they are spooled, or when the query has ended. */
  readonly take = async (part: ResultPart): Promise<void> => {
    if (this.#failure !== undefined) return;
    const { clock, spool, isReaderWanted } = this.#parts;
    const sinceMs = clock.nowMs();
    const waitedBeforeMs = this.#waitedMs;
    this.#offer(part);
    this.#started.resolve();
    for (let mayWait = spool.unreadBytes === 0; this.#waiting === part; mayWait = true) {
      if (mayWait) await this.#takenWithin(lookEveryMs);
      this.#waitedMs = waitedBeforeMs + clock.nowMs() - sinceMs;
      if (this.#waiting !== part || this.#waitedMs < waitsForClientMs || !isReaderWanted('anybody')) continue;
      if (!(await this.#spool(part)) && this.#isTooSlow() && isReaderWanted('others')) this.#giveUp();
    }
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

  #takenWithin(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#parts.clock.schedule(ms, resolve);
      this.#taken = () => {
        cancel();
        resolve();
      };
    });
  }

  /** The part is still the one that waits where this returns false. The client's side asks for nothing meanwhile. */
  async #spool(part: ResultPart): Promise<boolean> {
    this.#waiting = undefined;
    const isSpooled = await this.#parts.spool.write(part.bytes);
    if (isSpooled && part.readChunk !== undefined) free(part.readChunk);
    if (!isSpooled && this.#failure === undefined) this.#waiting = part;
    if (isSpooled) this.#full = undefined;
    else this.#full ??= { sinceMs: this.#parts.clock.nowMs(), takenBytes: this.#takenBytes };
    this.#wake();
    return isSpooled;
  }

  #isTooSlow(): boolean {
    if (this.#full === undefined) return false;
    const fullForMs = this.#parts.clock.nowMs() - this.#full.sinceMs;
    return fullForMs > waitsWhileWantedMs && this.#takenBytes - this.#full.takenBytes < fullForMs * leastBytesPerMs;
  }

  #giveUp(): void {
    this.#fail(new LancegateError('TimedOut', 'the client takes the answer too slowly while others wait for a reader'));
    this.#ending.abort();
  }

  #fail(error: unknown): void {
    this.#failure ??= error;
    this.#waiting = undefined;
    this.#parts.spool.close();
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
      this.#parts.spool.close();
      if (!this.#isRead) this.#ending.abort();
    }
  }

  async #next(): Promise<ResultPart | undefined> {
    const part = await this.#nextPart();
    this.#takenBytes += part?.bytes.length ?? 0;
    return part;
  }

  async #nextPart(): Promise<ResultPart | undefined> {
    const { spool } = this.#parts;
    for (;;) {
      if (this.#failure !== undefined) throw this.#failure;
      if (spool.unreadBytes > 0) return { bytes: await spool.read(spooledPartBytes), readChunk: undefined };
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
