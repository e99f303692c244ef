/**
 * The way of every request to its route: authenticate, parse path and query and authorise (`Route.prepare`), admit, and only
 * then read the body and answer.
 */
import type { IncomingMessage } from 'node:http';
import { LancegateError } from '../kernel/errors.ts';
import type { Principal } from '../kernel/request-scope.ts';
import { readTimeout, timeoutHeader } from '../wire/deadline.ts';
import type { Admission, AdmissionRequest, Permit } from './admission/admission.ts';
import type { LoadShedder } from './admission/load-shedder.ts';
import { BodyDigest } from './body/body-digest.ts';
import { bodyTooLarge, readText } from './body/read-text.ts';
import { announcesBody, contentDecoder, declaredBytes, decoderBytes } from './body/request-body.ts';
import type { HttpDeps } from './http-deps.ts';
import { ClientScope, type RequestContext } from './request-context.ts';
import { credentialsIn, headerText } from './request-head.ts';
import type { Answer, BodyKind, Method, PreparedRequest, Route, RouteInput, Upload } from './route.ts';

/** Answers an admitted request; reads its body. */
export type Handler = () => Promise<Answer>;

export class RequestPipeline {
  readonly #deps: HttpDeps;
  readonly #admission: Admission;
  readonly #shedder: Pick<LoadShedder, 'endReservation'>;
  #isStopping = false;

  constructor(deps: HttpDeps, admission: Admission, shedder: Pick<LoadShedder, 'endReservation'>) {
    this.#deps = deps;
    this.#admission = admission;
    this.#shedder = shedder;
  }

  get isStopping(): boolean {
    return this.#isStopping;
  }

  /** From now on new requests are refused; those under way are not touched. */
  stop(): void {
    this.#isStopping = true;
  }

  /** All that comes before the body; not one byte of the body is read here. */
  async prepare(route: Route, context: RequestContext): Promise<Handler> {
    if (this.#isStopping) throw new LancegateError('SlowDown', 'the service is stopping', { retryAfterSeconds: 5 });
    const { raw } = context.request;
    const principal = await this.#deps.authenticator.authenticate(credentialsIn(raw));
    context.identify(principal);
    const scope = this.#openScope(context, principal);
    const prepared = route.prepare(this.#routeInput(context, scope));
    requireLength(raw, this.#maxBytesOf(prepared.body));
    const permit = announcesBody(raw) ? this.#admit(context, admissionRequest(raw, principal, prepared)) : undefined;
    const keepPermit = permit === undefined ? undefined : context.atEnd(permit.release);
    return async () => {
      keepPermit?.(); // work that has begun may outlive its client; it releases the permit when it is done
      try {
        return await prepared.answer(this.#upload(context, scope.signal, prepared.body, permit));
      } finally {
        permit?.release();
      }
    };
  }

  #openScope(context: RequestContext, principal: Principal): ClientScope {
    const { request, query, response, body } = context;
    const scope = new ClientScope({
      requestId: request.id,
      principal,
      timeout: readTimeout(query, headerText(request.headers[timeoutHeader]), this.#deps.config),
      waitedForBodyMs: () => body.waitedMs,
      clock: this.#deps.clock,
      response,
    });
    context.hold(scope);
    return scope;
  }

  #routeInput(context: RequestContext, scope: ClientScope): RouteInput {
    const { request, query, hasTrailingSlash } = context;
    const { id = '' } = request.params as { readonly id?: string };
    const { principal } = scope;
    return {
      method: request.method as Method,
      id,
      query,
      headers: request.headers,
      hasTrailingSlash,
      scope,
      allows: (asked) => this.#deps.policy.allows({ principal, ...asked }),
      scopeFor: (action) => this.#deps.policy.scopeFor(action),
      trail: context.trail,
      headersSet: () => context.headersSet(),
      setHeader: (name, value) => context.setHeader(name, value),
    };
  }

  #maxBytesOf(body: BodyKind): number | undefined {
    switch (body) {
      case 'json':
        return this.#deps.config.maxJsonBytes;
      case 'arrow-whole':
        return this.#deps.config.maxMergeBytes;
      case 'arrow-chunks':
        return undefined;
    }
  }

  #admit(context: RequestContext, request: AdmissionRequest): Permit {
    const permit = this.#permit(context, request);
    const endUpload = this.#deps.metrics.uploadStarted();
    const endReceiving = (): void => {
      permit.endReceiving();
      endUpload();
    };
    context.body.onEnd(endReceiving);
    context.atEnd(endReceiving);
    return permit;
  }

  #permit(context: RequestContext, request: AdmissionRequest): Permit {
    this.#shedder.endReservation(context.request.raw);
    try {
      return this.#admission.admit(request);
    } catch (error) {
      if (error instanceof LancegateError && error.kind === 'SlowDown') context.refusedForCapacity();
      throw error;
    }
  }

  #upload(context: RequestContext, signal: AbortSignal, kind: BodyKind, permit: Permit | undefined): Upload {
    const { request, body } = context;
    const coding = request.headers['content-encoding'];
    const decoded = (isUsedAtOnce: boolean): AsyncIterable<Uint8Array> =>
      contentDecoder(coding)(body.read(signal, isUsedAtOnce), (run) => void context.atEnd(run));
    const account = permit?.account ?? this.#deps.memory.open();
    const open = (bytes: AsyncIterable<Uint8Array>) =>
      this.#deps.openSource(bytes, declaredBytes(request.raw), account);
    return {
      text: () => readText(decoded(false), this.#deps.config.maxJsonBytes),
      source: () => open(decoded(coding === undefined)),
      digestedSource: () => {
        const digest = new BodyDigest(decoded(coding === undefined), this.#maxBytesOf(kind));
        return { source: open(digest.bytes()), digest: () => digest.whole() };
      },
    };
  }
}

const admissionRequest = (
  raw: IncomingMessage,
  principal: Principal,
  { body, table }: PreparedRequest,
): AdmissionRequest => ({
  principal,
  table,
  body,
  declaredBytes: declaredBytes(raw),
  decoderBytes: decoderBytes(raw.headers['content-encoding']),
});

/** A body of unknown length is counted as it comes. */
function requireLength({ headers }: IncomingMessage, maxBytes: number | undefined): void {
  if (maxBytes !== undefined && Number(headers['content-length'] ?? 0) > maxBytes) throw bodyTooLarge(maxBytes);
}
