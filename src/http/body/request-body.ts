/**
 * A request's body on its way in. It is not Fastify's: the service reads nothing, and sends no `100 Continue`, before a reader
 * asks for bytes; it gives up a slow client; and the socket outlives a refusal, so that the client can read the answer.
 *
 * Fails with `TimedOut` (503) for a client that stalls or trickles: nothing was written, and over a better network the
 * same request may succeed. 408 would say it better, but the namespace specification has no such answer.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Clock } from '../../kernel/clock.ts';
import { invalidInput, LancegateError } from '../../kernel/errors.ts';
import { reasonOf } from '../../kernel/request-scope.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import { expectsContinue } from '../request-head.ts';

/**
 * A client below this average keeps its permit on purpose. Only the time that the service waits counts: a client is not slow
 * where the service is.
 */
export const slowestBytesPerMs = 1;

/**
 * The service reads a rest of up to this much and drops it, on a connection that lives on: most of it has arrived, and a new
 * connection costs both sides more. Node ends a request that never arrives (`requestTimeout`), and its connection.
 */
const maxForgottenBytes = 64 * 2 ** 10;

interface BodyParts {
  readonly raw: IncomingMessage;
  readonly response: ServerResponse;
  readonly metrics: Pick<Metrics, 'bytesReceived'>;
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

  /** So many came over the network. */
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

  get canBeForgotten(): boolean {
    return canBeForgotten(this.#parts.raw, this.#chunks.arrivedBytes);
  }

  /** No reader wants the rest. Nothing of it stays in memory. */
  forget(): void {
    this.#chunks.forget();
  }

  /**
   * May be called once. Ends with the abort reason of `signal` where that comes first. Leaving the loop closes nothing.
   * `isUsedAtOnce` says that a chunk is done with when the next one is asked for: then its memory is freed.
   */
  async *read(signal: AbortSignal, isUsedAtOnce: boolean): AsyncGenerator<Uint8Array, void, void> {
    const { raw, response, metrics } = this.#parts;
    if (expectsContinue(raw)) response.writeContinue();
    this.#stopWatching = this.#watch(signal);
    try {
      for (;;) {
        const chunk = await this.#next();
        if (chunk === undefined) return;
        this.#received += chunk.length;
        metrics.bytesReceived(chunk.length);
        yield chunk;
        if (isUsedAtOnce) free(chunk);
      }
    } finally {
      this.close();
    }
  }

  /**
   * Ends the reading. A consumer that refuses a body abandons `read` in the middle of its loop; without this, its timer would
   * run for ever and keep the consumer's memory. May be called more than once.
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
   * Reads and drops what still comes, so that the client gets the answer: where a socket is closed with bytes unread, the
   * kernel sends a reset, which discards the answer on the client's side. Never rejects.
   */
  async discard(): Promise<void> {
    const { promise: enough, resolve } = Promise.withResolvers<void>();
    const cancel = this.#parts.clock.schedule(5_000, resolve);
    await Promise.race([this.#drain(), enough]);
    cancel();
  }

  async #drain(): Promise<void> {
    this.#chunks.forgive();
    // What the service still reads before it closes a connection: enough for common bodies, bounded for hostile ones.
    for (let discarded = 0; discarded < 64 * 2 ** 20; ) {
      const chunk = await this.#chunks.next().catch(() => undefined); // compensated: a client that has left needs no draining
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
      const hasStarted = this.#waitedBeforeMs > this.#parts.idleTimeoutMs;
      if (hasStarted && this.#received < this.#waitedBeforeMs * slowestBytesPerMs) {
        this.#chunks.interrupt(tooSlow('arrives too slowly'));
      }
    }
  }

  /** One listener and one timer for the whole body: a large one has thousands of chunks. */
  #watch(signal: AbortSignal): () => void {
    const onAbort = (): void => this.#chunks.interrupt(reasonOf(signal));
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
 * The collector would free the chunks of a large body only by collecting the whole heap again and again. Node's parser gives
 * each chunk memory of its own; one that shares its memory stays.
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

/** Reads the length of the decoded body: unknown for chunked bodies, and for coded ones, whose length says nothing of it. */
export function declaredBytes({ headers }: IncomingMessage): number | undefined {
  if (headers['content-length'] === undefined || headers['content-encoding'] !== undefined) return undefined;
  return Number(headers['content-length']);
}

/** No more waits here for the reader. More would be memory for nothing, less would stop and start the socket often. */
export const maxQueuedBytes = 256 * 1024;

/** The memory of a chunk besides its bytes: uncounted, a body in chunks of one byte could take hundreds of times its size. */
const bytesAroundChunk = 512;

/**
 * The chunks of a request's body, each as the parser made it, a little ahead of their reader. Node's own async iterator
 * joins chunks that wait, which copies them once more, and costs several promises for each; this reader is half the work
 * of receiving a large body. Nothing is taken from the socket before the first `next`.
 */
export class ChunkQueue {
  readonly #raw: IncomingMessage;
  readonly #chunks: Buffer[] = [];
  #queuedBytes = 0;
  #arrivedBytes = 0;
  #isForgetting = false;
  #isListening = false;
  #isEnded = false;
  #failure: Error | undefined;
  #wake: () => void = () => {};

  constructor(raw: IncomingMessage) {
    this.#raw = raw;
  }

  /** True if `next` would have to wait for the client. */
  get isWaiting(): boolean {
    return this.#chunks.length === 0 && !this.#isEnded && this.#failure === undefined;
  }

  /** How many bytes were taken from the socket. */
  get arrivedBytes(): number {
    return this.#arrivedBytes;
  }

  /** undefined at the end. Rejects where the connection broke first, or with the reason of `interrupt`. */
  async next(): Promise<Buffer | undefined> {
    this.#listen();
    while (this.isWaiting) await this.#input();
    if (this.#failure !== undefined) throw this.#failure;
    const chunk = this.#chunks.shift();
    if (chunk !== undefined) this.#queuedBytes -= chunk.length + bytesAroundChunk;
    if (this.#queuedBytes < maxQueuedBytes / 2) this.#raw.resume();
    return chunk;
  }

  /** Ends a wait, and everything after it. */
  interrupt(reason: Error): void {
    this.#failure ??= reason;
    this.#wake();
  }

  /** Goes on after an interruption, to empty the socket. */
  forgive(): void {
    this.#failure = undefined;
  }

  /** Drops what still comes; there must be no `next` afterwards. */
  forget(): void {
    this.#isForgetting = true;
    this.#chunks.length = 0;
    this.#raw.resume();
  }

  #input(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  #listen(): void {
    if (this.#isListening) return;
    this.#isListening = true;
    this.#raw.on('data', (chunk: Buffer) => this.#add(chunk));
    this.#raw.once('end', () => this.#end());
    this.#raw.once('error', (error) => this.interrupt(error));
    this.#raw.once('close', () => {
      if (!this.#isEnded) this.interrupt(closed());
    });
    if (this.#raw.destroyed && !this.#raw.complete) this.interrupt(closed());
    if (this.#raw.readableEnded) this.#end();
  }

  #add(chunk: Buffer): void {
    this.#arrivedBytes += chunk.length;
    if (this.#isForgetting) return;
    this.#chunks.push(chunk);
    this.#queuedBytes += chunk.length + bytesAroundChunk;
    if (this.#queuedBytes >= maxQueuedBytes) this.#raw.pause();
    this.#wake();
  }

  #end(): void {
    this.#isEnded = true;
    this.#wake();
  }
}

const closed = (): Error => new Error('the connection was closed');
