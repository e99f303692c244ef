/** What the service reads of a request's head, and requires of it, before it knows the route. */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { BlockList, isIP, isIPv4, isIPv6 } from 'node:net';
import { headerText } from '../endpoint/route.ts';
import type { Clock } from '../kernel/clock.ts';
import { invalidInput, LancegateError } from '../kernel/errors.ts';
import type { Principal, RequestScope } from '../kernel/request-scope.ts';
import type { Timeout } from '../wire/query-parameters.ts';

/** Short headers take ten times their size in memory for as long as the others have not arrived (P12). */
export const mostHeaders = 200;

export const credentialsIn = ({ headers }: IncomingMessage) => ({
  authorization: headers.authorization,
  'x-api-key': headerText(headers['x-api-key']),
});

/** The client's own name for its request, if a header and a log line can hold it; the LanceDB SDKs send a UUID. */
export function requestIdFrom({ headers }: IncomingMessage): string | undefined {
  const id = headers['x-request-id'];
  return typeof id === 'string' && /^[\w.:+/=@-]{1,128}$/.test(id) ? id : undefined;
}

/** Node has left out the headers past the limit, and any of them may matter. */
export function requireFewHeaders({ rawHeaders }: IncomingMessage): void {
  if (rawHeaders.length >= 2 * mostHeaders) throw invalidInput(`there are ${mostHeaders} headers or more`);
}

/** A name or an address, and a port (RFC 9110, 7.2, without the percent-encoding that no host has). */
const hostForm = /^(?:\[[\da-f:.]+\]|[\w.~!$&'()*+,;=-]*)(?::\d*)?$/i;

/** RFC 9112, 3.2: exactly one, and a valid one. HTTP/1.0 may leave it out. */
export function requireHost({ httpVersion, headers, rawHeaders }: IncomingMessage): void {
  let hosts = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) if (rawHeaders[i]?.toLowerCase() === 'host') hosts += 1;
  if (hosts === 0 && httpVersion === '1.1') throw invalidInput('the Host header is missing');
  if (hosts > 1) throw invalidInput('there is more than one Host header');
  if (!hostForm.test(headers.host ?? '')) throw invalidInput('the Host header is not a host and a port');
}

/** RFC 9112, 6.1: a coding but `chunked` would reach the reader as it is, and be taken for the body itself. */
export function requireChunkedAlone({ headers }: IncomingMessage): void {
  const coding = headers['transfer-encoding'];
  if (coding === undefined || coding.trim().toLowerCase() === 'chunked') return;
  throw invalidInput('transfer-encoding: only chunked is understood; say gzip or zstd in content-encoding');
}

/** Whether Node has left the `100 Continue` to this service: Node's own test, after which it emits `checkContinue`. */
export const expectsContinue = ({ headers }: IncomingMessage): boolean =>
  /\b100-continue\b/i.test(headers.expect ?? '');

export interface ClientAddress {
  /** It has the canonical form, an IPv4 address never that of IPv6; it is `unknown` if the connection ended before. */
  readonly address: string;
  /** What its connections count for: the address, or the IPv6 network of 64 bits, the least that a customer has (RFC 6177). */
  readonly sharer: string;
  /** The trusted proxy that reported the address. */
  readonly proxy: string | undefined;
}

/** The parts of a request that show its origin. */
interface Origin {
  readonly socket: { readonly remoteAddress?: string | undefined };
  readonly headers: IncomingHttpHeaders;
}

/**
 * The client that a request comes from: the other end of the connection, unless the operator trusts that as a proxy; then the
 * address that the proxy reports. Each proxy appends its caller's address to `X-Forwarded-For`. So the rightmost address that is
 * no trusted proxy's is the last one that a trusted proxy has seen, and a client may have forged all to its left. If all are
 * trusted, the client is the leftmost.
 *
 * `Forwarded` (RFC 7239) is read only if there is no `X-Forwarded-For`. Most proxies set the latter and pass on the former as the
 * client wrote it, so a client could otherwise forge its address.
 *
 * A proxy that reports no address, or something that is none, counts as the client itself.
 */
export class ClientAddresses {
  readonly #trusted = new BlockList();
  readonly #isAnyTrusted: boolean;

  /** `trustedProxies` are addresses, or ranges such as `10.0.0.0/8`. */
  constructor(trustedProxies: readonly string[]) {
    this.#isAnyTrusted = trustedProxies.length > 0;
    for (const range of trustedProxies) {
      const [network = '', prefix] = range.split('/');
      const family = isIPv4(network) ? 'ipv4' : 'ipv6';
      this.#trusted.addSubnet(network, Number(prefix ?? (family === 'ipv4' ? 32 : 128)), family);
    }
  }

  /** The other end of a connection. */
  peer({ remoteAddress }: Origin['socket']): ClientAddress {
    return clientAt(canonical(remoteAddress ?? '') ?? 'unknown', undefined);
  }

  /** Whether this is one of the trusted proxies, which may speak for many clients. */
  isTrusted({ address }: ClientAddress): boolean {
    return this.#isAnyTrusted && isIP(address) !== 0 && this.#trusted.check(address, isIPv4(address) ? 'ipv4' : 'ipv6');
  }

  /** The caller asks while the connection is open. */
  clientOf({ socket, headers }: Origin): ClientAddress {
    const peer = this.peer(socket);
    return this.isTrusted(peer) ? (this.#reportedBy(peer, headers) ?? peer) : peer;
  }

  #reportedBy(proxy: ClientAddress, headers: IncomingHttpHeaders): ClientAddress | undefined {
    let first: ClientAddress | undefined;
    for (const hop of hops(headers).toReversed()) {
      const address = canonical(withoutPort(hop));
      if (address === undefined) return undefined;
      first = clientAt(address, proxy.address);
      if (!this.isTrusted(first)) return first;
    }
    return first;
  }
}

/** The reported addresses, in the order of the header. */
function hops(headers: IncomingHttpHeaders): readonly string[] {
  const listed = headerText(headers['x-forwarded-for']);
  if (listed !== undefined) return listed.split(',').map((hop) => hop.trim());
  // `for=192.0.2.60;proto=http`, `For="[2001:db8::17]:4711"`; empty for an element without `for`.
  return headers.forwarded === undefined
    ? []
    : headers.forwarded
        .split(',')
        .map((element) => /(?:^|;)\s*for=("?)([^";\s]*)\1\s*(?:;|$)/i.exec(element)?.[2] ?? '');
}

