/**
 * The way of every request to its route, as a list of steps. The order is the point: who asks, for what, whether they
 * may, whether there is room; and only then the body.
 */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { LancegateError } from '../kernel/errors.ts';
import type { Principal } from '../kernel/principal.ts';
import { readTimeout, timeoutHeader } from '../wire/deadline.ts';
import type { Admission, Applicant, Entry } from './admission/admission.ts';
import type { Doorkeeper } from './admission/doorkeeper.ts';
import { BodyDigest } from './body/body-digest.ts';
import { contentDecoder, decoderBytes } from './body/content-coding.ts';
import { bodyTooLarge, readText } from './body/read-text.ts';
import { announcesBody, declaredBytes } from './body/request-body.ts';
import { ClientScope } from './client-scope.ts';
import type { Exchange } from './exchange.ts';
import { headerText } from './header-text.ts';
import type { HttpParts } from './http-parts.ts';
import type { Admitted, Answer, Arrival, BodyKind, Method, Route, Upload } from './route.ts';

/** Answers an admitted request; reads its body. */
export type Proceed = () => Promise<Answer>;

export class Reception {
  readonly #parts: HttpParts;
  readonly #admission: Admission;
  readonly #doorkeeper: Pick<Doorkeeper, 'remember'>;
  #isStopping = false;

  constructor(parts: HttpParts, admission: Admission, doorkeeper: Pick<Doorkeeper, 'remember'>) {
    this.#parts = parts;
    this.#admission = admission;
    this.#doorkeeper = doorkeeper;
  }

  get isStopping(): boolean {
    return this.#isStopping;
  }

  /** From now on new requests are refused; those under way are not touched. */
  stop(): void {
    this.#isStopping = true;
  }

  /** Not one byte of the body is read here. */
  async admit(route: Route, exchange: Exchange): Promise<Proceed> {
    if (this.#isStopping) throw new LancegateError('SlowDown', 'the service is stopping', { retryAfterSeconds: 5 });
    const { raw } = exchange.request;
    const principal = await this.#parts.authenticator.authenticate(credentialsIn(raw.headers));
    exchange.identify(principal);
    const scope = this.#openScope(exchange, principal);
    const admitted = route.admit(this.#arrival(exchange, scope));
    requireLength(raw, this.#maxBytesOf(admitted.body));
    const entry = announcesBody(raw) ? this.#enter(exchange, applicant(raw, principal, admitted)) : undefined;
    const outliveClient = entry === undefined ? undefined : exchange.atEnd(entry.leave);
    return async () => {
      outliveClient?.(); // work that has begun may outlive its client; it leaves when it is done
      try {
        return await admitted.answer(this.#upload(exchange, scope.signal, admitted.body, entry));
      } finally {
        entry?.leave();
      }
    };
  }

  #openScope(exchange: Exchange, principal: Principal): ClientScope {
    const { request, query, response, body } = exchange;
    const scope = new ClientScope({
      requestId: request.id,
      principal,
      timeout: readTimeout(query, headerText(request.headers[timeoutHeader]), this.#parts.config),
      waitedForBodyMs: () => body.waitedMs,
      clock: this.#parts.clock,
      response,
    });
    exchange.hold(scope);
    return scope;
  }

  #arrival(exchange: Exchange, scope: ClientScope): Arrival {
    const { request, query, hasTrailingSlash } = exchange;
    const { id = '' } = request.params as { readonly id?: string };
    const { principal } = scope;
    return {
      method: request.method as Method,
      id,
      query,
      headers: request.headers,
      hasTrailingSlash,
      scope,
      allows: (asked) => this.#parts.policy.allows({ principal, ...asked }),
      scopeFor: (action) => this.#parts.policy.scopeFor(action),
      trail: exchange.trail,
      headersSet: () => exchange.headersSet(),
      setHeader: (name, value) => exchange.setHeader(name, value),
    };
  }

  #maxBytesOf(body: BodyKind): number | undefined {
    switch (body) {
      case 'json':
        return this.#parts.config.maxJsonBytes;
      case 'arrow-whole':
        return this.#parts.config.maxMergeBytes;
      case 'arrow-chunks':
        return undefined;
    }
  }

  #enter(exchange: Exchange, applicant: Applicant): Entry {
    this.#doorkeeper.remember(exchange.request.raw, applicant);
    const entry = this.#admission.enter(applicant);
    const endUpload = this.#parts.metrics.uploadStarted();
    const endReceiving = (): void => {
      entry.endReceiving();
      endUpload();
    };
    exchange.body.onEnd(endReceiving);
    exchange.atEnd(endReceiving);
    return entry;
  }

  #upload(exchange: Exchange, signal: AbortSignal, kind: BodyKind, entry: Entry | undefined): Upload {
    const { request, body } = exchange;
    const coding = request.headers['content-encoding'];
    const decoded = (isUsedAtOnce: boolean): AsyncIterable<Uint8Array> =>
      contentDecoder(coding)(body.read(signal, isUsedAtOnce), (run) => void exchange.atEnd(run));
    const account = entry?.account ?? this.#parts.memory.open();
    const open = (bytes: AsyncIterable<Uint8Array>) =>
      this.#parts.openSource(bytes, declaredBytes(request.raw), account);
    return {
      text: () => readText(decoded(false), this.#parts.config.maxJsonBytes),
      source: () => open(decoded(coding === undefined)),
      digestedSource: () => {
        const digest = new BodyDigest(decoded(coding === undefined), this.#maxBytesOf(kind));
        return { source: open(digest.bytes()), digest: () => digest.whole() };
      },
    };
  }
}

const credentialsIn = (headers: IncomingHttpHeaders) => ({
  authorization: headers.authorization,
  'x-api-key': headerText(headers['x-api-key']),
});

const applicant = (raw: IncomingMessage, principal: Principal, { body, table }: Admitted): Applicant => ({
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
