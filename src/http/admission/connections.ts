/**
 * All connections of the service, from the moment they are accepted: how many there may be, which addresses have them, and how
 * long one may stay open without use (P7, P10, P12).
 *
 * One address has a share of them; further ones are closed at once. A trusted proxy serves many clients, so its connections are
 * not limited, but the requests under way that it reports for one address are. When all connections are taken, the one that
 * has waited longest is closed for a new one: first among those that never sent a request, then among those whose clients
 * neither send the rest of a refused body nor read their answer, then among idle ones. So clients that open connections and
 * leave them do not exclude other clients, from however many addresses they come.
 *
 * A connection either waits for a request or has one under way; requests pipelined behind it wait, unparsed, for its answer.
 * Node and the request itself end most of what takes too long, with an answer. A check every half second closes the rest:
 * connections without a request under way whose clients neither close nor read.
 *
 * Costs a check of each connection every half second, and a closure for each request.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { LancegateError } from '../../kernel/errors.ts';
import { Quota } from '../../memory/body-memory.ts';
import type { ConnectionEnd } from '../../telemetry/metrics.ts';
import { slowestBytesPerMs } from '../body/request-body.ts';
import type { HttpDeps } from '../http-deps.ts';
import type { ClientAddress, ClientAddresses } from '../request-head.ts';

/** Some events of an HTTP server pass a `Socket` of `node:net` as a `Duplex`. */
type ClientSocket = Duplex & {
  readonly remoteAddress?: string | undefined;
  readonly remotePort?: number | undefined;
  readonly bytesRead?: number;
};

interface ConnectionsParts extends Pick<HttpDeps, 'config' | 'clock' | 'logger' | 'metrics'> {
  readonly clientAddresses: ClientAddresses;
}

interface Pipelined {
  readonly raw: IncomingMessage;
  readonly response: ServerResponse;
  readonly pass: () => void;
}

interface Connection {
  /** With TLS, the one above the other, once the handshake is done. */
  socket: ClientSocket;
  readonly client: ClientAddress;
  current: Pipelined | undefined;
  /** They came before `current` was answered. */
  readonly behind: Pipelined[];
  /** No request is under way since this time. */
  waitingSinceMs: number;
  /** What the socket had received by then. */
  receivedBytes: number;
  /** The last request was answered before its body had arrived; undefined if it was not. */
  unfinished: IncomingMessage | undefined;
  /** The check that first found the answer to `current` complete on our side, and the time its client has from then. */
  answeredAtMs: number | undefined;
  allowedMs: number;
}

export const checkEveryMs = 500;
/** A client has this long to read a last answer and close, and a new connection to send something. */
const lingerMs = 1_000;
/** All answers together that their clients have not read yet. */
const maxUnreadBytes = 64 * 2 ** 20;
/** A head beyond it is long. Of those that have not arrived and of requests under way, connections may hold so much more on average. */
const commonHeadBytes = 16 * 2 ** 10;

export class Connections {
  readonly #parts: ConnectionsParts;
  readonly #maxPerAddress: number;
  readonly #open = new Map<ClientSocket, Connection>();
  /** By the other end, of which the sockets of both layers know: what may still have its handshake before it. */
  readonly #byPeer = new Map<string, Connection>();
  /**
   * Some connections wait for their first request, some have an answer and neither finish their body nor read, and some wait
   * for a further request; the longest wait comes first.
   */
  readonly #silent = new Set<Connection>();
  readonly #lingering = new Set<Connection>();
  readonly #idle = new Set<Connection>();
  readonly #perAddress = new Map<string, number>();
  readonly #reportedRequests = new Map<string, number>();
  readonly #unlogged = new Map<ConnectionEnd, { count: number; address: string }>();
  readonly #longHeads: Quota;
  #loggedAtMs = Number.NEGATIVE_INFINITY;
  #isStopping = false;
  #cancelCheck: (() => void) | undefined;

