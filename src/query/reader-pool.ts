/**
 * The reader processes: a few, begun when they are needed, ended when they have been idle for a while, and begun again when
 * one dies. Each has one order at a time, so what is ended or dies takes nobody else with it. In front is a fair queue.
 */
import { firstOf, onAbort } from '../kernel/abort.ts';
import type { Clock } from '../kernel/clock.ts';
import { LancegateError } from '../kernel/errors.ts';
import { FairQueue } from '../kernel/fair-queue.ts';
import type { Metrics, ReaderDeath } from '../telemetry/metrics.ts';
import type { Answered, Order } from './protocol.ts';
import { ReaderProcess, type ReaderProcessParts } from './reader-process.ts';

export interface ReaderPoolParts extends ReaderProcessParts {
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly mostReaders: number;
  readonly maxWaiting: number;
  readonly principalShare: number;
  readonly idleMs: number;
}

/** On whose behalf an order is carried out, and until when. */
export interface Asker {
  readonly principal: string;
  readonly signal: AbortSignal;
}

/**
 * An order that nobody waits for any more may end by itself for so long: most do within milliseconds, and to begin a process
 * takes longer than that.
 */
const graceMs = 100;
/** A start takes up to a second; on a machine that is overwhelmed, several. */
const longestStartMs = 30_000;
/** Between two readers that died with no answer between them; twice as long each time. */
const firstPauseMs = 100;
const longestPauseMs = 5_000;

export class ReaderPool {
  readonly #parts: ReaderPoolParts;
  readonly #queue: FairQueue;
  readonly #all = new Set<ReaderProcess>();
  /** With what takes back that they end for being idle. The one used last comes first, so that the others are idle. */
  readonly #free = new Map<ReaderProcess, () => void>();
  #deathsInRow = 0;
  #pause: Promise<void> | undefined;
  #isClosed = false;

  constructor(parts: ReaderPoolParts) {
    const { mostReaders: slots, maxWaiting, principalShare, metrics } = parts;
    this.#parts = parts;
    this.#queue = new FairQueue({ slots, maxWaiting, principalShare });
    metrics.watchReaders({
      processes: () => this.#all.size,
      running: () => this.#queue.running,
      waiting: () => this.#queue.waiting,
    });
  }

  /**
   * Settles when the reader has answered or is gone, which is at the latest a moment after the signal aborts. Rejects with
   * the reader's refusal, with `ReaderDied`, with `SlowDown` where too many wait, and with the signal's reason where that
   * aborts before the order is given.
   */
  async ask(order: Order, { principal, signal }: Asker, rows?: Uint8Array): Promise<Answered> {
    if (this.#isClosed) throw stopping();
    const leave = await this.#queue.take({ principal, work: order.work.kind }, signal);
    try {
      const reader = await this.#reader(signal);
      try {
        return await this.#askReader(reader, order, signal, rows);
      } finally {
        this.#putBack(reader);
      }
    } finally {
      leave();
    }
  }

  /** What merges have beyond the memory of their readers, which is of what the service itself may have. */
  get extraResidentBytes(): number {
    return [...this.#all].reduce((sum, reader) => sum + reader.extraResidentBytes, 0);
  }

  /** Ends all of them, and what they do. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const ends = [...this.#all].map((reader) => {
      reader.end('stop');
      return reader.ended;
    });
    await Promise.all(ends);
  }

  async #askReader(
    reader: ReaderProcess,
    order: Order,
    signal: AbortSignal,
    rows: Uint8Array | undefined,
  ): Promise<Answered> {
    await firstOf(reader.ready, signal);
    const done = new AbortController();
    const stopWaiting = onAbort(signal, () => this.#endAfterGrace(reader, done.signal));
    try {
      return await reader.ask(order, rows);
    } finally {
      stopWaiting();
      done.abort();
      if (!reader.isOver) this.#deathsInRow = 0;
    }
  }

  /** Unless the reader is done before. */
  #endAfterGrace(reader: ReaderProcess, done: AbortSignal): void {
    const takeBack = this.#parts.clock.schedule(graceMs, () => reader.end('deadline'));
    onAbort(done, takeBack);
  }

  async #reader(signal: AbortSignal): Promise<ReaderProcess> {
    const free = [...this.#free.keys()].findLast((reader) => !reader.isOver);
    if (free !== undefined) {
      this.#free.get(free)?.();
      this.#free.delete(free);
      return free;
    }
    if (this.#pause !== undefined) await firstOf(this.#pause, signal);
    if (this.#isClosed) throw stopping();
    return this.#begin();
  }

  #begin(): ReaderProcess {
    const reader = new ReaderProcess(this.#parts);
    this.#all.add(reader);
    const takeBack = this.#parts.clock.schedule(longestStartMs, () => reader.end('start'));
    reader.ready.then(takeBack, takeBack);
    void reader.ended.then((reason) => this.#gone(reader, reason));
    return reader;
  }

  #putBack(reader: ReaderProcess): void {
    if (reader.isSpent) reader.end('spent');
    if (reader.isOver || this.#isClosed) return;
    const { clock, idleMs } = this.#parts;
    this.#free.set(
      reader,
      clock.schedule(idleMs, () => reader.end('idle')),
    );
  }

  #gone(reader: ReaderProcess, reason: ReaderDeath): void {
    this.#all.delete(reader);
    this.#free.get(reader)?.();
    this.#free.delete(reader);
    this.#parts.metrics.readerEnded(reason);
    if (reason === 'idle' || reason === 'stop' || this.#isClosed) return;
    if (reason !== 'spent' && reason !== 'deadline' && reason !== 'memory') this.#backOff();
    // The next order is not to wait for a start. One that never got ready is begun again by who needs one.
    if (reader.wasReady) void (this.#pause ?? Promise.resolve()).then(() => this.#replace());
  }

  #replace(): void {
    if (this.#isClosed || this.#free.size > 0 || this.#all.size >= this.#parts.mostReaders) return;
    this.#putBack(this.#begin());
  }

  /** A program that always dies must not be begun over and over. */
  #backOff(): void {
    this.#deathsInRow += 1;
    if (this.#deathsInRow === 1) return;
    const pauseMs = Math.min(longestPauseMs, firstPauseMs * 2 ** (this.#deathsInRow - 2));
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#pause = promise;
    this.#parts.clock.schedule(pauseMs, () => {
      if (this.#pause === promise) this.#pause = undefined;
      resolve();
    });
  }
}

const stopping = (): LancegateError => new LancegateError('SlowDown', 'the service is stopping');
