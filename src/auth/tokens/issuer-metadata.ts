/** Finds an issuer's endpoints, by OpenID Connect discovery or RFC 8414. */
import * as oauth from 'oauth4webapi';
import type { Clock } from '../../kernel/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { AccessSetupError } from '../challenge.ts';
import { boundedFetch, RemoteDocument } from '../remote-document.ts';

export interface IssuerLocation {
  /** Tokens carry it in `iss` exactly so, a trailing slash included. */
  readonly issuer: string;
  /** Permits plain http to another host: a machine in between can then forge every token. */
  readonly allowHttp: boolean;
  readonly timeoutMs: number;
}

export type IssuerMetadata = oauth.AuthorizationServer;

/** `AccessSetupError` for an issuer whose answers could be forged on the way. */
export function issuerMetadata(
  location: IssuerLocation,
  clock: Clock,
  logger: Pick<Logger, 'warn'>,
): RemoteDocument<IssuerMetadata> {
  requireSecure(location.issuer, location.allowHttp, 'issuer');
  const title = `metadata of the issuer ${location.issuer}`;
  // Endpoints move rarely.
  return new RemoteDocument({ title, load: () => discover(location), freshForMs: 3_600_000, clock, logger });
}

/** Refuses a URL whose answers could be forged on the way: https, or http to this very machine. */
export function requireSecure(text: string, allowHttp: boolean, what: string): URL {
  const url = URL.parse(text);
  if (url === null) throw new AccessSetupError(`The ${what} is not a URL: ${text}`);
  if (url.protocol === 'https:') return url;
  if (url.protocol === 'http:' && (allowHttp || isLoopback(url.hostname))) return url;
  throw new AccessSetupError(`The ${what} must be an https URL (http only to this machine): ${text}`);
}

const isLoopback = (hostname: string): boolean =>
  hostname === 'localhost' || hostname === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(hostname);

/** Options of a request to a URL that `requireSecure` has passed; the library would refuse http by itself. */
export const requestOptions = (timeoutMs: number) => ({
  [oauth.allowInsecureRequests]: true,
  [oauth.customFetch]: boundedFetch,
  signal: () => AbortSignal.timeout(timeoutMs),
});

/** Most issuers publish the OpenID Connect form; pure OAuth servers have RFC 8414's only. */
async function discover(location: IssuerLocation): Promise<IssuerMetadata> {
  try {
    return await discoverBy('oidc', location);
  } catch (oidc) {
    return discoverBy('oauth2', location).catch((oauth2: unknown) => {
      throw new AggregateError([oidc, oauth2], `no metadata of the issuer ${location.issuer}`);
    });
  }
}

async function discoverBy(algorithm: 'oidc' | 'oauth2', location: IssuerLocation): Promise<IssuerMetadata> {
  const issuer = new URL(location.issuer);
  const response = await oauth.discoveryRequest(issuer, { algorithm, ...requestOptions(location.timeoutMs) });
  return oauth.processDiscoveryResponse(issuer, response);
}
