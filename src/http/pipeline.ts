/**
 * A request goes this way, one step after the other:
 *
 * 1. `receive`: it waits for the answers to earlier requests of its connection.
 * 2. The router finds its route, and `open` makes its context.
 * 3. `prepare`: its head is checked. A full service refuses a write here, and a write waits for its turn. Its principal is
 *    authenticated, path and query are parsed and authorised (`Route.prepare`), and it is admitted, or the replica is found that
 *    is to admit it. All this before one byte of its body is read. Only where the body may name a branch, JSON is read first: then
 *    the route asks the policy, and the owner is looked for (`PreparedRequest.ask`).
 * 4. `RequestContext.handler`: the route reads the body and answers, or the owner does.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { ArrowSource, newSchemaCache } from '../arrow/stream/source-reader.ts';
import { bodyTooLarge, contentDecoder, decoderBytes, readText } from '../endpoint/body/decoded-body.ts';
import { MultipartUpload } from '../endpoint/body/multipart.ts';
import { namesOfRoute } from '../endpoint/description.ts';
import type { AllowedRequest, Answer, BodyKind, PreparedRequest, Route, Upload } from '../endpoint/route.ts';
import { invalidInput, LancegateError } from '../kernel/errors.ts';
import type { Principal } from '../kernel/request-scope.ts';
import type { RowFormat } from '../rows/answer-form.ts';
import { conversionBytes } from '../rows/bodies/row-conversion.ts';
import type { ReplicaAddress } from '../table/table-owners.ts';
import { splitTarget } from '../wire/identifiers.ts';
import type { NamesOfRoute } from '../wire/known-names.ts';
import { Admission, LargeTexts, PacedQueue, type Permit, RetryPacing } from './admission/admission.ts';
import { Connections } from './admission/connections.ts';
import { BodyDigest } from './body/body-digest.ts';
import { announcesBody, canBeForgotten, declaredBytes } from './body/request-body.ts';
import { withText } from './forwarding/forwarding.ts';
import type { HttpDeps } from './http-deps.ts';
import { RequestContext, type RequestContextDeps } from './request-context.ts';
import { ClientAddresses, credentialsIn, requireChunkedAlone, requireFewHeaders, requireHost } from './request-head.ts';

/** What a brief write brings along to its admission, so that no more get their turn than can be admitted. */
interface Reservation {
  /** Rejects as `Authenticator` does. */
  readonly principal: Promise<Principal>;
  /** May be called more than once. */
  readonly release: () => void;
}

interface ReadyRequest {
  readonly context: RequestContext;
  readonly principal: Principal;
  readonly prepared: PreparedRequest;
  readonly reservation: Reservation | undefined;
  readonly signal: AbortSignal;
}

export class RequestPipeline {
  readonly connections: Connections;
  readonly #deps: HttpDeps;
  readonly #admission: Admission;
  /** Sixteen writes are some 5 ms of work. With half as many, fewer merges share a commit. */
  readonly #turns = new PacedQueue(16);
  readonly #contextDeps: RequestContextDeps;
  readonly #maxBytes: Readonly<Record<BodyKind, number | undefined>>;
  readonly #schemas = newSchemaCache();
  readonly #largeTexts: LargeTexts;
  #isLeaving = false;
  #isStopping = false;

  constructor(deps: HttpDeps) {
    const { config, memory, clock, routes, metrics } = deps;
    const clientAddresses = new ClientAddresses(config.trustedProxies ?? []);
    const retryPacing = new RetryPacing(clock);
    this.#deps = deps;
    this.#admission = new Admission(config, memory);
    this.#largeTexts = new LargeTexts(clock);
    this.connections = new Connections({ ...deps, clientAddresses });
    const names = new Map(routes.map((route) => [route, namesOfRoute(route)]));
    const namesOf = (route: Route): NamesOfRoute => names.get(route) ?? namesOfRoute(route);
    this.#contextDeps = { ...deps, clientAddresses, retryPacing, namesOf, isLeaving: () => this.isLeaving };
    this.#maxBytes = { json: config.maxJsonBytes, 'arrow-whole': config.maxMergeBytes, 'arrow-chunks': undefined };
    metrics.watchConnections(() => this.connections.count);
  }

  /** Every answer is the last of its connection. */
  get isLeaving(): boolean {
    return this.#isLeaving || this.#isStopping;
  }

  leave(): void {
    this.#isLeaving = true;
  }

  /** From now on new requests are refused; those under way are not touched. */
  stop(): void {
    this.#isStopping = true;
    this.connections.stop();
  }

  /** Calls `route`, at once or later; or answers the request; or does neither, if the client leaves before. */
  receive(raw: IncomingMessage, response: ServerResponse, route: () => void): void {
    this.connections.receive(raw, response, route);
  }

