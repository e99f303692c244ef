/**
 * A document that an authorization server publishes, and that this service holds: the server's metadata, its keys.
 *
 * It is requested once at a time, however many callers wait. Where the server does not answer, the held document serves for a day,
 * and the next attempt waits for a back-off that doubles, so that a server in trouble gets few requests. The log has one line for
 * each attempt, since callers may notice nothing. Fails with `IssuerUnavailable`.
 */
import { type Clock, dayMs } from '../kernel/clock.ts';
import { LancegateError } from '../kernel/errors.ts';
import type { Logger } from '../telemetry/logger.ts';

const firstBackOffMs = 1_000;

interface RemoteDocumentParts<Value> {
  /** The log says by it what the document is, and of which issuer. */
  readonly title: string;
  readonly load: () => Promise<Value>;
  /** Younger than this, it is used without asking. */
  readonly freshForMs: number;
  readonly clock: Clock;
  readonly logger: Pick<Logger, 'warn'>;
}

export class RemoteDocument<Value extends object> {
  readonly #parts: RemoteDocumentParts<Value>;
  #held: { readonly value: Value; readonly loadedAtMs: number } | undefined;
  #loading: Promise<Value> | undefined;
  #backOffMs = firstBackOffMs;
  #retryAtMs = 0;

  constructor(parts: RemoteDocumentParts<Value>) {
    this.#parts = parts;
  }

  async current(): Promise<Value> {
    const held = this.#held;
    if (held === undefined) return this.#reload();
    const { clock, freshForMs } = this.#parts;
    const ageMs = clock.nowMs() - held.loadedAtMs;
    if (ageMs < freshForMs) return held.value;
    try {
      return await this.#reload();
    } catch (error) {
      if (ageMs < dayMs) return held.value; // an outage must not lock out clients whose tokens are still valid
      throw error;
    }
  }

  /** What the server has published after `seen`; undefined if the last load is too recent for another. */
  async newerThan(seen: Value): Promise<Value | undefined> {
    const held = this.#held;
    if (held === undefined) return this.#reload();
    if (held.value !== seen) return held.value;
    // Made-up key ids can cause no more loads than one in this time.
    return this.#parts.clock.nowMs() < held.loadedAtMs + 30_000 ? undefined : this.#reload();
  }

  #reload(): Promise<Value> {
    this.#loading ??= this.#loadOnce().finally(() => {
      this.#loading = undefined;
    });
    return this.#loading;
  }

  async #loadOnce(): Promise<Value> {
    const { clock, load } = this.#parts;
    const waitMs = this.#retryAtMs - clock.nowMs();
    if (waitMs > 0) throw unavailable(waitMs, 'not asked again before the back-off has passed');
    try {
      const value = await load();
      this.#held = { value, loadedAtMs: clock.nowMs() };
      this.#backOffMs = firstBackOffMs;
      return value;
    } catch (error) {
      throw this.#backOff(error);
    }
  }

  #backOff(error: unknown): LancegateError {
    const { clock, logger, title } = this.#parts;
    const waitMs = this.#backOffMs;
    logger.warn({ error, retryAfterMs: waitMs }, `no answer: ${title}`);
    this.#retryAtMs = clock.nowMs() + waitMs;
    this.#backOffMs = Math.min(waitMs * 2, 30_000);
    return unavailable(waitMs, error);
  }
}

const unavailable = (waitMs: number, cause: unknown): LancegateError =>
  new LancegateError('IssuerUnavailable', 'The authorization server does not answer.', {
    cause,
    retryAfterSeconds: Math.ceil(waitMs / 1_000),
  });

/** An issuer with a dozen keys and their certificates publishes far less. */
export const maxDocumentBytes = 2 ** 20;

/** jose and oauth4webapi pass these. */
interface BoundedRequest {
  readonly method: string;
  readonly headers?: NonNullable<RequestInit['headers']>;
  readonly body?: RequestInit['body'] | undefined;
  readonly redirect?: 'manual';
  readonly signal?: AbortSignal | undefined;
}

/**
 * `fetch` for the documents and answers of an authorization server. They are held in memory and parsed at once, so their size
 * is limited, after decoding: 100 KB of gzip can decompress to 100 MB. Reading stops at the limit. The caller's signal limits
 * the time. Rejects if there is no answer, or one that is too large.
 */
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
