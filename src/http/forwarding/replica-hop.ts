/**
 * The hop between replicas: a request that only the owner of its table can answer goes on to that replica, and the answer
 * comes back (docs/design/ownership.md). There is one hop: a replica that gets such a request and does not own the table refuses it (421).
 *
 * The body flows from the client to the owner, and neither of the two replicas waits for the whole. It begins to flow when the
 * owner has admitted the request (`100 Continue`). Until then nothing was written, so the request can be sent again, to another
 * owner too. Once the whole body has left, only the owner knows what was written.
 *
 * Packets may get lost without a word. So the owner says each second that it has the request (`say-processing.ts`), however long that
 * takes, and this replica gives up one that it does not hear.
 */
import { once } from 'node:events';
import { Agent, type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest, Agent as TlsAgent } from 'node:https';
import { LRUCache } from 'lru-cache';
import type { ForwardedAnswer } from '../../endpoint/route.ts';
import type { Clock } from '../../kernel/clock.ts';
import { LancegateError } from '../../kernel/errors.ts';
import { onAbort, type Principal } from '../../kernel/request-scope.ts';
import type { ReplicaAddress } from '../../table/table-owners.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { answeredHeaders, forwardedHeaders, replicaOf } from './forwarded-headers.ts';

export interface ForwardedRequest {
  readonly method: string;
  /** The client sent path and query so. */
  readonly target: string;
  /** Names and values in turns, as the client sent them. */
  readonly rawHeaders: readonly string[];
  /** The other end of the client's connection. */
  readonly peer: string;
  /** As it comes over the network; undefined where the request announces none. */
  readonly body: AsyncIterable<Uint8Array> | undefined;
  readonly principal: Principal;
  /** An owner has not taken it before. Kept connections may lead nowhere by now, so it gets one of its own. */
  readonly isRepeated?: boolean;
  /** Aborts with a `LancegateError`: `TimedOut`, or another one where the client has left. */
  readonly signal: AbortSignal;
}

/** The owner has not taken the request, and nothing was written: it may be sent again. */
export class NotTaken extends Error {
  override readonly name = 'NotTaken';
}

/** Why an exchange with an owner ended before its answer; `NotTaken` or `OwnerLost` comes of it. */
export class ExchangeEnded extends Error {
  override readonly name = 'ExchangeEnded';
}

interface HopDeps {
  /** Makes a token by which a replica, the audience, knows the principal. */
  readonly sign: (principal: Principal, audience: string) => Promise<string>;
  readonly clock: Clock;
  readonly logger: Pick<Logger, 'info' | 'warn'>;
  /** These certificates (PEM) vouch for the other replicas; those that Node trusts if undefined. */
  readonly ca?: string | undefined;
}

/** The most connections to one replica. Further requests wait for one. */
const maxSockets = 512;

