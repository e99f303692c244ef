/**
 * The messages over the channel between the service and a reader process. Each is a header of JSON and, for rows, bytes: eight bytes of
 * lengths (header, bytes; little endian), the header and the bytes. The channel's back-pressure applies to the messages.
 */
import type { Duplex } from 'node:stream';
import { LancegateError } from '../kernel/errors.ts';

export interface MessageFrame {
  readonly header: unknown;
  /** The bytes, in memory of their own. */
  readonly bytes: Buffer;
}

/** Bytes of a result as they came from the channel. */
export interface ResultPart {
  readonly bytes: Buffer;
  /** The chunk of the channel ends with these bytes, so it can be freed when they have been read. */
  readonly readChunk: Buffer | undefined;
}

const lengthsBytes = 8;
const noBytes = Buffer.alloc(0);

/** Up to this size, bytes are copied into one buffer, which costs the system less than several. */
const fewBytes = 16 * 1024;

/** Returns whether the channel takes more at once; otherwise it says 'drain' when it does. */
export function writeFrame(channel: Duplex, header: unknown, bytes: readonly Uint8Array[] = []): boolean {
  const length = lengthOf(bytes);
  const head = frameHead(header, length);
  if (length === 0) return channel.write(head);
  if (length <= fewBytes) return channel.write(Buffer.concat([head, ...bytes], head.length + length));
  channel.cork();
  let takesMore = channel.write(head);
  for (const part of bytes) takesMore = channel.write(part);
  channel.uncork();
  return takesMore;
}

export const lengthOf = (parts: readonly Uint8Array[]): number => parts.reduce((sum, { length }) => sum + length, 0);

/** Returns the lengths and the header of a message. */
export function frameHead(header: unknown, bytesLength = 0): Buffer {
  const text = JSON.stringify(header);
  const textLength = Buffer.byteLength(text);
  const head = Buffer.allocUnsafe(lengthsBytes + textLength);
  head.writeUInt32LE(textLength, 0);
  head.writeUInt32LE(bytesLength, 4);
  head.write(text, lengthsBytes);
  return head;
}

/** Throws on a malformed frame, or one with more bytes than `mostBytes`; ends when the stream does. */
export async function* readFrames(channel: Duplex, mostBytes: number): AsyncGenerator<MessageFrame, void, void> {
  const frames = new FrameReader(channel, mostBytes);
  for (;;) {
    const message = await frames.next();
    if (message === undefined) return;
    yield { header: message.header, bytes: await frames.bytes() };
  }
}

/** Reads the messages of a channel, one after the other. The bytes of each are to be read before the next one. */
export class FrameReader {
  readonly #incoming: Incoming;
  readonly #mostBytes: number;
  /** How many bytes of the present message were not read yet. */
  #left = 0;

  constructor(channel: Duplex, mostBytes: number) {
    this.#incoming = new Incoming(channel);
    this.#mostBytes = mostBytes;
  }

