/** Which headers a request keeps on its hop to the owner, and its answer on the way back. */
import type { IncomingHttpHeaders } from 'node:http';
import { headerText } from '../../endpoint/route.ts';

/** RFC 9110, 7.6.1, and 7.8; they are about one connection. */
const ofConnection = [
  ...['connection', 'keep-alive', 'proxy-connection', 'proxy-authenticate', 'proxy-authorization', 'te', 'trailer'],
  ...['transfer-encoding', 'upgrade'],
];

/** The credential stays where it was verified. */
const replaced: ReadonlySet<string> = new Set([...ofConnection, 'host', 'authorization', 'x-api-key', 'expect']);

/** Node sets them by itself. */
const remade: ReadonlySet<string> = new Set([...ofConnection, 'date', 'content-length']);

interface ClientRequestHead {
  readonly rawHeaders: readonly string[];
  readonly peer: string;
  readonly body: unknown;
}

/**
 * `host` is left to Node. The owner says `100 Continue` when it has admitted the request. It believes the reported addresses if
 * it trusts this replica as a proxy.
 */
export function forwardedHeaders(
  { rawHeaders, peer, body }: ClientRequestHead,
  token: string,
): Record<string, string[]> {
  const headers: Record<string, string[]> = Object.create(null); // `constructor` is a name that clients can send
  for (const [given, value] of headersIn(rawHeaders)) {
    const name = given.toLowerCase();
    if (!replaced.has(name)) headers[name] = [...(headers[name] ?? []), value];
  }
  headers.authorization = [`Bearer ${token}`];
  headers['x-forwarded-for'] = [[...(headers['x-forwarded-for'] ?? []), peer].join(', ')];
  if (body !== undefined) headers.expect = ['100-continue'];
  return headers;
}

export function* headersIn(rawHeaders: readonly string[]): Generator<readonly [name: string, value: string], void> {
  for (let at = 0; ; at += 2) {
    const [name, value] = rawHeaders.slice(at, at + 2);
    if (name === undefined || value === undefined) return;
    yield [name, value];
  }
}

export const answeredHeaders = (headers: IncomingHttpHeaders): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) => {
      const text = headerText(value);
      return text === undefined || remade.has(name) ? [] : [[name, text]];
    }),
  );

/** Reads `http://HOST:PORT`, in which an IPv6 address is in brackets. */
export function replicaOf(address: string): {
  readonly isSecure: boolean;
  readonly host: string;
  readonly port: number;
} {
  const { protocol, hostname, port } = new URL(address);
  const isSecure = protocol === 'https:';
  return { isSecure, host: hostname.replace(/^\[(.*)\]$/, '$1'), port: Number(port || (isSecure ? 443 : 80)) };
}
