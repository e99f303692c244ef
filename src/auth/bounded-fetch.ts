/**
 * `fetch` for what an authorization server publishes or answers. All that it says is held in memory and parsed at once, so
 * there is a limit to it: decoded, since 100 KB of gzip can unfold to 100 MB. Reading ends at the limit. Time is
 * the caller's: its signal also ends an answer that never does.
 */

/** Fifty times what an issuer with a dozen keys and their certificates publishes. */
export const maxDocumentBytes = 2 ** 20;

/** As both libraries ask. */
interface BoundedRequest {
  readonly method: string;
  readonly headers?: NonNullable<RequestInit['headers']>;
  readonly body?: RequestInit['body'] | undefined;
  readonly redirect?: 'manual';
  readonly signal?: AbortSignal | undefined;
}

/** Rejects where the answer is too large, as it does where there is none. */
export async function boundedFetch(url: string | URL, request: BoundedRequest): Promise<Response> {
  const { method, headers = {}, body = null, redirect = 'manual', signal = null } = request;
  const response = await fetch(url, { method, headers, body, redirect, signal });
  const bytes = await boundedBytes(response);
  const plain = new Headers(response.headers);
  for (const name of ['content-encoding', 'content-length']) plain.delete(name); // it is decoded by now
  return new Response(bytes, { status: response.status, headers: plain });
}

/** null where there is none: some statuses must not have one. */
async function boundedBytes({ body }: Response): Promise<Uint8Array<ArrayBuffer> | null> {
  if (body === null) return null;
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > maxDocumentBytes) throw new Error(`the answer is larger than ${maxDocumentBytes} bytes`);
    chunks.push(chunk);
  }
  return Uint8Array.from(Buffer.concat(chunks));
}
