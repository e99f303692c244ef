/**
 * Turns writes away while there is no room for them, before anything is spent on them (P7): no router, no exchange, no
 * token to verify. Whoever is sent off says so in the same words and with the same body as the reception.
 *
 * A full service would otherwise do nothing but refuse. Ten times the clients that fit come back every second, each
 * refusal costs the reception half of what a served request costs, and what is served gets the rest.
 *
 * It knows two kinds of requests. Where all writes are taken, it turns away anybody's write: that says nothing but that
 * the service is busy. Where a principal or a table has its share (P10), that is only for who may know it: so it turns
 * away repeats of what the reception, which asks who it is and what they may do, has just refused for want of room. In
 * both cases it asks the admission anew, and lets in whoever would find room. It never lets anybody past the reception.
 *
 * Prices: a token that ended less than `rememberedForMs` ago, and a request with another mistake, hear 503 in place of
 * 401 or 400 while there is no room.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { ExpiringCache } from '../auth/bounded-cache.ts';
import { hashToken } from '../auth/token-hash.ts';
import type { LancegateError } from '../kernel/errors.ts';
import { routedTarget, splitTarget } from '../wire/request-path.ts';
import type { Admission, Applicant } from './admission.ts';
import { renderError } from './error-renderer.ts';
import type { HttpParts } from './http-parts.ts';
import { canBeForgotten, declaredBytes } from './request-body.ts';
import { requestIdFrom } from './request-id.ts';

/** Who was refused, at which route, and for whom room was asked. */
export interface TurnedAway {
  readonly route: string;
  readonly applicant: Applicant;
}

/** Longer than `Retry-After` keeps a client away, and short enough to believe. */
const rememberedForMs = 5_000;
/** Credentials times tables. One takes a few hundred bytes. */
const maxRemembered = 10_000;

export class Doorkeeper {
  readonly #parts: Pick<HttpParts, 'clock' | 'logger' | 'metrics' | 'newId'>;
  readonly #admission: Admission;
  readonly #routeOf: (path: string) => string | undefined;
  readonly #refused: ExpiringCache<TurnedAway>;
  #rememberingUntilMs = 0;

  /** `writeRoutes` are those whose bodies count as writes, with `:id` for the identifier. */
  constructor(
    parts: Pick<HttpParts, 'clock' | 'logger' | 'metrics' | 'newId'>,
    admission: Admission,
    writeRoutes: readonly string[],
  ) {
    this.#parts = parts;
    this.#admission = admission;
    this.#routeOf = routeFinder(writeRoutes);
    this.#refused = new ExpiringCache(maxRemembered, parts.clock);
  }

  /** The reception found no room for this request. */
  remember(raw: IncomingMessage, turnedAway: TurnedAway): void {
    if (!isBrief(raw)) return;
    this.#rememberingUntilMs = this.#parts.clock.nowMs() + rememberedForMs;
    this.#refused.set(keyOf(raw), turnedAway, this.#rememberingUntilMs);
  }

  /** True if the request was answered. Bodies that are not brief are the reception's: their connections end. */
  turnsAway(raw: IncomingMessage, response: ServerResponse): boolean {
    if (!isBrief(raw)) return false;
    const found = this.#refusedToAnybody(raw) ?? this.#refusedAgain(raw);
    if (found === undefined) return false;
    this.#answer(raw, response, found);
    return true;
  }

  #refusedToAnybody(raw: IncomingMessage): Finding | undefined {
    const refusal = this.#admission.refusalOfAnybody();
    if (refusal === undefined) return undefined;
    const route = this.#routeOf(splitTarget(routedTarget(raw.url ?? '/')).path);
    return route === undefined ? undefined : { route, refusal, subject: undefined };
  }

  #refusedAgain(raw: IncomingMessage): Finding | undefined {
    if (this.#parts.clock.nowMs() >= this.#rememberingUntilMs) return undefined;
    const known = this.#refused.get(keyOf(raw));
    if (known === undefined) return undefined;
    const { applicant, route } = known;
    const refusal = this.#admission.refusalOf({ ...applicant, declaredBytes: declaredBytes(raw) });
    return refusal === undefined ? undefined : { route, refusal, subject: applicant.principal.subject };
  }

  #answer(raw: IncomingMessage, response: ServerResponse, { route, refusal, subject }: Finding): void {
    const { metrics, logger, newId } = this.#parts;
    const requestId = requestIdFrom(raw.headers['x-request-id']) ?? newId();
    const { path: instance } = splitTarget(raw.url ?? '/');
    const { status, headers, body } = renderError(refusal, { requestId, instance, isLanceDbCreate: false });
    const text = JSON.stringify(body);
    response.writeHead(status, {
      'x-request-id': requestId,
      'cache-control': 'no-store',
      ...headers,
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(text),
    });
    response.end(text);
    raw.resume();
    const request = { method: 'POST', route, status };
    metrics.requestRejected(refusal.kind);
    metrics.requestFinished(request, 0);
    const fields = { requestId, ...request, durationMs: 0, receivedBytes: 0, subject, refusal: refusal.kind };
    logger.info(fields, 'request');
  }
}

interface Finding {
  readonly route: string;
  readonly refusal: LancegateError;
  readonly subject: string | undefined;
}

/** Finds the route of a path, as the router would. */
function routeFinder(routes: readonly string[]): (path: string) => string | undefined {
  const patterns = routes.map((route) => ({ route, pattern: patternOf(route) }));
  return (path) => patterns.find(({ pattern }) => pattern.test(path))?.route;
}

/** Routes are letters, digits, slashes, `_` and `-`, but for a base path that may have dots. */
const patternOf = (route: string): RegExp =>
  new RegExp(`^${route.replaceAll('.', '\\.').replaceAll(':id', '[^/]+')}/?$`);

/** A write whose connection can be kept without reading its body. */
const isBrief = (raw: IncomingMessage): boolean =>
  raw.method === 'POST' &&
  raw.headers['content-encoding'] === undefined &&
  raw.headers['content-length'] !== undefined &&
  canBeForgotten(raw, 0);

/** All that the reception judged before it looked for room, but for headers that a client does not change. */
function keyOf({ headers, url }: IncomingMessage): string {
  return hashToken(JSON.stringify([headers.authorization, headers['x-api-key'], url]));
}
