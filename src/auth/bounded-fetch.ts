/**
 * `fetch` for the documents and answers of an authorization server. They are held in memory and parsed at once, so their size
 * is limited, after decoding: 100 KB of gzip can decompress to 100 MB. Reading stops at the limit. The caller's signal limits
 * the time.
 */

/** Far more than an issuer with a dozen keys and their certificates publishes. */
export const maxDocumentBytes = 2 ** 20;

/** What both libraries pass. */
interface BoundedRequest {
  readonly method: string;
  readonly headers?: NonNullable<RequestInit['headers']>;
  readonly body?: RequestInit['body'] | undefined;
  readonly redirect?: 'manual';
  readonly signal?: AbortSignal | undefined;
}

/** Rejects if there is no answer, or one that is too large. */
export async function boundedFetch(url: string | URL, request: BoundedRequest): Promise<Response> {
  const { method, headers = {}, body = null, redirect = 'manual', signal = null } = request;
  const response = await fetch(url, { method, headers, body, redirect, signal });
  const bytes = await boundedBytes(response);
  const plain = new Headers(response.headers);
  for (const name of ['content-encoding', 'content-length']) plain.delete(name); // it is decoded by now
  return new Response(bytes, { status: response.status, headers: plain });
}

/** null for an answer without a body: some statuses must not have one. */
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
