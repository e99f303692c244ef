/**
 * An HTTP/1.1 client for one connection and one request at a time, cheap enough to share two cores with the service it
 * loads: the request is one prepared buffer, the answer is not copied. It knows what this service sends (a status line
 * and a content length) and no more; node:http costs about five times the processor time per request.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

interface RawAnswer {
  readonly status: number;
  readonly retryAfterSeconds: number | undefined;
  readonly body: Buffer;
}

interface Waiting {
  resolve(answer: RawAnswer): void;
  reject(error: Error): void;
}

export class RawClient {
  readonly #port: number;
  #socket: Socket | undefined;
  #received: Buffer = Buffer.alloc(0);
  #waiting: Waiting | undefined;
  #connections = 0;

  constructor(port: number) {
    this.#port = port;
  }

  /** How often it had to connect. */
  get connections(): number {
    return this.#connections;
  }

  /** Does nothing where the connection is there. */
  async connect(): Promise<void> {
    if (this.#socket === undefined) await this.#connect();
  }

  /** `request` must not change before the answer is there. */
  async send(request: Uint8Array): Promise<RawAnswer> {
    const socket = this.#socket ?? (await this.#connect());
    const { promise, resolve, reject } = Promise.withResolvers<RawAnswer>();
    this.#waiting = { resolve, reject };
    socket.write(request);
    return promise;
  }

  close(): void {
    this.#socket?.destroy();
    this.#socket = undefined;
  }

  async #connect(): Promise<Socket> {
    const socket = connect({ port: this.#port, host: '127.0.0.1', noDelay: true });
    await once(socket, 'connect');
    socket.on('data', (chunk: Buffer) => this.#take(chunk));
    socket.on('error', (error) => this.#fail(error));
    socket.on('close', () => this.#fail(new Error('the service closed the connection')));
    this.#socket = socket;
    this.#connections += 1;
    return socket;
  }

  #take(chunk: Buffer): void {
    this.#received = this.#received.length === 0 ? chunk : Buffer.concat([this.#received, chunk]);
    const headEnd = this.#received.indexOf('\r\n\r\n');
    if (headEnd < 0) return;
    const head = this.#received.toString('latin1', 0, headEnd);
    const bodyStart = headEnd + 4;
    const bodyEnd = bodyStart + Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0);
    if (this.#received.length < bodyEnd) return;
    const status = Number(head.slice(9, 12));
    const retryAfter = status === 503 ? /retry-after: (\d+)/i.exec(head)?.[1] : undefined;
    const retryAfterSeconds = retryAfter === undefined ? undefined : Number(retryAfter);
    const answer = { status, retryAfterSeconds, body: this.#received.subarray(bodyStart, bodyEnd) };
    this.#received = this.#received.subarray(bodyEnd);
    if (/connection: close/i.test(head)) this.close();
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.resolve(answer);
  }

  #fail(error: Error): void {
    this.#socket = undefined;
    this.#received = Buffer.alloc(0);
    this.#waiting?.reject(error);
    this.#waiting = undefined;
  }
}