  open(request: FastifyRequest, reply: FastifyReply): RequestContext {
    return new RequestContext(this.#contextDeps, request, reply);
  }

  /** Also for health checks and paths without a route, which need a sound head, and no credential. */
  async prepare(context: RequestContext, route: Route | undefined): Promise<void> {
    const { raw } = context;
    requireFewHeaders(raw);
    requireHost(raw);
    requireChunkedAlone(raw);
    context.atEnd(this.connections.reserveHead(raw));
    if (context.clientAddress.proxy !== undefined) context.atEnd(this.connections.reserve(context.clientAddress));
    if (route === undefined) return;

    if (this.#isStopping) throw new LancegateError('SlowDown', 'the service is stopping', { retryAfterSeconds: 5 });
    const reservation = route.isWrite === true && raw.method === 'POST' ? await this.#turnOfWrite(context) : undefined;
    const principal = await (reservation?.principal ?? this.#deps.authenticator.authenticate(credentialsIn(raw)));
    if (principal.vouchedBy !== undefined) context.sayProcessing();
    const identified = context.identify(principal, route);
    const database = await this.#deps.databases.of(raw);
    identified.access.showIn(database);
    const input = { ...identified, database };
    const prepared = route.prepare(input);
    input.scope.signal.throwIfAborted(); // a timeout of 0 has passed
    // A body of unknown length is counted as it comes.
    const maxBytes = this.#maxBytes[prepared.body];
    if (maxBytes !== undefined && Number(raw.headers['content-length'] ?? 0) > maxBytes) throw bodyTooLarge(maxBytes);
    const request = { context, principal, prepared, reservation, signal: input.scope.signal };
    const isAllowed = prepared.ask === undefined || principal.vouchedBy !== undefined; // here, or where it came from
    const { forwarding } = this.#deps;
    const owner = isAllowed ? await forwarding?.elsewhere(prepared, request) : undefined;
    context.handler =
      owner === undefined || forwarding === undefined
        ? this.#answersHere(request)
        : this.#answersElsewhere(request, owner, forwarding);
  }

  /**
   * While no write of any principal to any table could be admitted, it refuses writes before the verifiers spend time on them, and says
   * only that the service is busy; so the answer to a wrong token is 503 instead of 401 while the service is full. Where only a
   * principal has its share (P10), it refuses that principal alone. The admission, behind the policy, refuses for the share of a table:
   * only principals that may write there learn of it.
   *
   * Writes get their turns a few at a time, the paths in rotation. A commit answers hundreds of clients at once, and their next requests
   * would hold the event loop for as long as all of them take; like this, reads, refusals and writes to other tables wait for a
   * few of them only. The time that it takes, a fraction of a second, is not in the time that a request asks for.
   */
  async #turnOfWrite(context: RequestContext): Promise<Reservation | undefined> {
    const { raw } = context;
    const { 'content-encoding': coding, 'content-length': length } = raw.headers;
    const isBrief = coding === undefined && length !== undefined && canBeForgotten(raw, 0);
    const reservation = isBrief ? await this.#reserve(context) : undefined;
    await new Promise<void>((resolve) => this.#turns.add(splitTarget(context.target).path, resolve));
    if (raw.destroyed) throw invalidInput('the client closed the connection before it was answered');
    return reservation;
  }

  async #reserve(context: RequestContext): Promise<Reservation> {
    context.paced(() => this.#admission.requireCapacity());
    const principal = this.#deps.authenticator.authenticate(credentialsIn(context.raw));
    // Without a valid credential it gets its turn all the same, and is refused then.
    const known = await principal.catch(() => undefined);
    if (known !== undefined) context.accessOf(known);
    const release = context.paced(() => this.#admission.reserveWrite(known));
    context.atEnd(release);
    return { principal, release };
  }

  /** Admits the request, and returns what answers it. */
  #answersHere(request: ReadyRequest): () => Promise<Answer> {
    const { context, principal, prepared, reservation } = request;
    const permit = announcesBody(context.raw) ? this.#admit(context, principal, prepared, reservation) : undefined;
    const keepPermit = permit === undefined ? undefined : context.atEnd(permit.release);
    return async () => {
      keepPermit?.(); // work that has begun may outlive its client; it releases the permit when it is done
      try {
        return await this.#answer(request, this.#upload(request, permit));
      } finally {
        permit?.release();
      }
    };
  }

  #admit(context: RequestContext, principal: Principal, prepared: PreparedRequest, reservation?: Reservation): Permit {
    reservation?.release(); // the permit takes its place
    const { 'content-type': type, 'content-encoding': coding } = context.raw.headers;
    const permit = context.paced(() =>
      this.#admission.admit({
        principal,
        table: prepared.table,
        body: prepared.body,
        declaredBytes: declaredBytes(context.raw),
        decoderBytes: decoderBytes(coding) + conversionBytes(type),
      }),
    );
    const endUpload = this.#deps.metrics.uploadStarted();
    const endReceiving = (): void => {
      permit.endReceiving();
      endUpload();
    };
    context.body.onEnd(endReceiving);
    context.atEnd(endReceiving);
    return permit;
  }

