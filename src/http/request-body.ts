/**
 * A request's body on its way in. It is not Fastify's: nothing is read, and no `100 Continue` sent, before somebody
 * asks for bytes; a slow client is given up; and the socket outlives a refusal, so that the answer can be read.
 *
 * Fails with `TimedOut` (503) for a client that stalls or trickles: nothing was written, and over a better network the
 * same request may succeed. 408 would say it better, but the namespace specification has no such answer.
 */
import type { IncomingMessage } from 'node:http';
import type { Clock } from '../kernel/clock.ts';
import { invalidInput, LancegateError } from '../kernel/errors.ts';

/**
 * Below this average a client is taken to be holding on to its slot on purpose. Only time that we spend waiting counts:
 * a client is not slow because we are.
 */
const slowestBytesPerMs = 1;

/** What is still taken from a client after its answer: enough for common bodies, and bounded for hostile ones. */
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
  readonly #chunks: AsyncIterator<Buffer>;
  #received = 0;
  #waitedMs = 0;
  #onEnd: () => void = () => {};

  constructor(parts: BodyParts) {
    this.#parts = parts;
    this.#chunks = parts.raw.iterator({ destroyOnReturn: false }) as AsyncIterator<Buffer>;
  }

  /** Bytes as they came over the network. */
  get received(): number {
    return this.#received;
  }

  /** True if the client means to send bytes that have not arrived yet. */
  get isUnfinished(): boolean {
    return announcesBody(this.#parts.raw) && this.#parts.raw.complete === false;
  }

  /**
   * Once only. Ends with the abort reason of `signal` where that comes first. Leaving the loop closes nothing.
   * `isUsedAtOnce` says that a chunk is done with when the next one is asked for: then its memory is freed.
   */
  async *read(signal: AbortSignal, isUsedAtOnce: boolean): AsyncGenerator<Uint8Array, void, void> {
    this.#parts.onFirstRead();
    try {
      for (;;) {
        const next = await this.#next(signal);
        if (next.done === true) return;
        this.#received += next.value.length;
        this.#parts.onBytes(next.value.length);
        yield next.value;
        if (isUsedAtOnce) free(next.value);
      }
    } finally {
      this.#onEnd();
    }
  }

  /** `run` is called when the body has been read, or given up in between. */
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
    let discarded = 0;
    while (discarded < maxDiscardedBytes) {
      const next = await this.#chunks.next().catch(() => undefined); // compensated: a client that is gone needs no draining
      if (next === undefined || next.done === true) return;
      discarded += next.value.length;
    }
  }

  async #next(signal: AbortSignal): Promise<IteratorResult<Buffer>> {
    const startMs = this.#parts.clock.nowMs();
    const next = await this.#nextOrTimeout(signal);
    this.#waitedMs += this.#parts.clock.nowMs() - startMs;
    if (next.done !== true && this.#isTrickle) throw tooSlow('arrives too slowly');
    return next;
  }

  get #isTrickle(): boolean {
    const hadTimeToStart = this.#waitedMs > this.#parts.idleTimeoutMs;
    return hadTimeToStart && this.#received < this.#waitedMs * slowestBytesPerMs;
  }

  #nextOrTimeout(signal: AbortSignal): Promise<IteratorResult<Buffer>> {
    signal.throwIfAborted();
    return new Promise((resolve, reject) => {
      const settle = (act: () => void): void => {
        cancel();
        signal.removeEventListener('abort', onAbort);
        act();
      };
      const onAbort = (): void => settle(() => reject(signal.reason as Error));
      const cancel = this.#parts.clock.schedule(this.#parts.idleTimeoutMs, () =>
        settle(() => reject(tooSlow('stopped arriving'))),
      );
      signal.addEventListener('abort', onAbort, { once: true });
      this.#chunks.next().then(
        (next) => settle(() => resolve(next)),
        (error: unknown) => settle(() => reject(this.#cutOff(error))),
      );
    });
  }

  #cutOff(cause: unknown): LancegateError {
    return invalidInput(`the upload was cut off after ${this.#received} bytes`, cause);
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
