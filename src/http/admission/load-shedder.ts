/**
 * Stands in front of the router, so that a full service can say so cheaply (P7).
 *
 * While no write of any principal to any table could be admitted, it refuses writes before the router and the verifiers spend
 * time on them. The refusal has the usual words and body, and says only that the service is busy; so the answer to a wrong token
 * is 503 instead of 401 while the service is full. Where only a principal has its share (P10), it refuses that principal alone:
 * it authenticates, which for a known token is a look into a cache. The admission, behind the policy, refuses for the share of a
 * table: only principals that may write there learn of it.
 *
 * It passes writes on a few at a time, the paths in rotation. A commit answers hundreds of clients at once, and their next
 * requests would hold the event loop for as long as all of them take; like this, reads, refusals and writes to other tables wait
 * for a few of them only. The time in this queue, a fraction of a second, is not in a request's own time.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { nothingAsked, pathPattern, principalFacts, type Route } from '../../endpoint/route.ts';
import type { Clock } from '../../kernel/clock.ts';
import { LancegateError } from '../../kernel/errors.ts';
import { ExpiringCache } from '../../kernel/expiring-cache.ts';
import { type Principal, principalKey } from '../../kernel/request-scope.ts';
import type { AuditRecord } from '../../telemetry/audit.ts';
import { routedTarget, splitTarget } from '../../wire/identifiers.ts';
import { canBeForgotten } from '../body/request-body.ts';
import { renderError } from '../error-renderer.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type ClientAddresses, credentialsIn, requestIdFrom } from '../request-head.ts';
import type { Admission } from './admission.ts';

/** Some 5 ms of work. With half as many, fewer merges share a commit. */
const writesPerIteration = 16;

interface LoadShedderDeps extends Pick<HttpDeps, 'audit' | 'metrics' | 'newId' | 'authenticator'> {
  readonly admission: Pick<Admission, 'requireCapacity' | 'reserveWrite'>;
  readonly retryPacing: RetryPacing;
  readonly clientAddresses: Pick<ClientAddresses, 'clientOf'>;
}

interface Write {
  readonly raw: IncomingMessage;
  readonly response: ServerResponse;
  readonly route: string;
  /** undefined if the client is not authenticated yet, or has no valid credential. */
  readonly principal: Principal | undefined;
  readonly pass: () => void;
}

/** What a brief write brings along to its admission, so that no more are passed on than can be admitted. */
export interface Reservation {
  /** Rejects as `Authenticator` does. */
  readonly principal: Promise<Principal>;
  /** May be called more than once. */
  readonly release: () => void;
}

export class LoadShedder {
  readonly #deps: LoadShedderDeps;
  readonly #routeOf: (raw: IncomingMessage) => string | undefined;
  readonly #queue = new PacedQueue(writesPerIteration);
  readonly #reservations = new WeakMap<IncomingMessage, Reservation>();

  constructor(deps: LoadShedderDeps, routes: readonly Pick<Route, 'path' | 'isWrite'>[]) {
    this.#deps = deps;
    this.#routeOf = writeRouteFinder(routes);
  }

  /** Answers the request, or calls `pass`, at once or later, or never if the client leaves before. */
  receive(raw: IncomingMessage, response: ServerResponse, pass: () => void): void {
    const route = raw.method === 'POST' ? this.#routeOf(raw) : undefined;
    if (route === undefined) {
      pass();
      return;
    }
    const write: Write = { raw, response, route, principal: undefined, pass };
    if (isBrief(raw)) void this.#receiveBrief(write);
    else this.#enqueue(write, undefined);
  }

  /** Of a write that was passed on; undefined where it has none. */
  reservationOf(raw: IncomingMessage): Reservation | undefined {
    return this.#reservations.get(raw);
  }

  async #receiveBrief(write: Write): Promise<void> {
    const { admission, authenticator } = this.#deps;
    let known = write;
    try {
      admission.requireCapacity();
      const principal = authenticator.authenticate(credentialsIn(write.raw));
      // Without a valid credential it is passed on all the same: the pipeline refuses it.
      known = { ...write, principal: await principal.catch(() => undefined) };
      this.#enqueue(known, { principal, release: admission.reserveWrite(known.principal) });
    } catch (error) {
      if (!(error instanceof LancegateError)) throw error;
      this.#refuse(known, error);
    }
  }

  #enqueue(write: Write, reservation: Reservation | undefined): void {
    const { raw, response, pass } = write;
    this.#queue.add(splitTarget(raw.url ?? '/').path, () => {
      if (raw.destroyed) {
        reservation?.release();
        this.#record(write, this.#requestId(raw), { clientLeft: true });
        return;
      }
      if (reservation !== undefined) {
        this.#reservations.set(raw, reservation);
        response.once('close', reservation.release);
      }
      pass();
    });
  }

  #refuse(write: Write, refusal: LancegateError): void {
    const { metrics, retryPacing } = this.#deps;
    const { raw, response, route, principal } = write;
    const { path: instance } = splitTarget(raw.url ?? '/');
    const requestId = this.#requestId(raw);
    const { status, headers, body } = renderError(refusal, { requestId, instance, isLanceDb: false, isCreate: false });
    const text = JSON.stringify(body);
    response.writeHead(status, {
      'x-request-id': requestId,
      'cache-control': 'no-store',
      ...headers,
      'retry-after': String(retryPacing.secondsFor(principal)),
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(text),
    });
    response.end(text);
    raw.resume();
    metrics.requestRejected(refusal.kind);
    metrics.requestFinished({ method: 'POST', route, status }, 0);
    this.#record(write, requestId, { status, refusal: refusal.kind });
  }

  #requestId(raw: IncomingMessage): string {
    return requestIdFrom(raw) ?? this.#deps.newId();
  }

  /** For a request that does not reach the pipeline. */
  #record({ raw, route, principal }: Write, requestId: string, end: Partial<AuditRecord>): void {
    const { audit, clientAddresses } = this.#deps;
    const { address, proxy } = clientAddresses.clientOf(raw);
    audit.requestEnded({
      ...{ requestId, method: 'POST', route, status: undefined, durationMs: 0, receivedBytes: 0 },
      ...principalFacts(principal),
      ...{ address, proxy },
      ...nothingAsked,
      ...{ refusal: undefined, clientLeft: undefined },
      ...end,
    });
  }
}

/** Finds the route of a write, as the router would. */
function writeRouteFinder(routes: readonly Pick<Route, 'path' | 'isWrite'>[]) {
  const writes = routes.filter(({ isWrite }) => isWrite).map(({ path }) => ({ path, pattern: pathPattern(path) }));
  return ({ url = '/' }: IncomingMessage): string | undefined => {
    const { path } = splitTarget(routedTarget(url));
    return writes.find(({ pattern }) => pattern.test(path))?.path;
  };
}

const isBrief = (raw: IncomingMessage): boolean =>
  raw.headers['content-encoding'] === undefined &&
  raw.headers['content-length'] !== undefined &&
  canBeForgotten(raw, 0);

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

/** A refusal takes up to 0.4 ms of the event loop. */
const msBetweenReturns = 2;
const soonestMs = 1000;
/** A client that waits is idle, even if there is capacity by then. */
const latestMs = 5000;
const maxPrincipals = 10_000;

/**
 * `Retry-After` for clients that were refused for want of capacity: those of one principal return one after the other, so that
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
