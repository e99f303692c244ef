/**
 * Admits a request with a body, once, when its headers have arrived and before its body is read (P7). A request that is refused
 * here has cost its headers and nothing else.
 *
 * The principal and the table can each have a share of every quota, so that others find capacity (P10). JSON bodies have a quota
 * of their own, which writes do not fill. Each request occupies a connection, so a principal has a share of the connections, too,
 * from however many addresses it comes.
 */
import { bytesAround, firstBufferBytes } from '../../arrow/stream/source-reader.ts';
import type { BodyKind } from '../../endpoint/route.ts';
import { type Clock, ExpiringCache } from '../../kernel/clock.ts';
import { FairQueue } from '../../kernel/fair-queue.ts';
import type { TableRef } from '../../kernel/ids.ts';
import { type Principal, principalKey } from '../../kernel/request-scope.ts';
import { type BodyAccount, type BodyMemory, bufferBytesFor, type Holder, Quota } from '../../memory/body-memory.ts';
import { maxQueuedBytes } from '../body/request-body.ts';
import type { HttpConfig } from '../http-deps.ts';

interface AdmissionRequest {
  readonly principal: Principal;
  /** Where an Arrow body goes. */
  readonly table: TableRef | undefined;
  readonly body: BodyKind;
  /** The length of the body, decoded; undefined where the client did not say. */
  readonly declaredBytes: number | undefined;
  /** What a decoder of the body takes in addition. */
  readonly decoderBytes: number;
}

/** What an admitted request holds. Both methods may be called more than once. */
export interface Permit {
  readonly account: BodyAccount;
  /** The body was read, or will not be read. */
  endReceiving(): void;
  /** The answer is decided. Buffers still in use stay counted until they are returned. */
  release(): void;
}

/** So many requests with the largest JSON body may be under way together, and hundreds of times as many common ones. */
const largestJsonBodies = 64;
const leastJsonBytes = 4 * 2 ** 10;

export class Admission {
  readonly #config: HttpConfig;
  readonly #memory: BodyMemory;
  readonly #requests: Quota;
  readonly #writes: Quota;
  readonly #json: Quota;

  constructor(config: HttpConfig, memory: BodyMemory) {
    this.#config = config;
    this.#memory = memory;
    this.#requests = new Quota(config.maxConnections, 'requests');
    this.#writes = new Quota(config.maxConcurrentWrites, 'writes');
    this.#json = new Quota(largestJsonBodies * config.maxJsonBytes, 'bytes in JSON bodies');
  }

