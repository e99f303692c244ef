/** What the service reads of a request's headers, and requires of them, before it knows the route. */
import type { IncomingMessage } from 'node:http';
import { invalidInput } from '../kernel/errors.ts';

/** Short headers take ten times their size in memory for as long as the others have not arrived (P12). */
export const mostHeaders = 200;

/** Node joins repeated headers of most names, or drops all but the first; the type does not say so. */
export const headerText = (value: string | string[] | undefined): string | undefined =>
  Array.isArray(value) ? value.join(', ') : value;

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
