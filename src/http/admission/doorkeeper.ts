/**
 * Stands in front of the router, and does two things so that a full service can still say so at once (P7).
 *
 * It turns writes away while there is no room for them, before anything is spent on them: no router, no exchange, no token
 * to verify. They hear the same words in the same body as from the reception. Ten times the clients that fit come back
 * every second; if each refusal cost what the reception costs, half of a served request, little would be left to serve.
 *
 * Those of one principal are told to come back one after the other (`return-times.ts`).
 *
 * It knows two kinds of requests. Where all room is taken, it turns away anybody's write: that says nothing but that the
 * service is busy. Where a principal or a table has its share (P10), that is only for who may know it: so it turns away
 * requests alike to one that the reception, which asks who it is and what they may do, has let pass a moment ago. In both
 * cases it is the admission that says whether there is room. The door lets nobody past the reception.
 *
 * And it lets writes in a few at a time, those of each path in turn. A commit answers hundreds of clients at once, and what
 * they send next would hold the event loop for as long as all of them take; now whoever is refused, whoever asks for
 * something else than a write, and whoever writes to another table waits for a few only. Who waits at the door has a place
 * kept: else more would come in than find room, to be refused in the end.
 *
 * Prices: a token that ended less than `believedForMs` ago, and a request with another mistake, hear 503 in place of 401 or
 * 400 while there is no room. The time at the door, a fraction of a second at most, is not in a request's own time.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { hashToken } from '../../auth/tokens/verifier.ts';
import { LancegateError } from '../../kernel/errors.ts';
import { ExpiringCache } from '../../kernel/expiring-cache.ts';
import type { Principal } from '../../kernel/principal.ts';
import type { AuditRecord } from '../../telemetry/audit.ts';
import { routedTarget, splitTarget } from '../../wire/request-path.ts';
import { principalFacts, sentFrom } from '../audit-trail.ts';
import { canBeForgotten, declaredBytes } from '../body/request-body.ts';
import { asLancegateError, renderError } from '../errors/error-renderer.ts';
import type { HttpParts } from '../http-parts.ts';
import { pathPattern } from '../path-pattern.ts';
import { requestIdFrom } from '../request-id.ts';
import type { Admission, Applicant, Entry } from './admission.ts';
import type { ClientAddresses } from './client-address.ts';
import { Line } from './line.ts';
import { ReturnTimes } from './return-times.ts';

/** Longer than `Retry-After` keeps a client away, so that who comes back is known. */
const believedForMs = 10_000;
/** Credentials times tables. One takes a few hundred bytes. */
const maxApplicants = 10_000;
/** Some 5 ms of work. With half of it, fewer merges come together in one commit. */
const writesPerTurn = 16;

export interface DoorkeeperParts extends Pick<HttpParts, 'clock' | 'audit' | 'metrics' | 'newId'> {
  readonly clientAddresses: Pick<ClientAddresses, 'clientOf' | 'peer'>;
}

export class Doorkeeper {
  readonly #parts: DoorkeeperParts;
  readonly #admission: Admission;
  readonly #routeOf: (raw: IncomingMessage) => string | undefined;
  readonly #applicants: ExpiringCache<Applicant>;
  readonly #returns: ReturnTimes;
  readonly #line = new Line(writesPerTurn);

  /** `writeRoutes` are those whose bodies count as writes, with `:id` for the identifier. */
  constructor(parts: DoorkeeperParts, admission: Admission, writeRoutes: readonly string[]) {
    this.#parts = parts;
    this.#admission = admission;
    this.#routeOf = routeFinder(writeRoutes);
    this.#applicants = new ExpiringCache(maxApplicants, parts.clock);
    this.#returns = new ReturnTimes(parts.clock);
  }

  /** The reception knows who sends this request, and that they may. */
  remember(raw: IncomingMessage, applicant: Applicant): void {
    if (applicant.body === 'json' || !isBrief(raw)) return;
    this.#applicants.set(keyOf(raw), applicant, this.#parts.clock.nowMs() + believedForMs);
  }

  /** Answers the request, or calls `letIn`, at once or later, or never if the client leaves before. */
  receive(raw: IncomingMessage, response: ServerResponse, letIn: () => void): void {
    const route = raw.method === 'POST' ? this.#routeOf(raw) : undefined;
    if (route === undefined) letIn();
    else if (isBrief(raw)) this.#receiveBrief(raw, response, { route, letIn });
    else this.#lineUp(raw, { route, letIn }, undefined);
  }

