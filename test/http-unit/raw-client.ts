import { connect, type Socket } from 'node:net';
import { token } from './service.ts';

/** A client that sees every byte: what an HTTP library would hide is what these tests are about. */
export class RawClient implements Disposable {
  readonly #socket: Socket;
  #received = '';
  #listeners: (() => void)[] = [];
  readonly closed: Promise<'end' | NodeJS.ErrnoException>;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('data', (chunk: Buffer) => {
      this.#received += chunk.toString();
      for (const listener of this.#listeners) listener();
    });
    this.closed = new Promise((resolve) => {
      socket.once('end', () => resolve('end'));
      socket.once('error', resolve);
    });
  }

  static async connect({ port }: { readonly port: number }): Promise<RawClient> {
    const socket = connect(port, '127.0.0.1');
    const client = new RawClient(socket);
    await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject));
    return client;
  }

  get received(): string {
    return this.#received;
  }

  head(line: string, headers: readonly string[], withToken = true): Promise<void> {
    const authorization = withToken ? [`authorization: Bearer ${token}`] : [];
    return this.write([`${line} HTTP/1.1`, 'host: x', ...authorization, ...headers, '', ''].join('\r\n'));
  }

  /** One chunk of a chunked body. */
  chunk(bytes: Uint8Array): Promise<void> {
    return this.write(Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')]));
  }

  /** Resolves when the kernel has taken it, so it waits where the other side does not read. */
  write(bytes: string | Uint8Array): Promise<void> {
    return new Promise((resolve, reject) => this.#socket.write(bytes, (error) => (error ? reject(error) : resolve())));
  }

  /** Until the text has come; rejects when the connection ends before. */
  async until(text: string): Promise<string> {
    const arrived = new Promise<void>((resolve) => {
      const look = (): void => {
        if (this.#received.includes(text)) resolve();
      };
      this.#listeners.push(look);
      look();
    });
    const ended = this.closed.then(() => {
      if (!this.#received.includes(text)) throw new Error(`closed after: ${this.#received}`);
    });
    await Promise.race([arrived, ended]);
    return this.#received;
  }

  /** Nothing more will be sent. */
  finish(): void {
    this.#socket.end();
  }

  leave(): void {
    this.#socket.destroy();
  }

  [Symbol.dispose](): void {
    this.leave();
  }
}
