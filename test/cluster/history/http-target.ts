import { setTimeout as pause } from 'node:timers/promises';
import type { Sent, Target } from './attempts.ts';

const pauseMs = 100;
const arrowStream = 'application/vnd.apache.arrow.stream';

/**
 * A load balancer of the plainest kind: each request goes to the next replica, and on to another one where nothing listens.
 * Where nothing listens anywhere, it says so after a short pause.
 */
export class HttpTarget implements Target {
  readonly #urls: readonly string[];
  readonly #authorization: string;
  readonly #timeoutMs: number;
  #next = 0;

  constructor(urls: readonly string[], authorization: string, timeoutMs = 20_000) {
    this.#urls = urls;
    this.#authorization = authorization;
    this.#timeoutMs = timeoutMs;
  }

  async post(path: string, body: Uint8Array | object, headers: Readonly<Record<string, string>>): Promise<Sent> {
    const first = this.#next++;
    for (let at = 0; at < this.#urls.length; at++) {
      const sent = await this.#postTo(`${this.#urls[(first + at) % this.#urls.length]}${path}`, body, headers);
      if (sent !== 'not sent') return sent;
    }
    await pause(pauseMs);
    return 'not sent';
  }

  async #postTo(url: string, body: Uint8Array | object, headers: Readonly<Record<string, string>>): Promise<Sent> {
    const isArrow = body instanceof Uint8Array;
    const common = { authorization: this.#authorization, connection: 'close' };
    try {
      const response = await fetch(url, {
        method: 'POST',
        headers: { ...common, 'content-type': isArrow ? arrowStream : 'application/json', ...headers },
        body: isArrow ? new Uint8Array(body) : JSON.stringify(body),
        signal: AbortSignal.timeout(this.#timeoutMs),
      });
      return { status: response.status, body: Buffer.from(await response.arrayBuffer()) };
    } catch (error) {
      return isRefused(error) ? 'not sent' : undefined;
    }
  }
}

const isRefused = (error: unknown): boolean =>
  error instanceof TypeError && (error.cause as { code?: unknown } | undefined)?.code === 'ECONNREFUSED';
