/**
 * All connections of the service, from the moment they are accepted: how many there may be, whose they are, and how long one
 * may be there for nothing (P7, P10, P12).
 *
 * One address has a share of them; what it opens beyond is closed at once. A trusted proxy speaks for many, so its
 * connections are not limited, but the requests under way that it reports for one address are. Where all connections are taken,
 * the one that has waited longest for a request gives way, first among those that never sent one: so clients that open
 * connections and say nothing keep nobody out, from however many addresses they come.
 *
 * A connection is either waiting for a request, or one request of it is under way; what is pipelined behind waits until that
 * one has its answer, and is not looked at. Node and the request itself end most of what takes too long, and tell the client. This
 * looks at all connections every half second, and ends those that are still there although nobody works for them: clients
 * that neither close nor read, whatever they were told.
 *
 * Costs a look at each connection every half second, 0.2 ms for 4,096, and a closure for each request.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Clock } from '../kernel/clock.ts';
import { LancegateError } from '../kernel/errors.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { ConnectionEnd, Metrics } from '../telemetry/metrics.ts';
import type { ClientAddress, ClientAddresses } from './client-address.ts';
import type { HttpConfig } from './http-config.ts';

/** A socket of `node:net`, as far as it is looked at. */
export type ClientSocket = Pick<
  Duplex,
  'destroy' | 'destroyed' | 'end' | 'once' | 'on' | 'writable' | 'writableLength'
> & {
  readonly remoteAddress?: string | undefined;
};

export interface ConnectionParts {
  readonly config: Pick<
    HttpConfig,
    'maxConnections' | 'addressShare' | 'requestHeaderTimeoutMs' | 'keepAliveTimeoutMs' | 'uploadIdleTimeoutMs'
  >;
  readonly clientAddresses: Pick<ClientAddresses, 'peer' | 'isTrusted'>;
  readonly clock: Clock;
  readonly logger: Pick<Logger, 'warn'>;
  readonly metrics: Pick<Metrics, 'connectionEnded'>;
}

interface Pipelined {
  readonly raw: IncomingMessage;
  readonly response: ServerResponse;
  readonly letIn: () => void;
}

interface Connection {
  readonly socket: ClientSocket;
  readonly client: ClientAddress;
  /** The request under way. */
  current: Pipelined | undefined;
  /** Requests that came before `current` was answered. */
  readonly behind: Pipelined[];
  /** Since there is no request under way. */
  waitingSinceMs: number;
  /** Of the last request, if its body had not come when it was answered. */
  unfinished: IncomingMessage | undefined;
  /** When the answer to `current` was first seen to be complete on our side. */
  answeredAtMs: number | undefined;
}

const lookEveryMs = 500;
const lookEveryMsWhenStopping = 50;
/** A client that was told something has this long to read it and close, and one that just connected to say something. */
const lingerMs = 1_000;
/** No client of tables pipelines at all; whoever does must repeat what is not answered (RFC 9112, 9.3.2). */
const maxPipelined = 16;
/** Slower than this, a client is taken to be holding on to its answer on purpose; the same rate as for bodies. */
const slowestBytesPerMs = 1;
/** Answers that lie here since their clients do not take them, all together. */
const maxUnreadBytes = 64 * 2 ** 20;
const logEveryMs = 10_000;

export class Connections {
  readonly #parts: ConnectionParts;
  readonly #maxPerAddress: number;
  readonly #open = new Map<ClientSocket, Connection>();
  /** Those that wait for their first request, and those that wait for another: who waits longest comes first. */
  readonly #silent = new Set<Connection>();
  readonly #idle = new Set<Connection>();
  readonly #perAddress = new Map<string, number>();
  readonly #reportedRequests = new Map<string, number>();
  readonly #unlogged = new Map<ConnectionEnd, { count: number; address: string }>();
  #loggedAtMs = Number.NEGATIVE_INFINITY;
  #isStopping = false;
  #cancelLook: (() => void) | undefined;

  constructor(parts: ConnectionParts) {
    const { maxConnections, addressShare } = parts.config;
    this.#parts = parts;
    const isShared = addressShare < 1;
    this.#maxPerAddress = isShared ? Math.max(1, Math.floor(maxConnections * addressShare)) : Number.POSITIVE_INFINITY;
  }

  get count(): number {
    return this.#open.size;
  }

