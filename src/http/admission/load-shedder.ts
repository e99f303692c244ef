/**
 * Stands in front of the router, so that a full service can say so cheaply (P7).
 *
 * While no write of any principal to any table could be admitted, it refuses writes before anything is spent on them: no
 * router, no token to verify. The refusal has the same words and body as everywhere, and says nothing but that the service is busy;
 * so a request with a wrong token hears 503 in place of 401 while the service is full. Where only a principal has its share (P10),
 * it tells that principal alone: it authenticates, which for a known token is a look into a cache. The share of a table is for
 * those to know who may write there: the admission refuses it, behind the policy.
 *
 * It passes writes on a few at a time, the paths in rotation. A commit answers hundreds of clients at once, and their next
 * requests would hold the event loop for as long as all of them take; like this, reads, refusals and writes to other tables wait
 * for a few of them only. The time in this queue, a fraction of a second, is not in a request's own time.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { LancegateError } from '../../kernel/errors.ts';
import type { Principal } from '../../kernel/principal.ts';
import type { AuditRecord } from '../../telemetry/audit.ts';
import { routedTarget, splitTarget } from '../../wire/request-path.ts';
import { principalFacts, sentFrom } from '../audit-trail.ts';
import { canBeForgotten } from '../body/request-body.ts';
import { renderError } from '../errors/error-renderer.ts';
import { credentialsIn, requestIdFrom } from '../headers.ts';
import type { HttpDeps } from '../http-deps.ts';
import { pathPattern } from '../path-pattern.ts';
import type { Admission } from './admission.ts';
import type { ClientAddresses } from './client-address.ts';
import { PacedQueue } from './paced-queue.ts';
import type { RetryPacing } from './retry-pacing.ts';

/** Some 5 ms of work. With half as many, fewer merges share a commit. */
const writesPerIteration = 16;

interface LoadShedderDeps extends Pick<HttpDeps, 'audit' | 'metrics' | 'newId' | 'authenticator'> {
  readonly admission: Pick<Admission, 'requireCapacity' | 'reserveWrite'>;
  readonly retryPacing: RetryPacing;
  readonly clientAddresses: Pick<ClientAddresses, 'clientOf' | 'peer'>;
}

interface Write {
  readonly raw: IncomingMessage;
  readonly response: ServerResponse;
  readonly route: string;
  /** undefined if the client is not authenticated yet, or has no valid credential. */
  readonly principal: Principal | undefined;
  readonly pass: () => void;
}

export class LoadShedder {
  readonly #deps: LoadShedderDeps;
  readonly #routeOf: (raw: IncomingMessage) => string | undefined;
  readonly #queue = new PacedQueue(writesPerIteration);
  readonly #reservations = new WeakMap<IncomingMessage, () => void>();

  /** `writeRoutes` are the paths of routes whose bodies count as writes, with `:id` for the identifier. */
  constructor(deps: LoadShedderDeps, writeRoutes: readonly string[]) {
    this.#deps = deps;
    this.#routeOf = routeFinder(writeRoutes);
  }

  /** Answers the request, or calls `pass`, at once or later, or never if the client leaves before. */
  receive(raw: IncomingMessage, response: ServerResponse, pass: () => void): void {
    const route = raw.method === 'POST' ? this.#routeOf(raw) : undefined;
    if (route === undefined) {
      pass();
      return;
    }
    const write: Write = { raw, response, route, principal: undefined, pass };
    if (!isBrief(raw)) this.#enqueue(write, () => undefined);
    else if (this.#hasCapacity(write)) void this.#receiveBrief(write);
  }

  /** A permit stays reserved until the pipeline admits the write: else more would be passed on than can be admitted. */
  async #receiveBrief(write: Write): Promise<void> {
    const { authenticator, admission } = this.#deps;
    // The pipeline authenticates again, and refuses what has no valid credential.
    const principal = await authenticator.authenticate(credentialsIn(write.raw)).catch(() => undefined);
    const known = { ...write, principal };
    const release = this.#orRefuse(known, () => admission.reserveWrite(principal));
    if (release !== undefined) this.#enqueue(known, release);
  }

  #enqueue(write: Write, release: () => void): void {
    this.#queue.add(splitTarget(write.raw.url ?? '/').path, () => {
      this.#reservations.set(write.raw, release);
      write.response.once('close', release);
      if (!write.raw.destroyed) return write.pass();
      release();
      this.#record(write, this.#requestId(write.raw), { clientLeft: true });
    });
  }

  /** The pipeline is about to admit the request: what was reserved for it is free. */
  endReservation(raw: IncomingMessage): void {
    this.#reservations.get(raw)?.();
  }

  #hasCapacity(write: Write): boolean {
    const check = (): true => {
      this.#deps.admission.requireCapacity();
      return true;
    };
    return this.#orRefuse(write, check) ?? false;
  }

  #orRefuse<Result>(write: Write, ask: () => Result): Result | undefined {
    try {
      return ask();
    } catch (error) {
      if (!(error instanceof LancegateError)) throw error;
      this.#refuse(write, error);
      return undefined;
    }
  }

  #refuse(write: Write, refusal: LancegateError): void {
    const { metrics, retryPacing } = this.#deps;
    const { raw, response, route, principal } = write;
    const { path: instance } = splitTarget(raw.url ?? '/');
    const requestId = this.#requestId(raw);
    const { status, headers, body } = renderError(refusal, { requestId, instance, isLanceDbCreate: false });
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
    audit.requestEnded({
      ...{ requestId, method: 'POST', route, durationMs: 0, receivedBytes: 0, decision: 'not asked' },
      ...{ status: undefined, refusal: undefined, clientLeft: undefined },
      ...{ actions: undefined, namespace: undefined, table: undefined, branch: undefined },
      ...principalFacts(principal),
      ...sentFrom(clientAddresses.clientOf(raw), clientAddresses, raw),
      ...end,
    });
  }
}

/** Finds the route of a path, as the router would. */
function routeFinder(routes: readonly string[]): (raw: IncomingMessage) => string | undefined {
  const patterns = routes.map((route) => ({ route, pattern: pathPattern(route) }));
  return ({ url = '/' }) => {
    const { path } = splitTarget(routedTarget(url));
    return patterns.find(({ pattern }) => pattern.test(path))?.route;
  };
}

const isBrief = (raw: IncomingMessage): boolean =>
  raw.headers['content-encoding'] === undefined &&
  raw.headers['content-length'] !== undefined &&
  canBeForgotten(raw, 0);
