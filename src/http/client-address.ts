/**
 * Which client a request comes from. That is the other end of the connection, unless the operator trusts it as a proxy: then
 * it is whom the proxy names. Each proxy adds the address it was called from at the right of `X-Forwarded-For`, behind what it was
 * sent, so the rightmost address that no trusted proxy has is the last one that somebody trusted has seen; all left of it, a
 * client may have made up. Where all are trusted, it is the first.
 *
 * `Forwarded` (RFC 7239) is read only where there is no `X-Forwarded-For`. Most proxies set the latter and hand on what they
 * are sent of the former, so the other way round a client could name itself.
 *
 * A proxy that names nobody, or something that is no address, is the client itself.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { BlockList, isIP, isIPv4, isIPv6 } from 'node:net';
import { headerText } from './header-text.ts';

export interface ClientAddress {
  /** In the canonical form, an IPv4 address never as IPv6; `unknown` where the connection had gone before it was asked. */
  readonly address: string;
  /** Whose share its connections are: of IPv6 the network of 64 bits, which is what one customer has at least (RFC 6177). */
  readonly sharer: string;
  /** True where a trusted proxy has said so. */
  readonly isReported: boolean;
}

/** A request, or what of it says where it comes from. */
export interface Sent {
  readonly socket: { readonly remoteAddress?: string | undefined };
  readonly headers: IncomingHttpHeaders;
}

export class ClientAddresses {
  readonly #trusted = new BlockList();

  /** `trustedProxies` are addresses, or ranges such as `10.0.0.0/8`. */
  constructor(trustedProxies: readonly string[]) {
    for (const range of trustedProxies) {
      const [network = '', prefix] = range.split('/');
      const family = isIPv4(network) ? 'ipv4' : 'ipv6';
      this.#trusted.addSubnet(network, Number(prefix ?? (family === 'ipv4' ? 32 : 128)), family);
    }
  }

  /** The other end of a connection. */
  peer({ remoteAddress }: Sent['socket']): ClientAddress {
    return clientAt(canonical(remoteAddress ?? '') ?? 'unknown', false);
  }

  /** Whether this is one of the trusted proxies, who may speak for many clients. */
  isTrusted({ address }: ClientAddress): boolean {
    return isIP(address) !== 0 && this.#trusted.check(address, isIPv4(address) ? 'ipv4' : 'ipv6');
  }

  clientOf({ socket, headers }: Sent): ClientAddress {
    const peer = this.peer(socket);
    return this.isTrusted(peer) ? (this.#reported(headers) ?? peer) : peer;
  }

  #reported(headers: IncomingHttpHeaders): ClientAddress | undefined {
    let first: ClientAddress | undefined;
    for (const hop of hops(headers).toReversed()) {
      const address = canonical(withoutPort(hop));
      if (address === undefined) return undefined;
      first = clientAt(address, true);
      if (!this.isTrusted(first)) return first;
    }
    return first;
  }
}

/** The addresses that the proxies have written down, in their order. */
function hops(headers: IncomingHttpHeaders): readonly string[] {
  const listed = headerText(headers['x-forwarded-for']);
  if (listed !== undefined) return listed.split(',').map((hop) => hop.trim());
  return headers.forwarded === undefined ? [] : headers.forwarded.split(',').map(forOf);
}

/** `for=192.0.2.60;proto=http`, `For="[2001:db8::17]:4711"`; empty where there is none. */
const forOf = (element: string): string => /(?:^|;)\s*for=("?)([^";\s]*)\1\s*(?:;|$)/i.exec(element)?.[2] ?? '';

/** `192.0.2.60:4711`, `[2001:db8::17]:4711` and `[2001:db8::17]` name a port or may; `2001:db8::17` does not. */
function withoutPort(hop: string): string {
  const [, bracketed, plain] = /^\[([^\]]*)\](?::\d{1,5})?$|^([\d.]+):\d{1,5}$/.exec(hop) ?? [];
  return bracketed ?? plain ?? hop;
}

/** One text for each address; undefined for what is none. The zone of a link-local address says nothing of the client. */
function canonical(text: string): string | undefined {
  const address = text.replace(/%.*$/, '');
  if (isIPv4(address)) return address;
  if (!isIPv6(address)) return undefined;
  const short = new URL(`http://[${address}]`).hostname.slice(1, -1); // RFC 5952, but for mapped addresses
  const [, high, low] = /^::ffff:([\da-f]{1,4}):([\da-f]{1,4})$/.exec(short) ?? [];
  if (high === undefined || low === undefined) return short;
  return [high, low].flatMap((group) => [Number.parseInt(group, 16) >> 8, Number.parseInt(group, 16) & 255]).join('.');
}

const clientAt = (address: string, isReported: boolean): ClientAddress => ({
  address,
  sharer: isIPv6(address) ? `${firstGroups(address)}::/64` : address,
  isReported,
});

const groupsOfNetwork = 4;

function firstGroups(address: string): string {
  const [head = '', tail] = address.split('::');
  const groups = head === '' ? [] : head.split(':');
  const last = tail === undefined || tail === '' ? [] : tail.split(':');
  const between = Array<string>(8 - groups.length - last.length).fill('0');
  return [...groups, ...between, ...last].slice(0, groupsOfNetwork).join(':');
}
