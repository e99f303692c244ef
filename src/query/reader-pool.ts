/**
 * A pool of reader processes starts them when it needs them, ends idle ones, and replaces those that die. Each has one order at
 * a time, so a reader that dies or is killed costs one order. A fair queue bounds the orders that wait.
 */
import type { Clock } from '../kernel/clock.ts';
import { LancegateError } from '../kernel/errors.ts';
import { FairQueue, type Seeker } from '../kernel/fair-queue.ts';
import { firstOf, onAbort } from '../kernel/request-scope.ts';
import type { Metrics, ReaderDeath } from '../telemetry/metrics.ts';
import { type Answered, type Order, type Purpose, purposeOf, type TakeBytes } from './protocol.ts';
import { ReaderProcess, type ReaderProcessParts } from './reader-process.ts';

export interface ReaderPoolParts extends ReaderProcessParts {
  readonly clock: Clock;
  readonly metrics: Pick<Metrics, 'watchReaders' | 'watchRunningQueries' | 'watchWaitingQueries' | 'readerEnded'>;
  readonly mostReaders: number;
  readonly maxWaiting: number;
  /** See `FairQueueLimits.waiters`. */
  readonly waiters: string;
  readonly principalShare: number;
  readonly idleMs: number;
}

/** An order is carried out for this principal, until this time. */
interface Requester {
  readonly principal: string;
  readonly signal: AbortSignal;
  /** It takes the bytes of a query's result. */
  readonly take?: TakeBytes;
}

export class ReaderPool {
  readonly #parts: ReaderPoolParts;
  readonly #queue: FairQueue;
  readonly #all = new Set<ReaderProcess>();
  /** It includes those that have ended and whose temporary files are being removed. */
  readonly #uncleared = new Set<ReaderProcess>();
  /**
   * Each free reader stands with the function that cancels its idle timer. The last one is taken first, so that the others stay
   * idle.
   */
  readonly #free = new Map<ReaderProcess, () => void>();
  #deathsInRow = 0;
  #pause: Promise<void> | undefined;
  #isClosed = false;