/** Of `192.0.2.60:4711`, `[2001:db8::17]:4711` and `[2001:db8::17]`; a bare `2001:db8::17` has no port. */
function withoutPort(hop: string): string {
  const [, bracketed, plain] = /^\[([^\]]*)\](?::\d{1,5})?$|^([\d.]+):\d{1,5}$/.exec(hop) ?? [];
  return bracketed ?? plain ?? hop;
}

/** One text for each address, without the zone of a link-local one; undefined if the text is no address. */
function canonical(text: string): string | undefined {
  const address = text.replace(/%.*$/, '');
  if (isIPv4(address)) return address;
  if (!isIPv6(address)) return undefined;
  const short = new URL(`http://[${address}]`).hostname.slice(1, -1); // RFC 5952, but for mapped addresses
  const [, high, low] = /^::ffff:([\da-f]{1,4}):([\da-f]{1,4})$/.exec(short) ?? [];
  if (high === undefined || low === undefined) return short;
  return [high, low].flatMap((group) => [Number.parseInt(group, 16) >> 8, Number.parseInt(group, 16) & 255]).join('.');
}

const clientAt = (address: string, proxy: string | undefined): ClientAddress => ({
  address,
  sharer: isIPv6(address) ? `${networkOf(address)}::/64` : address,
  proxy,
});

/** An IPv6 address has eight groups, of which the first four are its network. */
function networkOf(address: string): string {
  const [before = [], after = []] = address.split('::').map((part) => part.split(':').filter(Boolean));
  const zeros = Array<string>(8 - before.length - after.length).fill('0');
  return [...before, ...zeros, ...after].slice(0, 4).join(':');
}

interface ScopeParts {
  readonly requestId: string;
  readonly principal: Principal;
  readonly timeout: Timeout;
  /** How long the service has waited for the client. */
  readonly waitedMs: () => number;
  readonly clock: Clock;
  readonly response: ServerResponse;
}

/**
 * A request's scope, tied to its connection. Fastify's own `request.signal` will not do: it aborts as soon as the body
 * has been read, with the client still there. Once the answer is on its way, neither the clock nor the client matters.
 *
 * A deadline that the client has not chosen moves by the time that the service waits for the body, or for the client to take a
 * long answer: an honest upload of an hour is no failure. `RequestBody` and `PacedAnswer` end those that stall or trickle.
 */
export class ClientScope implements RequestScope {
  readonly requestId: string;
  readonly principal: Principal;
  readonly #controller = new AbortController();
  readonly #parts: Pick<ScopeParts, 'timeout' | 'waitedMs' | 'clock'>;
  readonly #startMs: number;
  readonly #stopWatching: () => void;

  constructor({ requestId, principal, response, ...parts }: ScopeParts) {
    const { clock, timeout } = parts;
    this.requestId = requestId;
    this.principal = principal;
    this.#parts = parts;
    this.#startMs = clock.nowMs();
    const onClose = (): void =>
      this.#controller.abort(invalidInput('the client closed the connection before it was answered'));
    const onTime = (): void => {
      const leftMs = this.remainingMs();
      if (leftMs > 0) cancelTimer = clock.schedule(leftMs, onTime);
      else
        this.#controller.abort(
          new LancegateError(
            'TimedOut',
            `the request was not done within its ${timeout.timeoutMs} ms; nothing was written`,
          ),
        );
    };
    let cancelTimer = clock.schedule(timeout.timeoutMs, onTime);
    response.once('close', onClose);
    this.#stopWatching = () => {
      cancelTimer();
      response.off('close', onClose);
    };
    if (response.destroyed) onClose();
    if (timeout.timeoutMs === 0) onTime();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  remainingMs(): number {
    const { clock, timeout, waitedMs } = this.#parts;
    const allowedMs = Math.min(timeout.timeoutMs + waitedMs(), timeout.withBodyMs);
    return Math.max(0, this.#startMs + allowedMs - clock.nowMs());
  }

  /** The answer is decided: ends the timer, and no longer watches the connection. */
  close(): void {
    this.#stopWatching();
  }
}
