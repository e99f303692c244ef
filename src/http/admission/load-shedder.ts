/**
 * Stands in front of the router, so that a full service can say so cheaply (P7).
 *
 * While no write of any principal to any table could be admitted, it refuses writes before anything is spent on them: no
 * router, no token to verify. The refusal has the same words and body as everywhere, and says nothing but that the service is busy.
 * The capacity of one principal or table (P10) is only for those to know who may write there: the admission refuses it, behind
 * authentication and policy. So a request with a wrong token hears 503 in place of 401 while the service is full.
 *
 * It passes writes on a few at a time, the paths in rotation. A commit answers hundreds of clients at once, and their next
 * requests would hold the event loop for as long as all of them take; like this, reads, refusals and writes to other tables wait
 * for a few of them only. The time in this queue, a fraction of a second, is not in a request's own time.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { LancegateError } from '../../kernel/errors.ts';
import type { AuditRecord } from '../../telemetry/audit.ts';
import { routedTarget, splitTarget } from '../../wire/request-path.ts';
import { principalFacts, sentFrom } from '../audit-trail.ts';
import { canBeForgotten } from '../body/request-body.ts';
import { renderError } from '../errors/error-renderer.ts';
import { requestIdFrom } from '../headers.ts';
import type { HttpDeps } from '../http-deps.ts';
import { pathPattern } from '../path-pattern.ts';
import type { Admission } from './admission.ts';
import type { ClientAddresses } from './client-address.ts';
import { PacedQueue } from './paced-queue.ts';
import type { RetryPacing } from './retry-pacing.ts';

/** Some 5 ms of work. With half as many, fewer merges share a commit. */
const writesPerIteration = 16;

interface LoadShedderDeps extends Pick<HttpDeps, 'audit' | 'metrics' | 'newId'> {
  readonly admission: Pick<Admission, 'requireCapacity'>;
  readonly retryPacing: RetryPacing;
  readonly clientAddresses: Pick<ClientAddresses, 'clientOf' | 'peer'>;
}

/** `undefined` as `refusal`: the client has left. */
interface Shed {
  readonly raw: IncomingMessage;
  readonly route: string;
  readonly refusal: LancegateError | undefined;
}

export class LoadShedder {
  readonly #deps: LoadShedderDeps;
  readonly #routeOf: (raw: IncomingMessage) => string | undefined;
  readonly #queue = new PacedQueue(writesPerIteration);

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
    if (this.#shed(raw, response, route)) return;
    this.#queue.add(splitTarget(raw.url ?? '/').path, () => {
      if (raw.destroyed) this.#record({ raw, route, refusal: undefined });
      else if (!this.#shed(raw, response, route)) pass();
    });
  }

  /** Only a body that need not be read for its connection to be kept is refused here. */
  #shed(raw: IncomingMessage, response: ServerResponse, route: string): boolean {
    const refusal = isBrief(raw) ? this.#refusal() : undefined;
    if (refusal === undefined) return false;
    this.#refuse(response, { raw, route, refusal });
    return true;
  }

  #refusal(): LancegateError | undefined {
    try {
      this.#deps.admission.requireCapacity();
      return undefined;
    } catch (error) {
      if (error instanceof LancegateError) return error;
      throw error;
    }
  }

  #refuse(response: ServerResponse, shed: Shed & { readonly refusal: LancegateError }): void {
    const { metrics, retryPacing } = this.#deps;
    const { raw, route, refusal } = shed;
    const { path: instance } = splitTarget(raw.url ?? '/');
    const requestId = this.#requestId(raw);
    const { status, headers, body } = renderError(refusal, { requestId, instance, isLanceDbCreate: false });
    const text = JSON.stringify(body);
    response.writeHead(status, {
      'x-request-id': requestId,
      'cache-control': 'no-store',
      ...headers,
      'retry-after': String(retryPacing.secondsFor(undefined)),
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(text),
    });
    response.end(text);
    raw.resume();
    metrics.requestRejected(refusal.kind);
    metrics.requestFinished({ method: 'POST', route, status }, 0);
    this.#record(shed, requestId, status);
  }

  #requestId(raw: IncomingMessage): string {
    return requestIdFrom(raw) ?? this.#deps.newId();
  }

  /** For a request that does not reach the pipeline. */
  #record({ raw, route, refusal }: Shed, requestId = this.#requestId(raw), status?: AuditRecord['status']): void {
    const { audit, clientAddresses } = this.#deps;
    audit.requestEnded({
      ...{ requestId, method: 'POST', route, status, refusal: refusal?.kind, durationMs: 0, receivedBytes: 0 },
      ...{ decision: 'not asked', actions: undefined, namespace: undefined, table: undefined, branch: undefined },
      ...principalFacts(undefined),
      ...sentFrom(clientAddresses.clientOf(raw), clientAddresses, raw),
      clientLeft: refusal === undefined ? true : undefined,
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
