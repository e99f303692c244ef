/** What a client calls its request, if that can stand in a header and in a log line; the LanceDB SDKs send a UUID. */
export function requestIdFrom(header: string | string[] | undefined): string | undefined {
  return typeof header === 'string' && /^[\w.:+/=@-]{1,128}$/.test(header) ? header : undefined;
}
