/** One request and its answer, from the first header to the end of the connection's part in it. */
import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http';
import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { asBuffer } from '../arrow/format/ipc-file.ts';
import {
  Access,
  type Answer,
  type AnswerHead,
  type BytesAnswer,
  headerText,
  nothingAsked,
  principalFacts,
  type Route,
  type RouteInput,
} from '../endpoint/route.ts';
import { type ErrorName, LancegateError } from '../kernel/errors.ts';
import { isObject } from '../kernel/json-bounds.ts';
import { onAbort, type Principal } from '../kernel/request-scope.ts';
import { createTablePath } from '../operations/create-table.ts';
import { type AuditFacts, type AuditRecord, logRequest } from '../telemetry/audit.ts';
import { requireKnownHeaders } from '../wire/bound-parameters.ts';
import { hasTrailingSlash, splitTarget } from '../wire/identifiers.ts';
import { type NamesOfRoute, nameCheck } from '../wire/known-names.ts';
import { QueryParameters, readTimeout, timeoutHeader } from '../wire/query-parameters.ts';
import type { RetryPacing } from './admission/admission.ts';
import { PacedAnswer } from './body/paced-answer.ts';
import { RequestBody } from './body/request-body.ts';
import { asLancegateError, type RenderedError, renderError } from './error-renderer.ts';
import { sayProcessing } from './forwarding/say-processing.ts';
import type { HttpDeps } from './http-deps.ts';
import { type ClientAddress, type ClientAddresses, ClientScope, expectsContinue } from './request-head.ts';

/**
 * What the LanceDB SDKs take for the version of the server, from the answer that gave them a table: from 0.2.0 on they send many
 * vectors in one query, from 0.3.0 on structured full-text queries, and from 0.4.0 on uploads in parts, which are not offered.
 */
const phalanxVersion = '0.3.0';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Undefined for health checks and for paths without a route, which need no credential. */
    readonly route?: Route;
    /** Has no audit record. */
    readonly isProbe?: boolean;
  }

  interface FastifyRequest {
    context: RequestContext;
  }
}

export interface RequestContextDeps
  extends Pick<HttpDeps, 'logger' | 'audit' | 'metrics' | 'clock' | 'config' | 'policy' | 'readFilter'> {
  readonly retryPacing: RetryPacing;
  readonly namesOf: (route: Route) => NamesOfRoute;
  readonly isLeaving: () => boolean;
  readonly clientAddresses: Pick<ClientAddresses, 'clientOf'>;
}

export class RequestContext implements AnswerHead {
  readonly raw: IncomingMessage;
  readonly body: RequestBody;
  /** It is the client's, also behind a trusted proxy. */
  readonly clientAddress: ClientAddress;
  /** Makes the answer; set as soon as the request is admitted. */
  handler = (): Promise<Answer> =>
    Promise.reject(new LancegateError('Internal', 'a request is answered before it is admitted'));
  readonly #deps: RequestContextDeps;
  readonly #request: FastifyRequest;
  readonly #reply: FastifyReply;
  readonly #route: string;
  readonly #isProbe: boolean;
  readonly #path: string;
  readonly #query: QueryParameters;
  readonly #hasTrailingSlash: boolean;
  readonly #startMs: number;
  readonly #atEnd = new Set<() => void>();
  #access: Access | undefined;
  #scope: ClientScope | undefined;
  #noted: AuditFacts = {};
  #refusal: LancegateError | undefined;
  #isForCapacity = false;
  /** Of an answer that is sent while it is computed. */
  #paced: PacedAnswer | undefined;
  #isAnswered = false;
  #isEnded = false;
  #durationMs = 0;