export class ReplicaHop {
  readonly #deps: HopDeps;
  readonly #peers: LostPeers;
  readonly #agents = {
    http: new Agent({ keepAlive: true, maxSockets }),
    https: new TlsAgent({ keepAlive: true, maxSockets }),
  };

  constructor(deps: HopDeps) {
    this.#deps = deps;
    this.#peers = new LostPeers(deps.logger);
  }

  /**
   * The owner's answer, also where that is a refusal. Throws `NotTaken`; `SlowDown` or the signal's reason where the body was cut
   * off, and nothing was written; `OwnerLost` where that is not known.
   */
  async forward(request: ForwardedRequest, owner: ReplicaAddress): Promise<ForwardedAnswer> {
    const token = await this.#deps.sign(request.principal, owner.id);
    const outgoing = this.#open(request, owner, token);
    return new Exchange(outgoing, request, owner, { clock: this.#deps.clock, peers: this.#peers }).answer();
  }

  close(): void {
    this.#agents.http.destroy();
    this.#agents.https.destroy();
  }

  #open(request: ForwardedRequest, owner: ReplicaAddress, token: string): ClientRequest {
    const { method, target, body, isRepeated = false } = request;
    const { isSecure, host, port } = replicaOf(owner.address);
    const send = isSecure ? httpsRequest : httpRequest;
    const agent = isSecure ? this.#agents.https : this.#agents.http;
    const outgoing = send({
      host,
      port,
      method,
      path: target,
      headers: forwardedHeaders(request, token),
      // Without a body, a kept connection that has just ended looks like an owner that ended at work.
      agent: body === undefined || isRepeated ? false : agent,
      ...(isSecure && { ca: this.#deps.ca, minVersion: 'TLSv1.2' as const }),
    });
    // Linux probes a connection that has been idle for so long, each second, and ends it after ten lost probes.
    outgoing.setSocketKeepAlive(true, 1_000);
    return outgoing;
  }
}

/** What of the request the owner has: nothing that it may act on, a part of the body, or all of it. */
type Taken = 'nothing' | 'part' | 'all';

interface ExchangeParts {
  readonly clock: Clock;
  readonly peers: LostPeers;
}

/** One request to the owner, and the answer. */
class Exchange {
  readonly #outgoing: ClientRequest;
  readonly #request: ForwardedRequest;
  readonly #owner: ReplicaAddress;
  readonly #peers: LostPeers;
  readonly #response: Promise<IncomingMessage>;
  readonly #silence: Timer;
  readonly #overtime: Timer;
  #taken: Taken = 'nothing';
  /** The owner was heard to say that it has the request. A proxy between the replicas may swallow that. */
  #saysProcessing = false;

  constructor(
    outgoing: ClientRequest,
    request: ForwardedRequest,
    owner: ReplicaAddress,
    { clock, peers }: ExchangeParts,
  ) {
    this.#owner = owner;
    this.#peers = peers;
    this.#outgoing = outgoing;
    this.#request = request;
    this.#response = responseTo(outgoing);
    this.#silence = new Timer(clock, () => outgoing.destroy(new ExchangeEnded('the owner is silent')));
    this.#overtime = new Timer(clock, () => outgoing.destroy(new ExchangeEnded('the owner did not answer in time')));
  }

  async answer(): Promise<ForwardedAnswer> {
    const stopListening = onAbort(this.#request.signal, () => this.#abort());
    this.#listen();
    try {
      await this.#send();
      const response = await this.#response;
      requireTaken(response);
      const text = await textOf(response);
      this.#peers.heard(this.#owner);
      const { statusCode: status = 500, headers } = response;
      return { status, headers: answeredHeaders(headers), text, audit: { forwardedTo: this.#owner.id } };
    } catch (error) {
      throw this.#failureOf(error);
    } finally {
      stopListening();
      this.#silence.stop();
      this.#overtime.stop();
      // A connection on which a part of a request is missing cannot be used again.
      if (!this.#outgoing.writableFinished) this.#outgoing.destroy();
    }
  }

  /** The wait for a connection, of which there are so many, is no silence of the owner. */
  #listen(): void {
    this.#outgoing.once('socket', () => this.#heard());
    this.#outgoing.once('response', () => this.#heard());
    this.#outgoing.on('information', ({ statusCode }) => {
      if (statusCode === 102) this.#saysProcessing = true;
      this.#heard();
    });
  }

  #heard(): void {
    // An owner that has said nothing for so long has nothing that it could act on, and to ask again costs little.
    if (this.#taken === 'nothing') this.#silence.start(3_000);
    // The outcome of what it has is not known without it, so it has longer.
    else if (this.#saysProcessing) this.#silence.start(10_000);
    else this.#silence.stop();
  }

  /** Ends when the whole request has left, or when the owner has answered before. */
  async #send(): Promise<void> {
    const { body } = this.#request;
    if (body === undefined) {
      this.#outgoing.once('socket', (socket) => socket.once('connect', () => this.#taking('all')));
      this.#outgoing.end();
      return;
    }
    const isAdmitted = once(this.#outgoing, 'continue').then(() => true);
    this.#outgoing.flushHeaders();
    if (await Promise.race([isAdmitted, this.#response.then(() => false)])) {
      this.#taking('part');
      await Promise.race([this.#sendBody(body), this.#response]);
    }
  }

  /** A body of a known length is whole for the owner with its last byte, before the request ends. */
  async #sendBody(body: AsyncIterable<Uint8Array>): Promise<void> {
    let leftBytes = Number(this.#outgoing.getHeader('content-length') ?? Number.POSITIVE_INFINITY);
    for await (const chunk of body) {
      if (this.#outgoing.destroyed) return;
      leftBytes -= chunk.length;
      if (leftBytes <= 0) this.#taking('all');
      if (!this.#outgoing.write(chunk)) await Promise.race([once(this.#outgoing, 'drain'), this.#response]);
    }
    this.#taking('all');
    this.#outgoing.end();
  }

  #taking(taken: Taken): void {
    this.#taken = taken;
    this.#heard();
  }

  /** Past its deadline a request that the owner has is the owner's to end, for a while. */
  #abort(): void {
    const { signal } = this.#request;
    const reason: unknown = signal.reason;
    const isDeadline = reason instanceof LancegateError && reason.kind === 'TimedOut';
    // Past the deadline of a request only a commit that has begun goes on.
    if (isDeadline && this.#taken === 'all') this.#overtime.start(30_000);
    else this.#outgoing.destroy(reason instanceof Error ? reason : undefined);
  }

  #failureOf(error: unknown): unknown {
    if (error instanceof NotTaken) this.#peers.heard(this.#owner); // it has answered
    if (error instanceof NotTaken || error instanceof LancegateError) return error;
    this.#peers.lost(this.#owner, error);
    switch (this.#taken) {
      case 'nothing':
        return new NotTaken('the owner cannot be reached', { cause: error });
      case 'part':
        return new LancegateError(
          'SlowDown',
          'the owner of the table ended before it had the body; nothing was written',
          {
            cause: error,
            retryAfterSeconds: 1,
          },
        );
      case 'all':
        return new LancegateError(
          'OwnerLost',
          'the replica that owns the table did not answer, and whether the request was carried out is not known',
          { cause: error },
        );
    }
  }
}

/** Rejects where the connection fails first. */
function responseTo(outgoing: ClientRequest): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  outgoing.once('response', resolve);
  outgoing.on('error', reject);
  outgoing.once('close', () => reject(new ExchangeEnded('the owner closed the connection')));
  promise.catch(() => undefined); // `answer` waits for it in its turn, and throws it
  return promise;
}

/**
 * The time runs in two halves: where this process stood still, it looks at its timers before it reads what has arrived. The
 * second half begins then, and gives the owner the time to be heard.
 */
class Timer {
  readonly #clock: Clock;
  readonly #run: () => void;
  #cancel = (): void => undefined;

  constructor(clock: Clock, run: () => void) {
    this.#clock = clock;
    this.#run = run;
  }

  /** Begins anew if it runs already. */
  start(afterMs: number): void {
    this.stop();
    this.#cancel = this.#clock.schedule(afterMs / 2, () => {
      this.#cancel = this.#clock.schedule(afterMs / 2, this.#run);
    });
  }

  stop(): void {
    this.#cancel();
  }
}

/** A replica refuses what it does not own, and a token of a key that it has not seen yet: before it reads the body. */
function requireTaken(response: IncomingMessage): void {
  const { statusCode } = response;
  if (statusCode !== 421 && statusCode !== 401) return;
  response.resume();
  throw new NotTaken(`the replica answered ${statusCode}`);
}

async function textOf(response: IncomingMessage): Promise<string> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of response) {
    if (!(part instanceof Uint8Array)) continue; // it has no encoding
    bytes += part.length;
    // Writes and look-ups of jobs come here, and no rows: their answers are short.
    if (bytes > 8 * 2 ** 20) throw new ExchangeEnded('the answer of the owner is too long');
    parts.push(part);
  }
  if (!response.complete) throw new ExchangeEnded('the answer of the owner was cut off');
  return Buffer.concat(parts).toString();
}

/** Says once of each other replica that it is not reached, and why, until it is heard again. */
class LostPeers {
  readonly #logger: Pick<Logger, 'info' | 'warn'>;
  /** The key is the address, which a replica keeps that is started again. */
  // There are fewer replicas. One that is forgotten is named again.
  readonly #lost = new LRUCache<string, true>({ max: 1_000 });

  constructor(logger: Pick<Logger, 'info' | 'warn'>) {
    this.#logger = logger;
  }

  lost({ id, address }: ReplicaAddress, error: unknown): void {
    if (this.#lost.has(address)) return;
    this.#lost.set(address, true);
    this.#logger.warn({ replica: id, address, error }, 'another replica is not reached, or has broken off its answer');
  }

  heard({ id, address }: ReplicaAddress): void {
    if (!this.#lost.delete(address)) return;
    this.#logger.info({ replica: id, address }, 'another replica is reached again');
  }
}