  /** Every connection comes here first; one that may not stay hears nothing. */
  open(socket: ClientSocket): void {
    const client = this.#parts.clientAddresses.peer(socket);
    const refusal = this.#refusalOf(client);
    if (refusal !== undefined) {
      socket.destroy();
      this.#note(refusal, client);
      return;
    }
    const waitingSinceMs = this.#parts.clock.nowMs();
    const unknown = { current: undefined, unfinished: undefined, answeredAtMs: undefined };
    const connection: Connection = { socket, client, behind: [], waitingSinceMs, ...unknown };
    this.#open.set(socket, connection);
    this.#silent.add(connection);
    add(this.#perAddress, client.sharer, 1);
    socket.once('close', () => this.#forget(connection));
    this.#lookLater();
  }

  /** `letIn` is called when all earlier requests of the connection have been answered; never, if it ends before. */
  receive(raw: IncomingMessage, response: ServerResponse, letIn: () => void): void {
    const connection = this.#open.get(raw.socket);
    if (connection === undefined || raw.socket.destroyed) return;
    const request = { raw, response, letIn };
    if (connection.current === undefined) this.#begin(connection, request);
    else if (connection.behind.length < maxPipelined) connection.behind.push(request);
    else this.#end(connection, 'pipelined');
  }

  /**
   * A request that a trusted proxy reports for a client. What it returns ends it. `SlowDown` where the client has its
   * share of requests under way.
   */
  enter({ sharer }: ClientAddress): () => void {
    const underWay = this.#reportedRequests.get(sharer) ?? 0;
    if (underWay >= this.#maxPerAddress) {
      throw new LancegateError('SlowDown', 'the address of the client has its share of requests under way');
    }
    add(this.#reportedRequests, sharer, 1);
    return () => add(this.#reportedRequests, sharer, -1);
  }

  /**
   * Whether what is wrong with the bytes of a connection may be said to its client: they would take it for the answer to
   * another request that is under way.
   */
  canBeTold(socket: ClientSocket): boolean {
    const current = this.#open.get(socket)?.current;
    return socket.writable && (current === undefined || (!current.raw.complete && !current.response.headersSent));
  }

  /** Sends the last words, and sees to it that the connection ends, whether or not they are read. */
  dismiss(socket: ClientSocket, lastWords: string): void {
    socket.end(lastWords);
    socket.once(
      'close',
      this.#parts.clock.schedule(lingerMs, () => socket.destroy()),
    );
  }

  /** From now on connections that wait for a request end as soon as no request is under way. */
  stop(): void {
    this.#isStopping = true;
    this.#cancelLook?.();
    this.#cancelLook = undefined;
    this.#lookLater();
  }

  #refusalOf(client: ClientAddress): ConnectionEnd | undefined {
    const { maxConnections } = this.#parts.config;
    const held = this.#perAddress.get(client.sharer) ?? 0;
    if (held >= this.#maxPerAddress && !this.#parts.clientAddresses.isTrusted(client)) return 'address_share';
    if (this.#open.size < maxConnections) return undefined;
    const longest = this.#longestWaiting();
    if (longest === undefined) return 'all_taken';
    this.#end(longest, 'gave_way');
    return undefined;
  }

  /** Not one that came a moment ago: what it wants to say may be on its way. */
  #longestWaiting(): Connection | undefined {
    const latestMs = this.#parts.clock.nowMs() - lingerMs;
    for (const waiting of [this.#silent, this.#idle]) {
      const [first] = waiting;
      if (first !== undefined && first.waitingSinceMs <= latestMs) return first;
    }
    return undefined;
  }

  #begin(connection: Connection, request: Pipelined): void {
    this.#silent.delete(connection);
    this.#idle.delete(connection);
    connection.current = request;
    connection.answeredAtMs = undefined;
    connection.unfinished = undefined;
    request.response.once('close', () => this.#answered(connection, request));
    request.letIn();
  }

  /** Or cut off. */
  #answered(connection: Connection, { raw }: Pipelined): void {
    connection.current = undefined;
    if (!this.#open.has(connection.socket)) return;
    const next = connection.behind.shift();
    if (next !== undefined) {
      this.#begin(connection, next);
      return;
    }
    connection.unfinished = raw.complete ? undefined : raw;
    connection.waitingSinceMs = this.#parts.clock.nowMs();
    this.#idle.add(connection);
  }

  #forget(connection: Connection): void {
    if (!this.#open.delete(connection.socket)) return;
    this.#silent.delete(connection);
    this.#idle.delete(connection);
    connection.behind.length = 0;
    add(this.#perAddress, connection.client.sharer, -1);
  }

  #end(connection: Connection, reason: ConnectionEnd): void {
    connection.socket.destroy();
    this.#forget(connection);
    this.#note(reason, connection.client);
  }

  #lookLater(): void {
    if (this.#open.size === 0) return;
    const afterMs = this.#isStopping ? lookEveryMsWhenStopping : lookEveryMs;
    this.#cancelLook ??= this.#parts.clock.schedule(afterMs, () => {
      this.#cancelLook = undefined;
      this.#look();
      this.#lookLater();
    });
  }

  #look(): void {
    const nowMs = this.#parts.clock.nowMs();
    let unreadBytes = 0;
    let isAnyUnderWay = false;
    for (const connection of this.#open.values()) {
      const reason = this.#overdue(connection, nowMs);
      if (reason !== undefined) this.#end(connection, reason);
      else if (connection.answeredAtMs !== undefined) unreadBytes += connection.socket.writableLength;
      else if (connection.current !== undefined) isAnyUnderWay = true;
    }
    if (unreadBytes > maxUnreadBytes) this.#endUnread(unreadBytes);
    if (this.#isStopping && !isAnyUnderWay) this.#endWaiting(nowMs);
    this.#log(nowMs);
  }

  #overdue(connection: Connection, nowMs: number): ConnectionEnd | undefined {
    const { uploadIdleTimeoutMs } = this.#parts.config;
    if (connection.current === undefined) {
      return nowMs - connection.waitingSinceMs > this.#longestWaitMs(connection) ? 'silent' : undefined;
    }
    if (!isAnswered(connection.current)) return undefined;
    connection.answeredAtMs ??= nowMs;
    const allowedMs = uploadIdleTimeoutMs + connection.socket.writableLength / slowestBytesPerMs;
    return nowMs - connection.answeredAtMs > allowedMs ? 'unread' : undefined;
  }

  /** Node's own times for the headers, and until they begin, are over by then, and what it says is said. */
  #longestWaitMs(connection: Connection): number {
    const { uploadIdleTimeoutMs, requestHeaderTimeoutMs, keepAliveTimeoutMs } = this.#parts.config;
    if (connection.unfinished?.complete === true) connection.unfinished = undefined;
    if (connection.unfinished !== undefined) return uploadIdleTimeoutMs;
    return requestHeaderTimeoutMs + lingerMs + (this.#silent.has(connection) ? 0 : keepAliveTimeoutMs);
  }

  /** The largest first. Answers are made faster than clients take them, if those mean it. */
  #endUnread(unreadBytes: number): void {
    let leftBytes = unreadBytes;
    const unread = [...this.#open.values()].filter(({ answeredAtMs }) => answeredAtMs !== undefined);
    for (const connection of unread.toSorted((a, b) => b.socket.writableLength - a.socket.writableLength)) {
      if (leftBytes <= maxUnreadBytes) return;
      leftBytes -= connection.socket.writableLength;
      this.#end(connection, 'unread');
    }
  }

  /** The service stops, and nobody's request is under way any more. Who is still being answered has a moment to read it. */
  #endWaiting(nowMs: number): void {
    for (const { socket, answeredAtMs } of this.#open.values()) {
      if (answeredAtMs === undefined || nowMs - answeredAtMs > lingerMs) socket.destroy();
    }
  }

  #note(reason: ConnectionEnd, { address }: ClientAddress): void {
    this.#parts.metrics.connectionEnded(reason);
    this.#unlogged.set(reason, { count: (this.#unlogged.get(reason)?.count ?? 0) + 1, address });
    this.#log(this.#parts.clock.nowMs());
  }

  /** One line for each reason every ten seconds, however many connections it is about. */
  #log(nowMs: number): void {
    if (nowMs - this.#loggedAtMs < logEveryMs || this.#unlogged.size === 0) return;
    for (const [reason, { count, address }] of this.#unlogged) {
      const fields = { reason, count, address, open: this.#open.size };
      this.#parts.logger.warn(fields, 'connections were closed; the address is that of the last');
    }
    this.#unlogged.clear();
    this.#loggedAtMs = nowMs;
  }
}

/** Wholly, or before its body came: then what still comes of that is only taken so that the answer can be read. */
const isAnswered = ({ raw, response }: Pipelined): boolean =>
  response.writableEnded || (response.headersSent && !raw.complete);

function add(counts: Map<string, number>, key: string, by: 1 | -1): void {
  const count = (counts.get(key) ?? 0) + by;
  if (count === 0) counts.delete(key);
  else counts.set(key, count);
}
