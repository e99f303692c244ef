/** One request and its answer, from the first header to the end of the connection's part in it. */
import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Clock } from '../kernel/clock.ts';
import { type ErrorName, invalidInput, LancegateError } from '../kernel/errors.ts';
import type { Principal, RequestScope } from '../kernel/request-scope.ts';
import { type AuditRecord, logRequest } from '../telemetry/audit.ts';
import type { Timeout } from '../wire/deadline.ts';
import { hasTrailingSlash, splitTarget } from '../wire/identifiers.ts';
import { QueryParameters } from '../wire/query-parameters.ts';
import type { RetryPacing } from './admission/load-shedder.ts';
import { RequestBody } from './body/request-body.ts';
import { asLancegateError, type RenderedError, renderError } from './errors/error-renderer.ts';
import type { HttpDeps } from './http-deps.ts';
import type { ClientAddress, ClientAddresses } from './request-head.ts';
import { type Answer, AuditTrail, principalFacts, sentFrom } from './route.ts';
import { createTablePath } from './routes/create.ts';

export interface RequestContextDeps extends Pick<HttpDeps, 'logger' | 'audit' | 'metrics' | 'clock' | 'config'> {
  readonly retryPacing: RetryPacing;
  readonly isStopping: () => boolean;
  readonly clientAddresses: Pick<ClientAddresses, 'clientOf' | 'peer'>;
  /** Routes for probes, which have no audit record. */
  readonly isProbe: (route: string) => boolean;
  /** Lets a client that waits for `100 Continue` begin. */
  readonly continueUpload: (request: FastifyRequest, reply: FastifyReply) => void;
}

export class RequestContext {
  readonly request: FastifyRequest;
  readonly query: QueryParameters;
  readonly hasTrailingSlash: boolean;
  readonly body: RequestBody;
  /** The client's, also behind a trusted proxy. */
  readonly clientAddress: ClientAddress;
  readonly trail = new AuditTrail();
  readonly #deps: RequestContextDeps;
  readonly #reply: FastifyReply;
  readonly #startMs: number;
  readonly #atEnd = new Set<() => void>();
  readonly #path: string;
  readonly #sentFrom: Pick<AuditRecord, 'address' | 'proxy'>;
  #principal: Principal | undefined;
  #scope: ClientScope | undefined;
  #refusal: LancegateError | undefined;
  #isForCapacity = false;
  #isAnswered = false;
  #isEnded = false;
  #durationMs = 0;