  #upload({ context, principal, prepared, signal }: ReadyRequest, permit: Permit | undefined): Upload {
    const { raw, body } = context;
    const { maxMergeBytes, maxJsonBytes } = this.#deps.config;
    const coding = raw.headers['content-encoding'];
    const decoded = (isUsedAtOnce: boolean): AsyncIterable<Uint8Array> =>
      contentDecoder(coding)(body.read(signal, isUsedAtOnce), (run) => void context.atEnd(run));
    const account = permit?.account ?? this.#deps.memory.open();
    const parts = {
      limits: this.#deps.ipcLimits,
      account,
      expectedBytes: declaredBytes(raw),
      schemas: this.#schemas,
    };
    const open = (bytes: AsyncIterable<Uint8Array>, format: RowFormat | undefined) =>
      new ArrowSource(bytes, {
        ...parts,
        conversion: format && this.#deps.conversions.open(format, this.#maxBytes[prepared.body]),
      });
    /** Opens one of several sources. Its length is not known, only the most that it may have. */
    const openPart = (bytes: AsyncIterable<Uint8Array>, maxBytes: number) => {
      const maxWholeBytes = Math.min(parts.limits.maxWholeBytes, maxBytes);
      return new ArrowSource(bytes, { ...parts, limits: { ...parts.limits, maxWholeBytes }, expectedBytes: undefined });
    };
    const turnOf = (text: string): Promise<string> => this.#largeTexts.turnOf(text, principal, signal);
    return {
      text: async () => turnOf(await readText(decoded(false), maxJsonBytes)),
      source: (format) => open(decoded(coding === undefined), format),
      digestedSource: (format) => {
        const digest = new BodyDigest(decoded(coding === undefined), this.#maxBytes[prepared.body]);
        return { source: open(digest.bytes(), format), digest: () => digest.whole() };
      },
      parts: (boundary) =>
        new MultipartUpload(decoded(coding === undefined), {
          boundary,
          maxBytes: Math.min(declaredBytes(raw) ?? maxMergeBytes, maxMergeBytes),
          maxTextBytes: maxJsonBytes,
          account,
          open: openPart,
          turnOf,
        }),
    };
  }

  /** Looks for the owner only now, where the policy is asked of the body; asks the other replicas too, where each knows a part. */
  #answer(request: ReadyRequest, upload: Upload): Promise<Answer> {
    const { context, principal, prepared, signal } = request;
    const { forwarding } = this.#deps;
    const { everywhere, ask } = prepared;
    if (forwarding === undefined || principal.vouchedBy !== undefined) return prepared.answer(upload);
    if (ask !== undefined && prepared.owned !== undefined) return this.#answerAllowed(request, ask(upload), forwarding);
    if (everywhere === undefined) return prepared.answer(upload);
    const text = upload.text();
    return everywhere(
      () => prepared.answer({ ...upload, text: () => text }),
      async () => forwarding.askOthers({ ...headOf(context), principal, signal }, await text),
    );
  }

  /** The policy had to be asked about the body of this request, so no other replica has heard of it. */
  async #answerAllowed(
    { context, principal, prepared, signal }: ReadyRequest,
    asking: Promise<AllowedRequest>,
    forwarding: NonNullable<HttpDeps['forwarding']>,
  ): Promise<Answer> {
    const { text, answer } = await asking;
    const owner = await forwarding.elsewhere(prepared, { principal, signal });
    if (owner === undefined) return answer();
    const forwarded = withText({ ...headOf(context), principal, signal }, text);
    return (await forwarding.forward(forwarded, prepared, owner)) ?? answer();
  }

  /** The owner of the table admits the request. */
  #answersElsewhere(
    request: ReadyRequest,
    owner: ReplicaAddress,
    forwarding: NonNullable<HttpDeps['forwarding']>,
  ): () => Promise<Answer> {
    const { context, principal, prepared, reservation, signal } = request;
    const { raw, body } = context;
    reservation?.release();
    return async () => {
      const sentBody = announcesBody(raw) ? body.read(signal, false) : undefined;
      const forwarded = { ...headOf(context), body: sentBody, principal, signal };
      const answer = await forwarding.forward(forwarded, prepared, owner);
      return answer ?? this.#answersHere({ ...request, reservation: undefined })();
    };
  }
}

/** What of a request goes on to another replica. */
const headOf = ({ raw, target }: RequestContext) => ({
  method: raw.method ?? 'POST',
  target,
  rawHeaders: raw.rawHeaders,
  peer: raw.socket.remoteAddress ?? 'unknown',
});
