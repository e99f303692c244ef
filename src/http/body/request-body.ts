/**
 * A request's body on its way in. It is not Fastify's: nothing is read, and no `100 Continue` sent, before a reader
 * asks for bytes; a slow client is given up; and the socket outlives a refusal, so that the answer can be read.
 *
 * Fails with `TimedOut` (503) for a client that stalls or trickles: nothing was written, and over a better network the
 * same request may succeed. 408 would say it better, but the namespace specification has no such answer.
 */
import type { IncomingMessage } from 'node:http';
import type { Clock } from '../../kernel/clock.ts';
import { invalidInput, LancegateError } from '../../kernel/errors.ts';
import { ChunkQueue } from './chunk-queue.ts';

/**
 * Below this average a client is taken to be holding on to its slot on purpose. Only time that we spend waiting counts:
 * a client is not slow because we are.
 */
const slowestBytesPerMs = 1;

/**
 * A rest of up to this much is taken and forgotten on a connection that lives on: it is mostly here already, and a new
 * connection costs both sides more. Node ends a request that never arrives (`requestTimeout`), its connection with it.
 */
const maxForgottenBytes = 64 * 2 ** 10;

/** What is still taken from a client before its connection is closed: enough for common bodies, bounded for hostile ones. */
const maxDiscardedBytes = 64 * 2 ** 20;
const maxDiscardMs = 5_000;

export interface BodyParts {
  readonly raw: IncomingMessage;
  /** Called once, before the first byte is asked for. */
  readonly onFirstRead: () => void;
  readonly onBytes: (count: number) => void;
  readonly clock: Clock;
  /** Longest wait for the next chunk; also how long a client may start slowly. */
  readonly idleTimeoutMs: number;
}

export class RequestBody {
  readonly #parts: BodyParts;
  readonly #chunks: ChunkQueue;
  #received = 0;
  #waitedBeforeMs = 0;
  #waitingSinceMs: number | undefined;
  #onEnd: () => void = () => {};
  #stopWatching: () => void = () => {};

  constructor(parts: BodyParts) {
    this.#parts = parts;
    this.#chunks = new ChunkQueue(parts.raw);
  }

  /** Bytes as they came over the network. */
  get received(): number {
    return this.#received;
  }

  /** How long its reader has waited for the client so far. */
  get waitedMs(): number {
    return this.#waitedBeforeMs + this.#waitingMs();
  }