  /** Returns undefined at the end. Throws on a malformed frame, or one with more than `mostBytes`. */
  async next(): Promise<{ readonly header: unknown } | undefined> {
    const lengths = this.#incoming.view(lengthsBytes) ?? (await this.#incoming.copy(lengthsBytes));
    if (lengths === undefined) return undefined;
    const headerLength = lengths.readUInt32LE(0);
    this.#left = lengths.readUInt32LE(4);
    // A header fits a predicate of the largest JSON body, escaped.
    if (headerLength > 64 * 2 ** 20 || this.#left > this.#mostBytes)
      throw new LancegateError('Internal', 'a message is too long');
    const text = this.#incoming.view(headerLength) ?? (await this.#incoming.copy(headerLength));
    if (text === undefined) throw cutOff();
    const header: unknown = JSON.parse(text.toString());
    return { header };
  }

  /** Returns all bytes of the message, in memory of their own. */
  async bytes(): Promise<Buffer> {
    if (this.#left === 0) return noBytes;
    const whole = await this.#incoming.copy(this.#left);
    if (whole === undefined) throw cutOff();
    this.#left = 0;
    return whole;
  }

  /** Returns the next bytes of the message, as they came; undefined behind the last. */
  async part(): Promise<ResultPart | undefined> {
    if (this.#left === 0) return undefined;
    const part = await this.#incoming.part(this.#left);
    if (part === undefined) throw cutOff();
    this.#left -= part.bytes.length;
    return part;
  }
}

const cutOff = (): LancegateError => new LancegateError('Internal', 'the channel ended in the middle of a message');

/** This stops reading the channel while as many bytes wait. */
const mostWaitingBytes = 256 * 1024;

/** Reads a stream by numbers of bytes. */
class Incoming {
  readonly #channel: Duplex;
  readonly #chunks: Buffer[] = [];
  #waitingBytes = 0;
  /** How much of the first chunk was read. */
  #offset = 0;
  #end: { readonly error: Error | undefined } | undefined;
  #wake: () => void = () => undefined;

  constructor(channel: Duplex) {
    this.#channel = channel;
    channel.on('data', (chunk: Buffer) => this.#add(chunk));
    channel.once('end', () => this.#finish(undefined));
    channel.once('error', (error: Error) => this.#finish(error));
    channel.once('close', () => this.#finish(undefined));
  }

  /**
   * Returns them at once and where they lie, for reading before anything else is read; undefined if they are not all in one
   * chunk.
   */
  view(count: number): Buffer | undefined {
    const chunk = this.#chunks[0];
    if (chunk === undefined || this.#offset + count > chunk.length) return undefined;
    const bytes = chunk.subarray(this.#offset, this.#offset + count);
    this.#pass(chunk, count);
    return bytes;
  }

  /** Returns them in memory of their own; undefined if the stream ends before. */
  async copy(count: number): Promise<Buffer | undefined> {
    const whole = Buffer.allocUnsafeSlow(count);
    for (let filled = 0; filled < count; ) {
      const chunk = this.#chunks[0] ?? (await this.#first());
      if (chunk === undefined) return undefined;
      const copied = chunk.copy(whole, filled, this.#offset);
      filled += copied;
      this.#pass(chunk, copied);
    }
    return whole;
  }

  /** Returns at most `most` bytes; undefined if the stream has ended. */
  async part(most: number): Promise<ResultPart | undefined> {
    const chunk = this.#chunks[0] ?? (await this.#first());
    if (chunk === undefined) return undefined;
    const bytes = chunk.subarray(this.#offset, this.#offset + most);
    const isLast = this.#offset + bytes.length === chunk.length;
    this.#pass(chunk, bytes.length);
    return { bytes, readChunk: isLast ? chunk : undefined };
  }

  async #first(): Promise<Buffer | undefined> {
    while (this.#chunks.length === 0 && this.#end === undefined) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    if (this.#chunks.length === 0 && this.#end?.error !== undefined) throw this.#end.error;
    return this.#chunks[0];
  }

  #add(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#waitingBytes += chunk.length;
    if (this.#waitingBytes >= mostWaitingBytes) this.#channel.pause();
    this.#wake();
  }

  #pass(chunk: Buffer, count: number): void {
    this.#offset += count;
    if (this.#offset < chunk.length) return;
    this.#offset = 0;
    this.#chunks.shift();
    this.#waitingBytes -= chunk.length;
    if (this.#waitingBytes < mostWaitingBytes && this.#channel.isPaused()) this.#channel.resume();
  }

  #finish(error: Error | undefined): void {
    this.#end ??= { error };
    this.#wake();
  }
}

/**
 * Frees a chunk that no one reads any more. The collector would free those of a large result only by collecting the whole heap again
 * and again.
 */
export function free({ buffer, byteLength }: Buffer): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0);
}