  constructor(deps: RequestContextDeps, request: FastifyRequest, reply: FastifyReply) {
    const { raw, originalUrl, routeOptions } = request;
    const { path, queryString } = splitTarget(originalUrl);
    this.#deps = deps;
    this.raw = raw;
    this.#request = request;
    this.#reply = reply;
    this.#route = routeOptions.url ?? 'none';
    this.#isProbe = routeOptions.config?.isProbe === true;
    this.#path = path;
    this.#query = new QueryParameters(queryString);
    this.#hasTrailingSlash = hasTrailingSlash(originalUrl);
    this.#startMs = deps.clock.nowMs();
    this.clientAddress = deps.clientAddresses.clientOf(raw);
    this.body = new RequestBody({
      raw,
      response: reply.raw,
      metrics: deps.metrics,
      clock: deps.clock,
      idleTimeoutMs: deps.config.uploadIdleTimeoutMs,
    });
    void reply.headers({
      'x-request-id': request.id,
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      'phalanx-version': phalanxVersion,
    });
    reply.raw.once('close', () => this.#finish());
  }

  /**
   * Calls `run` once nothing can be sent or received any more, in whatever way it ended; the returned function takes
   * that back. Not an abort signal: every request ends, and aborting one is costly.
   */
  atEnd(run: () => void): () => void {
    if (this.#isEnded) run();
    else this.#atEnd.add(run);
    return () => this.#atEnd.delete(run);
  }

  /** The principal is known, which the audit record and a refusal then say. */
  accessOf(principal: Principal): Access {
    this.#access ??= new Access(this.#deps.policy, principal);
    return this.#access;
  }

  /**
   * From now on the deadline runs, and the route can prepare the request. The scope closes when the answer
   * is decided or the client has left; the work has seen the abort by then. `InvalidInput` for a malformed timeout, and for a
   * query parameter that is not known.
   */
  identify(principal: Principal, route: Route): Omit<RouteInput<string>, 'database'> {
    const access = this.accessOf(principal);
    const parts = isObject(this.#request.params) ? this.#request.params : {};
    const { method, headers, id: requestId } = this.#request;
    const scope = new ClientScope({
      requestId,
      principal,
      timeout: readTimeout(this.#query, headerText(headers[timeoutHeader]), this.#deps.config),
      waitedMs: () => this.body.waitedMs + (this.#paced?.waitedMs ?? 0),
      clock: this.#deps.clock,
      response: this.#reply.raw,
    });
    this.#scope = scope;
    if (this.#isEnded) scope.close();
    const names = this.#deps.namesOf(route);
    const checkNames = nameCheck(names, this.#deps.config.acceptFields ?? [], (name) => this.#passedOver(name));
    if (!route.isNotOffered) checkNames(this.#query.names(), names.parameters, '');
    if (names.isStrict) requireKnownHeaders(headers, names.parameters);
    return {
      method: method === 'POST' ? method : 'GET',
      id: String(parts.id ?? ''),
      index: String(parts.index ?? ''),
      query: this.#query,
      headers,
      hasTrailingSlash: this.#hasTrailingSlash,
      scope,
      access,
      readFilter: this.#deps.readFilter,
      checkNames,
      context: this,
    };
  }

  /** A client that is newer than this service has sent it. */
  #passedOver(name: string): void {
    this.#deps.metrics.fieldIgnored(this.#route);
    const ignoredFields = [...(this.#noted.ignoredFields ?? []), name];
    // Of all names that are passed over: a header has to fit, and the audit record is bounded.
    if (ignoredFields.join().length > 400) return;
    this.note({ ignoredFields });
    this.setHeader(
      'x-lancegate-ignored',
      ignoredFields.map((each) => encodeURIComponent(each.toWellFormed())).join(', '),
    );
  }

  /** Another replica has sent the request on, and must not take a long wait for a lost connection. */
  sayProcessing(): void {
    if (expectsContinue(this.raw)) this.atEnd(sayProcessing(this.#reply.raw, this.#deps.clock));
  }

  /** Fastify adds more when it sends. */
  headersSet(): Readonly<Record<string, string>> {
    return Object.fromEntries(Object.entries(this.#reply.getHeaders()).map(([name, value]) => [name, String(value)]));
  }

  setHeader(name: string, value: string): void {
    void this.#reply.header(name, value);
  }

  note(facts: AuditFacts): void {
    this.#noted = { ...this.#noted, ...facts };
  }

  /** Where `admit` refuses the request for want of capacity, the answer says when its client may return. */
  paced<Admitted>(admit: () => Admitted): Admitted {
    try {
      return admit();
    } catch (error) {
      this.#isForCapacity = error instanceof LancegateError && error.kind === 'SlowDown';
      throw error;
    }
  }

  /** The client sent path and query so. */
  get target(): string {
    return this.#request.originalUrl;
  }

  send(answer: Answer): FastifyReply | Promise<FastifyReply> {
    if ('status' in answer) {
      void this.#reply.code(answer.status).headers(answer.headers);
      this.note(answer.audit);
      return this.#sendWhole(answer.text);
    }
    if (answer.contentType !== undefined) void this.#reply.type(answer.contentType);
    if ('bytes' in answer) return this.#sendBytes(answer);
    if (answer.audit !== undefined) this.note(answer.audit);
    return this.#sendWhole(answer.text);
  }

  #sendBytes({ bytes, audit }: BytesAnswer): FastifyReply | Promise<FastifyReply> {
    if (!(bytes instanceof Uint8Array)) return this.#stream(bytes, audit);
    this.note({ ...audit(), sentBytes: bytes.length });
    return this.#sendWhole(asBuffer(bytes));
  }

  /**
   * A failure in the middle breaks the connection, so that no client takes a part for the whole. The bytes go past Fastify, which
   * would not say when a part has left. The audit record is written when the connection is done with the answer, after this.
   */
  async #stream(parts: AsyncIterable<Uint8Array>, audit: () => AuditFacts): Promise<FastifyReply> {
    const { clock, config, isLeaving } = this.#deps;
    const { raw: response } = this.#reply;
    const paced = new PacedAnswer({ response, clock, idleTimeoutMs: config.uploadIdleTimeoutMs });
    this.#isAnswered = true;
    this.#paced = paced;
    this.body.close();
    if (isLeaving()) void this.#reply.header('connection', 'close');
    const signal = this.#scope?.signal;
    const stopListening = signal && onAbort(signal, () => paced.end(signal.reason));
    try {
      await paced.send(parts, () => {
        void this.#reply.hijack();
        response.writeHead(this.#reply.statusCode, this.#reply.getHeaders() as OutgoingHttpHeaders);
      });
      response.end();
    } catch (error) {
      if (!response.headersSent) throw error;
      this.#refused(asLancegateError(error));
      response.destroy();
    } finally {
      stopListening?.();
      this.note(audit());
      this.#scope?.close();
    }
    return this.#reply;
  }

  refuse(error: unknown): FastifyReply {
    const refusal = asLancegateError(error);
    this.#refused(refusal);
    const { status, headers, body } = this.#render(refusal);
    void this.#reply.code(status).headers(headers).type('application/json');
    return this.#sendWhole(JSON.stringify(body));
  }

  #refused(refusal: LancegateError): void {
    this.#refusal = refusal;
    this.#deps.metrics.requestRejected(refusal.kind);
    const { kind, message, internal, cause } = refusal;
    const fields = {
      requestId: this.#request.id,
      kind,
      internal,
      error: kind === 'Internal' ? (cause ?? refusal) : cause,
    };
    const { logger } = this.#deps;
    if (kind === 'Internal') logger.error(fields, 'a request failed unexpectedly');
    else if (isForOperator.has(kind)) logger.error(fields, message);
    else if (kind === 'IssuerUnavailable') logger.warn(fields, message);
    else logger.debug(fields, message);
  }

  #render(refusal: LancegateError): RenderedError {
    const { id: requestId, headers } = this.#request;
    const isLanceDb = this.#hasTrailingSlash || /^LanceDB-/i.test(headers['user-agent'] ?? '');
    const isCreate = this.#route.endsWith(createTablePath);
    const rendered = renderError(refusal, { requestId, instance: this.#path, isLanceDb, isCreate });
    if (!this.#isForCapacity) return rendered;
    const retryAfter = String(this.#deps.retryPacing.secondsFor(this.#access?.principal));
    return { ...rendered, headers: { ...rendered.headers, 'retry-after': retryAfter } };
  }

  /**
   * Where a part of the body is missing, the answer is sent in full, and the connection ends later: see `discard`. A client
   * that is to return keeps its connection if only a little of the body is missing.
   */
  #sendWhole(content: string | Buffer): FastifyReply {
    this.#isAnswered = true;
    this.#scope?.close();
    this.body.close();
    if (this.#isEnded) this.#record(true);
    const isUnfinished = this.body.isUnfinished;
    const isForgotten = isUnfinished && this.#refusal?.entry.status === 503 && this.body.canBeForgotten;
    if (isForgotten) this.body.forget();
    const isCutOff = isUnfinished && !isForgotten;
    if (isCutOff || this.#deps.isLeaving()) void this.#reply.header('connection', 'close');
    if (!isCutOff) return this.#reply.send(content === '' ? undefined : content);
    void this.#reply.header('content-length', Buffer.byteLength(content));
    return this.#reply.send(Readable.from(thenDiscard(content, this.body)));
  }

  #finish(): void {
    this.#scope?.close();
    this.body.close();
    this.#isEnded = true;
    for (const run of this.#atEnd) run();
    this.#durationMs = this.#deps.clock.nowMs() - this.#startMs;
    const { method } = this.#request;
    const { statusCode: status } = this.#reply;
    this.#deps.metrics.requestFinished({ method, route: this.#route, status }, this.#durationMs);
    if (this.#isAnswered) this.#record(false);
  }

  /** Work whose client has left may still commit, so the record waits for its end. */
  #record(hasClientLeft: boolean): void {
    const { audit, logger } = this.#deps;
    const { address, proxy } = this.clientAddress;
    const record: AuditRecord = {
      requestId: this.#request.id,
      method: this.#request.method,
      route: this.#route,
      status: this.#reply.statusCode,
      durationMs: this.#durationMs,
      receivedBytes: this.body.received,
      ...principalFacts(this.#access?.principal, this.#refusal),
      address,
      proxy,
      ...this.#accessFacts(),
      ...this.#noted,
      ...(this.#paced && { sentBytes: this.#paced.sentBytes }),
      refusal: this.#refusal?.kind,
      ...(this.#refusal?.kind === 'Unauthenticated' && { reason: this.#refusal.message }),
      clientLeft: hasClientLeft ? true : undefined,
    };
    if (this.#isProbe) logRequest(logger, record);
    else audit.requestEnded(record);
  }

  #accessFacts(): ReturnType<Access['facts']> {
    const facts = this.#access?.facts() ?? nothingAsked;
    if (this.#refusal?.kind === 'Unauthenticated') return { ...facts, decision: 'unauthenticated' };
    return this.#refusal?.kind === 'PermissionDenied' ? { ...facts, decision: 'denied' } : facts;
  }
}

/** An operator has to act on the storage or the database. */
const isForOperator: ReadonlySet<ErrorName> = new Set([
  'StorageFull',
  'StorageUnavailable',
  'CatalogUnavailable',
  'TableDamaged',
]);

async function* thenDiscard(content: string | Buffer, body: RequestBody): AsyncGenerator<string | Buffer, void, void> {
  yield content;
  await body.discard();
}
