import type { IncomingMessage } from 'node:http';

/** What may lie here unread. More would be memory for nothing, less would stop and start the socket for every chunk. */
const maxQueuedBytes = 256 * 1024;

/** The memory of a chunk besides its bytes: without it, a body in chunks of one byte could take hundreds of times its size. */
const bytesAroundChunk = 512;

/**
 * The chunks of a request's body, each as the parser made it, a little ahead of their reader. Node's own async iterator
 * joins chunks that wait, which copies them once more, and costs several promises for each; this reader is half the work
 * of receiving a large body. Nothing is taken from the socket before the first `next`.
 */
export class ChunkQueue {
  readonly #raw: IncomingMessage;
  readonly #chunks: Buffer[] = [];
  #queuedBytes = 0;
  #arrivedBytes = 0;
  #isForgetting = false;
  #isListening = false;
  #isEnded = false;
  #failure: Error | undefined;
  #wake: () => void = () => {};

  constructor(raw: IncomingMessage) {
    this.#raw = raw;
  }

  /** True if `next` would have to wait for the client. */
  get isWaiting(): boolean {
    return this.#chunks.length === 0 && !this.#isEnded && this.#failure === undefined;
  }

  /** Bytes taken from the socket. */
  get arrivedBytes(): number {
    return this.#arrivedBytes;
  }

  /** undefined at the end. Rejects where the connection broke first, or with the reason of `interrupt`. */
  async next(): Promise<Buffer | undefined> {
    this.#listen();
    while (this.isWaiting) await this.#input();
    if (this.#failure !== undefined) throw this.#failure;
    const chunk = this.#chunks.shift();
    if (chunk !== undefined) this.#queuedBytes -= chunk.length + bytesAroundChunk;
    if (this.#queuedBytes < maxQueuedBytes / 2) this.#raw.resume();
    return chunk;
  }

  /** Ends a wait, and everything after it. */
  interrupt(reason: Error): void {
    this.#failure ??= reason;
    this.#wake();
  }

  /** Goes on after an interruption, for who only wants to empty the socket. */
  forgive(): void {
    this.#failure = undefined;
  }

  /** Takes what still comes and keeps nothing; there must be no `next` afterwards. */
  forget(): void {
    this.#isForgetting = true;
    this.#chunks.length = 0;
    this.#raw.resume();
  }

  #input(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  #listen(): void {
    if (this.#isListening) return;
    this.#isListening = true;
    this.#raw.on('data', (chunk: Buffer) => this.#add(chunk));
    this.#raw.once('end', () => this.#end());
    this.#raw.once('error', (error) => this.interrupt(error));
    this.#raw.once('close', () => {
      if (!this.#isEnded) this.interrupt(new Error('the connection was closed'));
    });
    if (this.#raw.destroyed && !this.#raw.complete) this.interrupt(new Error('the connection was closed'));
    if (this.#raw.readableEnded) this.#end();
  }

  #add(chunk: Buffer): void {
    this.#arrivedBytes += chunk.length;
    if (this.#isForgetting) return;
    this.#chunks.push(chunk);
    this.#queuedBytes += chunk.length + bytesAroundChunk;
    if (this.#queuedBytes >= maxQueuedBytes) this.#raw.pause();
    this.#wake();
  }

  #end(): void {
    this.#isEnded = true;
    this.#wake();
  }
}