  #waitingMs(): number {
    return this.#waitingSinceMs === undefined ? 0 : this.#parts.clock.nowMs() - this.#waitingSinceMs;
  }

  /** True if the client means to send bytes that have not arrived yet. */
  get isUnfinished(): boolean {
    return announcesBody(this.#parts.raw) && this.#parts.raw.complete === false;
  }

  /** See `canBeForgotten`. */
  get canBeForgotten(): boolean {
    return canBeForgotten(this.#parts.raw, this.#chunks.arrivedBytes);
  }

  /** Nobody will read what has not been read. Nothing of it stays in memory. */
  forget(): void {
    this.#chunks.forget();
  }

  /**
   * Once only. Ends with the abort reason of `signal` where that comes first. Leaving the loop closes nothing.
   * `isUsedAtOnce` says that a chunk is done with when the next one is asked for: then its memory is freed.
   */
  async *read(signal: AbortSignal, isUsedAtOnce: boolean): AsyncGenerator<Uint8Array, void, void> {
    this.#parts.onFirstRead();
    this.#stopWatching = this.#watch(signal);
    try {
      for (;;) {
        const chunk = await this.#next();
        if (chunk === undefined) return;
        this.#received += chunk.length;
        this.#parts.onBytes(chunk.length);
        yield chunk;
        if (isUsedAtOnce) free(chunk);
      }
    } finally {
      this.close();
    }
  }

  /**
   * Ends the reading. A consumer that refuses a body abandons `read` in the middle of its loop; without this, its timer would
   * run for ever and keep the consumer's memory. Harmless when repeated.
   */
  close(): void {
    this.#stopWatching();
    this.#onEnd();
  }

  /** Calls `run` when the body has been read or given up, perhaps more than once. */
  onEnd(run: () => void): void {
    this.#onEnd = run;
  }

  /**
   * Takes and forgets what still comes, so that the client gets to read the answer: a socket closed with bytes unread
   * makes the kernel send a reset, which discards the answer on the client's side. Never rejects.
   */
  async discard(): Promise<void> {
    const { promise: enough, resolve } = Promise.withResolvers<void>();
    const cancel = this.#parts.clock.schedule(maxDiscardMs, resolve);
    await Promise.race([this.#drain(), enough]);
    cancel();
  }

  async #drain(): Promise<void> {
    this.#chunks.forgive();
    for (let discarded = 0; discarded < maxDiscardedBytes; ) {
      const chunk = await this.#chunks.next().catch(() => undefined); // compensated: a client that is gone needs no draining
      if (chunk === undefined) return;
      discarded += chunk.length;
    }
  }

  async #next(): Promise<Buffer | undefined> {
    this.#waitingSinceMs = this.#parts.clock.nowMs();
    try {
      return await this.#chunks.next();
    } catch (error) {
      if (error instanceof LancegateError) throw error;
      throw invalidInput(`the upload was cut off after ${this.#received} bytes`, error);
    } finally {
      this.#waitedBeforeMs += this.#waitingMs();
      this.#waitingSinceMs = undefined;
      this.#requireSpeed();
    }
  }

  #requireSpeed(): void {
    const hasStarted = this.#waitedBeforeMs > this.#parts.idleTimeoutMs;
    if (hasStarted && this.#received < this.#waitedBeforeMs * slowestBytesPerMs) {
      this.#chunks.interrupt(tooSlow('arrives too slowly'));
    }
  }

  /** One listener and one timer for the whole body: a large one has thousands of chunks. */
  #watch(signal: AbortSignal): () => void {
    const onAbort = (): void => this.#chunks.interrupt(signal.reason as Error);
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    let cancelTimer = this.#parts.clock.schedule(this.#parts.idleTimeoutMs, () => checkIdle());
    const checkIdle = (): void => {
      const { clock, idleTimeoutMs } = this.#parts;
      const waitedMs = this.#waitingMs();
      if (waitedMs >= idleTimeoutMs) this.#chunks.interrupt(tooSlow('stopped arriving'));
      else cancelTimer = clock.schedule(idleTimeoutMs - waitedMs, checkIdle);
    };
    return () => {
      cancelTimer();
      signal.removeEventListener('abort', onAbort);
    };
  }
}

/**
 * Left to the collector, the chunks of a large body make V8 collect the whole heap again and again: 28 ms per body of
 * 12.8 MB. Node's parser gives each chunk memory of its own; one that shares it is left alone.
 */
function free({ buffer, byteLength }: Uint8Array): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0);
}

const tooSlow = (how: string): LancegateError => new LancegateError('TimedOut', `the body ${how}; nothing was written`);

/** RFC 9112, 6.3: a request without either header has no body. */
export const announcesBody = ({ headers }: IncomingMessage): boolean =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;

/**
 * True if what has not arrived of a body may be left to Node's parser, which finds the end of it and the next request
 * behind. Not with an unknown length, which may be without end. Not where the client waits for `100 Continue`: it may send
 * its body all the same, or leave it out and send its next request, and one must never be taken for the other.
 */
export function canBeForgotten({ headers }: IncomingMessage, arrivedBytes: number): boolean {
  if (headers['transfer-encoding'] !== undefined || headers.expect !== undefined) return false;
  return Number(headers['content-length']) - arrivedBytes <= maxForgottenBytes;
}

/** Of the body as its reader sees it: unknown for chunked bodies, and for coded ones, whose length says nothing of that. */
export function declaredBytes({ headers }: IncomingMessage): number | undefined {
  if (headers['content-length'] === undefined || headers['content-encoding'] !== undefined) return undefined;
  return Number(headers['content-length']);
}