  constructor(parts: ConnectionsParts) {
    const { maxConnections, addressShare } = parts.config;
    this.#parts = parts;
    this.#longHeads = new Quota(Math.max(256 * 2 ** 10, maxConnections * 8 * 2 ** 10), 'bytes in heads of requests');
    const isShared = addressShare < 1;
    this.#maxPerAddress = isShared ? Math.max(1, Math.floor(maxConnections * addressShare)) : Number.POSITIVE_INFINITY;
  }

  get count(): number {
    return this.#open.size;
  }

  /** Counts a new connection, or closes it without an answer. */
  open(socket: ClientSocket): void {
    const client = this.#parts.clientAddresses.peer(socket);
    const refusal = this.#refusalOf(client);
    if (refusal !== undefined) {
      socket.destroy();
      this.#note(refusal, client);
      return;
    }
    const connection: Connection = {
      socket,
      client,
      current: undefined,
      behind: [],
      waitingSinceMs: this.#parts.clock.nowMs(),
      receivedBytes: 0,
      unfinished: undefined,
      answeredAtMs: undefined,
      allowedMs: 0,
    };
    this.#open.set(socket, connection);
    this.#silent.add(connection);
    add(this.#perAddress, client.sharer, 1);
    const peer = peerOf(socket);
    this.#byPeer.set(peer, connection);
    socket.once('close', () => {
      if (this.#byPeer.get(peer) === connection) this.#byPeer.delete(peer);
      this.#forget(connection);
    });
    this.#checkLater();
  }

  /** The handshake of a connection is done: its requests come from this socket. */
  secured(socket: ClientSocket): void {
    const connection = this.#byPeer.get(peerOf(socket));
    if (connection === undefined || !this.#open.delete(connection.socket)) {
      socket.destroy();
      return;
    }
    connection.socket = socket;
    this.#open.set(socket, connection);
  }

  /** The handshake took too long, or was none. A client that only closed is not counted: probes of a port do that. */
  failedHandshake(socket: ClientSocket, { code }: NodeJS.ErrnoException): void {
    const address = this.#byPeer.get(peerOf(socket))?.client.address ?? 'unknown'; // Node forgets it with the socket
    socket.destroy();
    if (code !== 'ECONNRESET') this.#note('handshake', { address });
  }

  /** Calls `pass` when all earlier requests of the connection have been answered; never, if the connection ends before. */
  receive(raw: IncomingMessage, response: ServerResponse, pass: () => void): void {
    const connection = this.#open.get(raw.socket);
    if (connection === undefined || raw.socket.destroyed) return;
    const request = { raw, response, pass };
    if (connection.current === undefined) this.#begin(connection, request);
    // No client of tables pipelines at all; one that does must repeat unanswered requests (RFC 9112, 9.3.2).
    else if (connection.behind.length < 16) connection.behind.push(request);
    else this.#end(connection, 'pipelined');
  }

  /** Counts the head of a request under way, until the returned function is called. `SlowDown` if long ones take too much. */
  reserveHead(raw: IncomingMessage): () => void {
    const bytes = longHeadBytesOf(raw);
    if (bytes === 0) return () => undefined;
    this.#longHeads.take(bytes, []);
    return () => this.#longHeads.giveBack(bytes, []);
  }

  /**
   * Counts a request that a trusted proxy reports for a client, until the returned function is called. `SlowDown` if the client
   * has its share of requests under way.
   */
  reserve({ sharer }: ClientAddress): () => void {
    const underWay = this.#reportedRequests.get(sharer) ?? 0;
    if (underWay >= this.#maxPerAddress) {
      throw new LancegateError('SlowDown', 'the address of the client has its share of requests under way');
    }
    add(this.#reportedRequests, sharer, 1);
    return () => add(this.#reportedRequests, sharer, -1);
  }

  /**
   * Sends a last answer and closes the connection soon after, whether or not the client reads it. Closes it at once while another
   * request is under way, since the client would take this answer for the answer to that one. Node calls again for what still comes: it
   * is dropped, since the kernel resets a connection that is closed with bytes unread, and the client would not see the answer.
   */
  dismiss(socket: ClientSocket, lastAnswer: string): void {
    if (socket.writableEnded) return;
    const current = this.#open.get(socket)?.current;
    const isOfAnother = current !== undefined && (current.raw.complete || current.response.headersSent);
    if (isOfAnother || !socket.writable) {
      socket.destroy();
      return;
    }
    socket.end(lastAnswer);
    socket.once(
      'close',
      this.#parts.clock.schedule(lingerMs, () => socket.destroy()),
    );
  }

  /** From now on, connections that wait for a request are closed as soon as no request is under way. */
  stop(): void {
    this.#isStopping = true;
    this.#cancelCheck?.();
    this.#cancelCheck = undefined;
    this.#checkLater();
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

  /** Excludes new connections: their request may be on its way. */
  #longestWaiting(): Connection | undefined {
    const latestMs = this.#parts.clock.nowMs() - lingerMs;
    for (const waiting of [this.#silent, this.#lingering, this.#idle]) {
      const [first] = waiting;
      if (first !== undefined && (first.answeredAtMs ?? first.waitingSinceMs) <= latestMs) return first;
    }
    return undefined;
  }

  #begin(connection: Connection, request: Pipelined): void {
    this.#silent.delete(connection);
    this.#idle.delete(connection);
    connection.current = request;
    connection.unfinished = undefined;
    request.response.once('close', () => this.#answered(connection, request));
    request.pass();
  }

  /** Also after an answer that was cut off. */
  #answered(connection: Connection, { raw }: Pipelined): void {
    connection.current = undefined;
    connection.answeredAtMs = undefined;
    this.#lingering.delete(connection);
    if (!this.#open.has(connection.socket)) return;
    const next = connection.behind.shift();
    if (next !== undefined) {
      this.#begin(connection, next);
      return;
    }
    connection.unfinished = raw.complete ? undefined : raw;
    connection.waitingSinceMs = this.#parts.clock.nowMs();
    connection.receivedBytes = connection.socket.bytesRead ?? 0;
    this.#idle.add(connection);
  }

  #forget(connection: Connection): void {
    if (!this.#open.delete(connection.socket)) return;
    this.#silent.delete(connection);
    this.#lingering.delete(connection);
    this.#idle.delete(connection);
    connection.behind.length = 0;
    add(this.#perAddress, connection.client.sharer, -1);
  }

  #end(connection: Connection, reason: ConnectionEnd): void {
    connection.socket.destroy();
    this.#forget(connection);
    this.#note(reason, connection.client);
  }

  #checkLater(): void {
    if (this.#open.size === 0) return;
    const afterMs = this.#isStopping ? 50 : checkEveryMs;
    this.#cancelCheck ??= this.#parts.clock.schedule(afterMs, () => {
      this.#cancelCheck = undefined;
      this.#check();
      this.#checkLater();
    });
  }

  #check(): void {
    const nowMs = this.#parts.clock.nowMs();
    let unreadBytes = 0;
    let longHeadBytes = this.#longHeads.held;
    let isAnyUnderWay = false;
    for (const connection of this.#open.values()) {
      const reason = this.#overdue(connection, nowMs);
      if (reason !== undefined) this.#end(connection, reason);
      else if (connection.answeredAtMs !== undefined) unreadBytes += connection.socket.writableLength;
      else if (connection.current !== undefined) isAnyUnderWay = true;
      else longHeadBytes += unfinishedHeadBytes(connection);
    }
    if (longHeadBytes > this.#longHeads.max) this.#endLongHeads(longHeadBytes);
    if (unreadBytes > maxUnreadBytes) this.#endUnread(unreadBytes);
    if (this.#isStopping && !isAnyUnderWay) this.#endWaiting(nowMs);
    this.#log(nowMs);
  }

  #overdue(connection: Connection, nowMs: number): ConnectionEnd | undefined {
    if (connection.current === undefined) {
      return nowMs - connection.waitingSinceMs > this.#longestWaitMs(connection) ? 'silent' : undefined;
    }
    const { raw, response } = connection.current;
    // Answered before its body arrived, the rest of the body is only read so that the client can read the answer.
    const isAnswered = response.writableEnded || (response.headersSent && !raw.complete);
    if (!isAnswered) return undefined;
    if (connection.answeredAtMs === undefined) {
      connection.answeredAtMs = nowMs;
      connection.allowedMs =
        this.#parts.config.uploadIdleTimeoutMs + connection.socket.writableLength / slowestBytesPerMs;
      this.#lingering.add(connection);
    }
    return nowMs - connection.answeredAtMs > connection.allowedMs ? 'unread' : undefined;
  }

  /** It is longer than Node's own limits for headers and idle connections, so that Node answers first. */
  #longestWaitMs(connection: Connection): number {
    const { uploadIdleTimeoutMs, requestHeaderTimeoutMs, keepAliveTimeoutMs } = this.#parts.config;
    if (connection.unfinished?.complete === true) connection.unfinished = undefined;
    if (connection.unfinished !== undefined) return uploadIdleTimeoutMs;
    return requestHeaderTimeoutMs + lingerMs + (this.#silent.has(connection) ? 0 : keepAliveTimeoutMs);
  }

  /** Ends the largest first. */
  #endUnread(unreadBytes: number): void {
    let leftBytes = unreadBytes;
    const unread = [...this.#open.values()].filter(({ answeredAtMs }) => answeredAtMs !== undefined);
    for (const connection of unread.toSorted((a, b) => b.socket.writableLength - a.socket.writableLength)) {
      if (leftBytes <= maxUnreadBytes) return;
      leftBytes -= connection.socket.writableLength;
      this.#end(connection, 'unread');
    }
  }

  /** Ends connections whose heads have not arrived, the longest head first. */
  #endLongHeads(longHeadBytes: number): void {
    let leftBytes = longHeadBytes;
    const waiting = [...this.#open.values()].filter(({ current }) => current === undefined);
    for (const connection of waiting.toSorted((a, b) => unfinishedHeadBytes(b) - unfinishedHeadBytes(a))) {
      if (leftBytes <= this.#longHeads.max) return;
      leftBytes -= unfinishedHeadBytes(connection);
      this.#end(connection, 'long_heads');
    }
  }

  /** The service stops, and no request is under way. A client whose answer is complete has a moment to read it. */
  #endWaiting(nowMs: number): void {
    for (const { socket, answeredAtMs } of this.#open.values()) {
      if (answeredAtMs === undefined || nowMs - answeredAtMs > lingerMs) socket.destroy();
    }
  }

  #note(reason: ConnectionEnd, { address }: Pick<ClientAddress, 'address'>): void {
    this.#parts.metrics.connectionEnded(reason);
    this.#unlogged.set(reason, { count: (this.#unlogged.get(reason)?.count ?? 0) + 1, address });
    this.#log(this.#parts.clock.nowMs());
  }

  /** Writes one line for each reason every ten seconds, however many connections it covers. */
  #log(nowMs: number): void {
    if (nowMs - this.#loggedAtMs < 10_000 || this.#unlogged.size === 0) return;
    for (const [reason, { count, address }] of this.#unlogged) {
      const fields = { reason, count, address, open: this.#open.size };
      this.#parts.logger.warn(fields, 'connections were closed; the address is that of the last');
    }
    this.#unlogged.clear();
    this.#loggedAtMs = nowMs;
  }
}

/**
 * Counts what has come of the head of the next request beyond what is common. What a client sends of a body that was refused is
 * no head.
 */
const unfinishedHeadBytes = ({ socket, receivedBytes, unfinished }: Connection): number =>
  unfinished === undefined ? Math.max(0, (socket.bytesRead ?? 0) - receivedBytes - commonHeadBytes) : 0;

function longHeadBytesOf({ url = '', rawHeaders }: IncomingMessage): number {
  return Math.max(0, rawHeaders.reduce((sum, text) => sum + text.length, url.length) - commonHeadBytes);
}

const peerOf = ({ remoteAddress, remotePort }: ClientSocket): string => `${remoteAddress} ${remotePort}`;

function add(counts: Map<string, number>, key: string, by: 1 | -1): void {
  const count = (counts.get(key) ?? 0) + by;
  if (count === 0) counts.delete(key);
  else counts.set(key, count);
}