  /** `SlowDown` without capacity now, `BodyTooLarge` where there never will be enough. */
  admit(request: AdmissionRequest): Permit {
    const sender = this.#sender(request.principal);
    const holders = request.table === undefined ? [sender] : [sender, this.#target(request.table)];
    this.#requests.requireRoom(1, [sender]);
    const permit = request.body === 'json' ? this.#admitJson(request, holders) : this.#admitWrite(request, holders);
    this.#requests.take(1, [sender]);
    const giveBack = once(() => this.#requests.giveBack(1, [sender]));
    return {
      ...permit,
      release: () => {
        permit.release();
        giveBack();
      },
    };
  }

  /** `SlowDown` where a write of any principal to any table would be refused. Reserves nothing. */
  requireCapacity(): void {
    this.#memory.requireResidentRoom();
    this.#writes.requireRoom(1, []);
  }

  /** Counts a write of this principal that waits to be admitted, until the returned function is called. `SlowDown`. */
  reserveWrite(principal: Principal | undefined): () => void {
    const owners = principal === undefined ? [] : [this.#sender(principal)];
    this.#memory.requireResidentRoom();
    this.#writes.take(1, owners);
    return once(() => this.#writes.giveBack(1, owners));
  }

  #admitJson({ declaredBytes }: AdmissionRequest, holders: readonly Holder[]): Permit {
    const bytes = Math.max(declaredBytes ?? this.#config.maxJsonBytes, leastJsonBytes);
    this.#json.take(bytes, holders);
    return {
      account: this.#memory.open(holders),
      endReceiving: () => undefined,
      release: once(() => this.#json.giveBack(bytes, holders)),
    };
  }

  #admitWrite({ body, declaredBytes, decoderBytes }: AdmissionRequest, holders: readonly Holder[]): Permit {
    const account = this.#memory.open(holders);
    const receiving = this.#memory.open(holders);
    if (body === 'arrow-whole') account.requireRoom(bufferBytesFor((declaredBytes ?? 0) + bytesAround));
    this.#memory.requireResidentRoom();
    this.#writes.take(1, holders);
    const endReceiving = once(() => receiving.release());
    const release = once(() => {
      endReceiving();
      account.release();
      this.#writes.giveBack(1, holders);
    });
    try {
      receiving.promise(decoderBytes + Math.min(declaredBytes ?? maxQueuedBytes, maxQueuedBytes));
      account.promise(firstBufferBytes(declaredBytes));
    } catch (error) {
      release();
      throw error;
    }
    return { account, endReceiving, release };
  }

  #sender(principal: Principal): Holder {
    return { kind: 'principal', name: `principal ${principalKey(principal)}`, share: this.#config.principalShare };
  }

  #target({ namespace, name }: TableRef): Holder {
    return { kind: 'table', name: JSON.stringify(['table', ...namespace, name]), share: this.#config.tableShare };
  }
}

function once(run: () => void): () => void {
  let isDone = false;
  return () => {
    if (isDone) return;
    isDone = true;
    run();
  };
}

/**
 * Calls what is added, at most so many in one iteration of the event loop, so that Node serves its sockets in between: at once
 * while nothing waits, else in rotation over the lanes, each in its order. So a short lane does not wait for a long one (P10).
 * Its size has the bound of its callers; here, the connections of the server.
 */
export class PacedQueue {
  readonly #perIteration: number;
  /** The lane that is next comes first. None is empty. */
  readonly #lanes = new Map<string, (() => void)[]>();
  /** How many may still be called in this iteration; 0 while any wait. */
  #left: number;
  #isScheduled = false;

  constructor(perIteration: number) {
    this.#perIteration = perIteration;
    this.#left = perIteration;
  }

  add(lane: string, call: () => void): void {
    this.#schedule();
    if (this.#left > 0) {
      this.#left -= 1;
      call();
      return;
    }
    const waiting = this.#lanes.get(lane);
    if (waiting === undefined) this.#lanes.set(lane, [call]);
    else waiting.push(call);
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => this.#callNext());
  }

  #callNext(): void {
    this.#isScheduled = false;
    this.#left = this.#perIteration;
    const next: (() => void)[] = [];
    // A lane that is added again at the end while this iterates comes up again.
    for (const [lane, waiting] of this.#lanes) {
      next.push(...waiting.splice(0, 1));
      this.#lanes.delete(lane);
      if (waiting.length > 0) this.#lanes.set(lane, waiting);
      this.#left -= 1;
      if (this.#left === 0) break;
    }
    if (this.#lanes.size > 0) this.#schedule();
    for (const call of next) call();
  }
}

/**
 * A long text of JSON or SQL keeps the event loop busy for up to a quarter of a second. So one is read after the other, principals in
 * rotation, and after each the loop belongs to all others as long as it took: they wait for one text at most, and have half of the
 * time (P10).
 */
export class LargeTexts {
  readonly #clock: Clock;
  // The admission lets in fewer.
  readonly #queue = new FairQueue({ slots: 1, maxWaiting: 4_096, principalShare: 1, waiters: 'large bodies' });

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Resolves when the text may be read, which is to be done at once. `SlowDown`, and the signal's reason. */
  async turnOf(text: string, principal: Principal, signal: AbortSignal): Promise<string> {
    // A shorter text is read within a few milliseconds, whatever is in it.
    if (text.length <= 32 * 1024) return text;
    const release = await this.#queue.take({ principal: principalKey(principal), work: 'read' }, signal);
    const begunMs = performance.now();
    setImmediate(() => this.#clock.schedule(performance.now() - begunMs, release));
    return text;
  }
}

/** A refusal takes up to 0.4 ms of the event loop. */
const msBetweenReturns = 2;
const soonestMs = 1000;
/** A client that waits is idle, even if there is capacity by then. */
const latestMs = 5000;
const maxPrincipals = 10_000;

/**
 * Makes the `Retry-After` of clients that were refused for want of capacity: those of one principal return one after the other, so that
 * they do not take the time of the requests that are served (P7), and those of another principal need not wait for them (P10).
 *
 * This is the theoretical input time of the generic cell rate algorithm (ITU-T I.371), announced and not enforced: a
 * client that ignores `Retry-After` is refused as often as it comes.
 */
export class RetryPacing {
  readonly #clock: Clock;
  /** When the last refused client of a principal returns. */
  readonly #last: ExpiringCache<number>;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#last = new ExpiringCache(maxPrincipals, clock);
  }

  /** Whole seconds, rounded down: clients with the same number return at different moments of that second. */
  secondsFor(principal: Principal | undefined): number {
    const key = principal === undefined ? '' : principalKey(principal);
    const nowMs = this.#clock.nowMs();
    const next = (this.#last.get(key) ?? 0) + msBetweenReturns;
    const atMs = Math.min(Math.max(next, nowMs + soonestMs), nowMs + latestMs);
    this.#last.set(key, atMs, atMs);
    return Math.floor((atMs - nowMs) / 1000);
  }
}