  constructor(parts: ReaderPoolParts) {
    const { mostReaders: slots, maxWaiting, principalShare, waiters, metrics } = parts;
    this.#parts = parts;
    this.#queue = new FairQueue({ slots, maxWaiting, principalShare, waiters });
    metrics.watchReaders(() => this.#all.size);
    metrics.watchRunningQueries(() => this.#queue.running);
    metrics.watchWaitingQueries(() => this.#queue.waiting);
  }

  /**
   * Settles when the reader has answered or ended, at the latest shortly after the signal aborts. Rejects with the reader's
   * refusal; with `ReaderDied`; with `SlowDown` if too many wait; and with the signal's reason if that aborts before a reader
   * has the order.
   */
  async ask(order: Order, requester: Requester, rows?: Uint8Array): Promise<Answered> {
    const { principal, signal } = requester;
    if (this.#isClosed) throw stopping();
    const leave = await this.#queue.take({ principal, work: purposeOf(order.work.kind) }, signal);
    try {
      const reader = await this.#reader(signal);
      try {
        return await this.#askReader(reader, order, requester, rows);
      } finally {
        this.#putBack(reader);
      }
    } finally {
      leave();
    }
  }

  /** Says whether an order that waits, of anybody or of others than this principal, would have the reader of such an order. */
  isReaderWanted(order: Seeker & { readonly work: Purpose }, by: 'anybody' | 'others'): boolean {
    return this.#queue.isSlotWanted(order, by);
  }

  /** Kills all readers, also busy ones; then nothing of them is left. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const reader of this.#all) reader.end('stop');
    await Promise.all([...this.#uncleared].map((reader) => reader.cleared));
  }

  async #askReader(
    reader: ReaderProcess,
    order: Order,
    { signal, take }: Requester,
    rows: Uint8Array | undefined,
  ): Promise<Answered> {
    if (!reader.wasReady) await firstOf(reader.readyFor(order), signal);
    let takeBack = (): void => undefined;
    const stopListening = onAbort(signal, () => {
      takeBack = this.#endAfterGrace(reader, isTimedOut(signal.reason) ? 'deadline' : 'cancelled');
    });
    try {
      return await reader.ask(order, rows, take);
    } finally {
      stopListening();
      takeBack();
      if (!reader.isOver) this.#deathsInRow = 0;
    }
  }

  /** Kills the reader, unless the returned function is called within the grace. */
  #endAfterGrace(reader: ReaderProcess, reason: ReaderDeath): () => void {
    // Most end within milliseconds, and a new process takes longer to start.
    return this.#parts.clock.schedule(100, () => reader.end(reason));
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
    return this.#start();
  }

  #start(): ReaderProcess {
    const reader = new ReaderProcess(this.#parts);
    this.#all.add(reader);
    this.#uncleared.add(reader);
    // A start takes up to a second, and several on an overloaded machine.
    const takeBack = this.#parts.clock.schedule(30_000, () => reader.end('start'));
    reader.ready.then(takeBack, takeBack);
    void reader.ended.then((reason) => this.#gone(reader, reason));
    void reader.cleared.then(() => this.#uncleared.delete(reader));
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
    if (!isOfOrder.has(reason)) this.#backOff();
    // The next order does not wait for a start then. After a failed start, the next order tries again.
    if (reader.wasReady) void (this.#pause ?? Promise.resolve()).then(() => this.#replace());
  }

  #replace(): void {
    if (this.#isClosed || this.#free.size > 0 || this.#all.size >= this.#parts.mostReaders) return;
    this.#putBack(this.#start());
  }

  /** A program that always dies must not be started over and over: after two deaths in a row there is a pause, which doubles. */
  #backOff(): void {
    this.#deathsInRow += 1;
    if (this.#deathsInRow === 1) return;
    const pauseMs = Math.min(5_000, 100 * 2 ** (this.#deathsInRow - 2));
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#pause = promise;
    this.#parts.clock.schedule(pauseMs, () => {
      if (this.#pause === promise) this.#pause = undefined;
      resolve();
    });
  }
}

/** These deaths say nothing of the program, but of what it was to do. */
const isOfOrder: ReadonlySet<ReaderDeath> = new Set(['spent', 'cancelled', 'deadline', 'memory']);

/** An order also ends because its client left, or because its job was cancelled. */
const isTimedOut = (reason: unknown): boolean => reason instanceof LancegateError && reason.kind === 'TimedOut';

const stopping = (): LancegateError => new LancegateError('SlowDown', 'the service is stopping');

/** Any process needs these, or they are the engine's own settings. */
const always =
  /^(?:PATH|HOME|LANG|LC_ALL|TZ|TMPDIR|SSL_CERT_FILE|SSL_CERT_DIR|LANCE(?:DB)?_\w+|RUST_LOG|TOKIO_WORKER_THREADS)$/;
/** The engine reads credentials of object stores from these. */
const forObjectStores = /^(?:AWS_|GOOGLE_|AZURE_|OSS_)\w+$|^(?:https?|no|all)_proxy$/i;
/** The engine warns of some queries each time, which is of no use to an operator. */
const quiet = { LANCEDB_LOG: 'error' };
/**
 * The engine's optimizer calls itself for each column of a join, which its threads' stacks of 2 MiB have no room for. Of a larger one
 * the system gives only what is used.
 */
const deepStacks = { RUST_MIN_STACK: String(64 * 2 ** 20) };
/**
 * A reader has as few arenas as the service itself, also if its operator chose otherwise, and what it frees of a column's
 * page goes back to the system, which would grow its resident memory by a third (docs/measurements/load.md).
 */
const littleKept = {
  MALLOC_ARENA_MAX: '2',
  MALLOC_MMAP_THRESHOLD_: String(2 ** 20),
  MALLOC_TRIM_THRESHOLD_: String(2 ** 20),
};

/**
 * The engine reads up to 2 GiB ahead of who takes the rows, and a reader of a large table died of it
 * (docs/measurements/load.md).
 */
const readAheadShare = 16;

/** A reader gets a part of the service's environment, and no secret that it does not need (P9). */
export function readerEnvironment(
  environment: Readonly<Record<string, string | undefined>>,
  { storageRoot, memoryBytes }: { readonly storageRoot: string; readonly memoryBytes: number },
): Readonly<Record<string, string>> {
  const isObjectStore = storageRoot.includes('://');
  const given = Object.entries(environment).filter(
    (entry): entry is [string, string] =>
      entry[1] !== undefined && (always.test(entry[0]) || (isObjectStore && forObjectStores.test(entry[0]))),
  );
  const readAhead = { LANCE_DEFAULT_IO_BUFFER_SIZE: String(Math.floor(memoryBytes / readAheadShare)) };
  return { ...quiet, ...deepStacks, ...readAhead, ...Object.fromEntries(given), ...littleKept };
}
