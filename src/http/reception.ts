/**
 * The way of every request to its route, as a list of steps. The order is the point: who asks, for what, whether they
 * may, whether there is room; and only then the body.
 */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { LancegateError } from '../kernel/errors.ts';
import type { Principal } from '../kernel/principal.ts';
import { readTimeoutMs, timeoutHeader } from '../wire/deadline.ts';
import { Admission, type Entry } from './admission.ts';
import { BodyDigest } from './body-digest.ts';
import { ClientScope } from './client-scope.ts';
import { contentDecoder, decoderBytes } from './content-coding.ts';
import type { Exchange } from './exchange.ts';
import { headerText } from './header-text.ts';
import type { HttpParts } from './http-parts.ts';
import { bodyTooLarge, readText } from './read-text.ts';
import { announcesBody } from './request-body.ts';
import type { Admitted, Answer, Arrival, BodyKind, Method, Route, Upload } from './route.ts';

/** Answers an admitted request; reads its body. */
export type Proceed = () => Promise<Answer>;

export class Reception {
  readonly #parts: HttpParts;
  readonly #admission: Admission;
  #isStopping = false;

  constructor(parts: HttpParts) {
    this.#parts = parts;
    this.#admission = new Admission(parts.config, parts.memory);
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
    const entry = announcesBody(raw) ? this.#enter(exchange, principal, admitted) : undefined;
    return async () => {
      const { end } = exchange;
      // Work that has begun may outlive its client; it leaves when it is done.
      if (entry !== undefined) end.removeEventListener('abort', entry.leave);
      try {
        return await admitted.answer(this.#upload(exchange, scope.signal, admitted.body, entry));
      } finally {
        entry?.leave();
      }
    };
  }

  #openScope(exchange: Exchange, principal: Principal): ClientScope {
    const { request, query, response } = exchange;
    const scope = new ClientScope({
      requestId: request.id,
      principal,
      timeoutMs: readTimeoutMs(query, headerText(request.headers[timeoutHeader]), this.#parts.config),
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
      case 'arrow-pieces':
        return undefined;
    }
  }

  #enter({ body, end, request }: Exchange, principal: Principal, { body: kind, table }: Admitted): Entry {
    const { headers } = request;
    const entry = this.#admission.enter({
      principal,
      table,
      body: kind,
      declaredBytes: declaredBytes(headers),
      decoderBytes: decoderBytes(headers['content-encoding']),
    });
    const endUpload = this.#parts.metrics.uploadStarted();
    const endReceiving = (): void => {
      entry.endReceiving();
      endUpload();
    };
    body.onEnd(endReceiving);
    end.addEventListener('abort', endReceiving, { once: true });
    end.addEventListener('abort', entry.leave, { once: true });
    return entry;
  }

  #upload({ request, body, end }: Exchange, signal: AbortSignal, kind: BodyKind, entry: Entry | undefined): Upload {
    const coding = request.headers['content-encoding'];
    const decoded = (isUsedAtOnce: boolean): AsyncIterable<Uint8Array> =>
      contentDecoder(coding)(body.read(signal, isUsedAtOnce), end);
    const account = entry?.account ?? this.#parts.memory.open();
    const open = (bytes: AsyncIterable<Uint8Array>) =>
      this.#parts.openSource(bytes, declaredBytes(request.headers), account);
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

/** Unknown for chunked bodies, and for coded ones, whose length says nothing of what comes out. */
function declaredBytes(headers: IncomingHttpHeaders): number | undefined {
  if (headers['content-length'] === undefined || headers['content-encoding'] !== undefined) return undefined;
  return Number(headers['content-length']);
}

/** A body of unknown length is counted as it comes. */
function requireLength({ headers }: IncomingMessage, maxBytes: number | undefined): void {
  if (maxBytes !== undefined && Number(headers['content-length'] ?? 0) > maxBytes) throw bodyTooLarge(maxBytes);
}