  constructor(deps: RequestContextDeps, request: FastifyRequest, reply: FastifyReply) {
    const { path, queryString } = splitTarget(request.originalUrl);
    this.#deps = deps;
    this.request = request;
    this.#reply = reply;
    this.#startMs = deps.clock.nowMs();
    this.#path = path;
    this.query = new QueryParameters(queryString);
    this.hasTrailingSlash = hasTrailingSlash(request.originalUrl);
    this.clientAddress = deps.clientAddresses.clientOf(request.raw);
    this.#sentFrom = sentFrom(this.clientAddress, deps.clientAddresses, request.raw);
    this.body = new RequestBody({
      raw: request.raw,
      onFirstRead: () => deps.continueUpload(request, reply),
      onBytes: (count) => deps.metrics.bytesReceived(count),
      clock: deps.clock,
      idleTimeoutMs: deps.config.uploadIdleTimeoutMs,
    });
    void reply.headers({ 'x-request-id': request.id, 'cache-control': 'no-store' });
    reply.raw.once('close', () => this.#finish());
  }

  /**
   * `run` is called once nothing can be sent or received any more, in whatever way it ended; the returned function takes
   * that back. No abort signal: aborting one costs 13 us, and every request ends.
   */
  atEnd(run: () => void): () => void {
    if (this.#isEnded) run();
    else this.#atEnd.add(run);
    return () => this.#atEnd.delete(run);
  }

  get response(): FastifyReply['raw'] {
    return this.#reply.raw;
  }

  /** Ours only: Fastify adds its own when it sends. */
  headersSet(): Readonly<Record<string, string>> {
    return Object.fromEntries(Object.entries(this.#reply.getHeaders()).map(([name, value]) => [name, String(value)]));
  }

  setHeader(name: string, value: string): void {
    void this.#reply.header(name, value);
  }

  identify(principal: Principal): void {
    this.#principal = principal;
  }

  /** Closes the scope when the answer is decided or the client has left; the work has seen the abort by then. */
  hold(scope: ClientScope): void {
    this.#scope = scope;
    if (this.#isEnded) scope.close();
  }

  /** The admission refused the request: its client is told when to return. */
  refusedForCapacity(): void {
    this.#isForCapacity = true;
  }

  answer({ contentType, text, audit }: Answer): FastifyReply {
    if (audit !== undefined) this.trail.note(audit);
    if (contentType !== undefined) void this.#reply.type(contentType);
    return this.#send(text);
  }

  refuse(error: unknown): FastifyReply {
    const refusal = asLancegateError(error);
    this.#refusal = refusal;
    this.#deps.metrics.requestRejected(refusal.kind);
    this.#logRefusal(refusal);
    const { status, headers, body } = this.#render(refusal);
    void this.#reply.code(status).headers(headers).type('application/json');
    return this.#send(JSON.stringify(body));
  }

  #render(refusal: LancegateError): RenderedError {
    const { id: requestId, routeOptions, headers } = this.request;
    const isLanceDb = this.hasTrailingSlash || /^LanceDB-/i.test(headers['user-agent'] ?? '');
    const isLanceDbCreate = isLanceDb && routeOptions.url?.endsWith(createTablePath) === true;
    const rendered = renderError(refusal, { requestId, instance: this.#path, isLanceDbCreate });
    if (!this.#isForCapacity) return rendered;
    const retryAfter = String(this.#deps.retryPacing.secondsFor(this.#principal));
    return { ...rendered, headers: { ...rendered.headers, 'retry-after': retryAfter } };
  }

  /**
   * Where the body has not come, the answer is sent whole, and the end of the connection put off: see `discard`. Who is to
   * come again keeps the connection, if little of the body is missing.
   */
  #send(text: string): FastifyReply {
    this.#isAnswered = true;
    this.#scope?.close();
    this.body.close();
    if (this.#isEnded) this.#record(true);
    const isUnfinished = this.body.isUnfinished;
    const isForgotten = isUnfinished && this.#refusal?.entry.status === 503 && this.body.canBeForgotten;
    if (isForgotten) this.body.forget();
    const isCutOff = isUnfinished && !isForgotten;
    if (isCutOff || this.#deps.isStopping()) void this.#reply.header('connection', 'close');
    if (!isCutOff) return this.#reply.send(text === '' ? undefined : text);
    void this.#reply.header('content-length', Buffer.byteLength(text));
    return this.#reply.send(Readable.from(thenDiscard(text, this.body)));
  }

  #finish(): void {
    this.#scope?.close();
    this.body.close();
    this.#isEnded = true;
    for (const run of this.#atEnd) run();
    this.#durationMs = this.#deps.clock.nowMs() - this.#startMs;
    this.#deps.metrics.requestFinished({ ...this.#route(), status: this.#reply.statusCode }, this.#durationMs);
    if (this.#isAnswered) this.#record(false);
  }

  #route(): { readonly method: string; readonly route: string } {
    const { method, routeOptions } = this.request;
    return { method, route: routeOptions.url ?? 'none' };
  }

  /** Work whose client has left may still commit, so the record waits for its end. */
  #record(hasClientLeft: boolean): void {
    const { audit, logger } = this.#deps;
    const record: AuditRecord = {
      requestId: this.request.id,
      ...this.#route(),
      status: this.#reply.statusCode,
      durationMs: this.#durationMs,
      receivedBytes: this.body.received,
      ...principalFacts(this.#principal, this.#refusal),
      ...this.#sentFrom,
      ...this.trail.facts(this.#refusal),
      refusal: this.#refusal?.kind,
      clientLeft: hasClientLeft ? true : undefined,
    };
    if (this.#deps.isProbe(record.route)) logRequest(logger, record);
    else audit.requestEnded(record);
  }

  #logRefusal(refusal: LancegateError): void {
    const { kind, message, internal, cause } = refusal;
    const fields = {
      requestId: this.request.id,
      kind,
      internal,
      error: kind === 'Internal' ? (cause ?? refusal) : cause,
    };
    if (kind === 'Internal') this.#deps.logger.error(fields, 'a request failed unexpectedly');
    else if (isForOperator.has(kind)) this.#deps.logger.error(fields, message);
    else if (kind === 'IssuerUnavailable') this.#deps.logger.warn(fields, message);
    else this.#deps.logger.debug(fields, message);
  }
}

/** An operator has to act on the storage. */
const isForOperator: ReadonlySet<ErrorName> = new Set(['StorageFull', 'StorageUnavailable', 'TableDamaged']);

async function* thenDiscard(text: string, body: RequestBody): AsyncGenerator<string, void, void> {
  yield text;
  await body.discard();
}

interface ScopeParts {
  readonly requestId: string;
  readonly principal: Principal;
  readonly timeout: Timeout;
  /** How long the service has waited for the body so far. */
  readonly waitedForBodyMs: () => number;
  readonly clock: Clock;
  readonly response: ServerResponse;
}

/**
 * A request's scope, tied to its connection. Fastify's own `request.signal` will not do: it aborts as soon as the body
 * has been read, with the client still there. Once the answer is on its way, neither the clock nor the client matters.
 *
 * A deadline that the client has not chosen is put off by the time its body takes to come: an honest upload of an hour is no
 * failure. `RequestBody` ends those that stall or trickle.
 */
export class ClientScope implements RequestScope {
  readonly requestId: string;
  readonly principal: Principal;
  readonly #controller = new AbortController();
  readonly #parts: Pick<ScopeParts, 'timeout' | 'waitedForBodyMs' | 'clock'>;
  readonly #startMs: number;
  readonly #stopWatching: () => void;

  constructor({ requestId, principal, response, ...parts }: ScopeParts) {
    const { clock, timeout } = parts;
    this.requestId = requestId;
    this.principal = principal;
    this.#parts = parts;
    this.#startMs = clock.nowMs();
    const onClose = (): void => this.#controller.abort(clientLeft());
    const onTime = (): void => {
      const leftMs = this.remainingMs();
      if (leftMs > 0) cancelTimer = clock.schedule(leftMs, onTime);
      else this.#controller.abort(timedOut(timeout.timeoutMs));
    };
    let cancelTimer = clock.schedule(timeout.timeoutMs, onTime);
    response.once('close', onClose);
    this.#stopWatching = () => {
      cancelTimer();
      response.off('close', onClose);
    };
    if (response.destroyed) onClose();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  remainingMs(): number {
    const { clock, timeout, waitedForBodyMs } = this.#parts;
    const allowedMs = Math.min(timeout.timeoutMs + waitedForBodyMs(), timeout.withBodyMs);
    return Math.max(0, this.#startMs + allowedMs - clock.nowMs());
  }

  /** The answer is decided: lets go of timer and connection. */
  close(): void {
    this.#stopWatching();
  }
}

const clientLeft = (): LancegateError => invalidInput('the client closed the connection before it was answered');

const timedOut = (timeoutMs: number): LancegateError =>
  new LancegateError('TimedOut', `the request was not done within its ${timeoutMs} ms; nothing was written`);
