/** A client that sends a body chunk by chunk, sees the answer whenever it comes, and can leave at any point. */
import { once } from 'node:events';
import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import type { Socket } from 'node:net';
import type { HeaderFields } from '#test/fixtures/service.ts';

export interface UploadAnswer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly body: Record<string, unknown>;
}

export class Upload {
  readonly #request: ClientRequest;
  readonly #over: Promise<void>;
  readonly #connected: Promise<unknown>;
  #isOver = false;
  #sentBytes = 0;
  /** Rejects where the connection ends without an answer. */
  readonly answer: Promise<UploadAnswer>;

  /** Without a `content-length` among the headers the body is chunked. */
  constructor(url: string, headers: HeaderFields) {
    this.#request = request(url, { method: 'POST', headers, agent: false });
    this.answer = new Promise((resolve, reject) => {
      this.#request.on('response', (response) => void readAnswer(response).then(resolve, reject));
      this.#request.on('error', reject);
    });
    const ended = (): void => {
      this.#isOver = true;
    };
    this.#over = this.answer.then(ended, ended);
    this.#connected = once(this.#request, 'socket').then(([socket]) => once(socket as Socket, 'connect'));
    this.#connected.catch(() => undefined); // the answer rejects too
    this.#request.flushHeaders();
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** Bytes that the kernel has taken. */
  get sentBytes(): number {
    return this.#sentBytes;
  }

  /** Waits until the kernel has taken the bytes, or the exchange is over: a server that does not read makes it wait. */
  async write(bytes: Uint8Array): Promise<void> {
    const taken = new Promise<void>((resolve) => {
      this.#request.write(bytes, (error) => {
        if (!error) this.#sentBytes += bytes.length;
        resolve();
      });
    });
    await Promise.race([taken, this.#over]);
  }

  end(): Promise<UploadAnswer> {
    this.#request.end();
    return this.answer;
  }

  /** The connection is torn down, both ways. */
  async breakOff(): Promise<void> {
    this.answer.catch(() => undefined);
    await this.#connected;
    this.#request.destroy();
  }

  /** The client will send no more, without having ended the body; it would still read an answer. */
  async hangUp(): Promise<void> {
    this.answer.catch(() => undefined);
    await this.#connected;
    this.#request.socket?.end();
  }
}

async function readAnswer(response: IncomingMessage): Promise<UploadAnswer> {
  const parts: Buffer[] = [];
  for await (const part of response) parts.push(part as Buffer);
  const body = JSON.parse(Buffer.concat(parts).toString()) as Record<string, unknown>;
  return { status: response.statusCode ?? 0, headers: response.headers, body };
}