  #receiveBrief(raw: IncomingMessage, response: ServerResponse, { route, letIn }: Way): void {
    const applicant = this.#applicants.get(keyOf(raw));
    const place = this.#placeFor(raw, applicant);
    if (place instanceof LancegateError)
      this.#refuse(raw, response, { route, refusal: place, principal: applicant?.principal });
    else this.#lineUp(raw, { route, letIn }, place);
  }

  /** `SlowDown` where there is none. Any other refusal is for the reception to say. */
  #placeFor(raw: IncomingMessage, applicant: Applicant | undefined): Entry | LancegateError | undefined {
    try {
      this.#admission.requireRoomForAnybody();
      return applicant && this.#admission.enter({ ...applicant, declaredBytes: declaredBytes(raw) });
    } catch (error) {
      const refusal = asLancegateError(error);
      return refusal.kind === 'SlowDown' ? refusal : undefined;
    }
  }

  #lineUp(raw: IncomingMessage, { route, letIn }: Way, place: Entry | undefined): void {
    this.#line.add(splitTarget(raw.url ?? '/').path, () => {
      place?.leave(); // before anything else can run, the reception asks for it
      if (!raw.destroyed) return letIn();
      const end = { route, principal: undefined, refusal: undefined, status: undefined, clientLeft: true } as const;
      this.#record(raw, this.#requestId(raw), end);
    });
  }

  #refuse(raw: IncomingMessage, response: ServerResponse, { route, refusal, principal }: Refused): void {
    const { metrics } = this.#parts;
    const requestId = this.#requestId(raw);
    const { path: instance } = splitTarget(raw.url ?? '/');
    const { status, headers, body } = renderError(refusal, { requestId, instance, isLanceDbCreate: false });
    const text = JSON.stringify(body);
    response.writeHead(status, {
      'x-request-id': requestId,
      'cache-control': 'no-store',
      ...headers,
      ...this.#whenToReturn(principal),
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(text),
    });
    response.end(text);
    raw.resume();
    metrics.requestRejected(refusal.kind);
    metrics.requestFinished({ method: 'POST', route, status }, 0);
    this.#record(raw, requestId, { route, principal, refusal: refusal.kind, status, clientLeft: undefined });
  }

  #requestId(raw: IncomingMessage): string {
    return requestIdFrom(raw.headers['x-request-id']) ?? this.#parts.newId();
  }

  /** For a request that the reception never gets. */
  #record(raw: IncomingMessage, requestId: string, { principal, ...end }: End): void {
    const { audit, clientAddresses } = this.#parts;
    audit.requestEnded({
      requestId,
      method: 'POST',
      durationMs: 0,
      receivedBytes: 0,
      ...principalFacts(principal),
      ...sentFrom(clientAddresses.clientOf(raw), clientAddresses, raw),
      decision: 'not asked',
      actions: undefined,
      namespace: undefined,
      table: undefined,
      branch: undefined,
      ...end,
    });
  }

  /** Who is not known has no line of its own, and is told what the refusal says. */
  #whenToReturn(principal: Principal | undefined): Readonly<Record<string, string>> {
    return principal === undefined ? {} : { 'retry-after': String(this.#returns.secondsFor(principal)) };
  }
}

interface Refused {
  readonly refusal: LancegateError;
  readonly route: string;
  /** undefined where the reception has let pass no request like it lately. */
  readonly principal: Principal | undefined;
}

interface End extends Pick<AuditRecord, 'route' | 'refusal' | 'status' | 'clientLeft'> {
  readonly principal: Principal | undefined;
}

interface Way {
  readonly route: string;
  readonly letIn: () => void;
}

/** Finds the route of a path, as the router would. */
function routeFinder(routes: readonly string[]): (raw: IncomingMessage) => string | undefined {
  const patterns = routes.map((route) => ({ route, pattern: pathPattern(route) }));
  return ({ url = '/' }) => {
    const { path } = splitTarget(routedTarget(url));
    return patterns.find(({ pattern }) => pattern.test(path))?.route;
  };
}

/** A body that need not be read for its connection to be kept. */
const isBrief = (raw: IncomingMessage): boolean =>
  raw.headers['content-encoding'] === undefined &&
  raw.headers['content-length'] !== undefined &&
  canBeForgotten(raw, 0);

/** What the reception judges before it looks for room, but for headers of little weight. None can hold a line break. */
const keyOf = ({ headers, url }: IncomingMessage): string =>
  hashToken(`${headers.authorization}\n${headers['x-api-key']}\n${url}`);
