/**
 * Messages over a byte stream: a header of JSON and, for rows, bytes. Each is eight bytes of lengths (header, bytes; little
 * endian), the header and the bytes. The stream's back-pressure applies to the messages, so a result of any length can be
 * sent as one message for each batch.
 */
import type { Duplex } from 'node:stream';

export interface MessageFrame {
  readonly header: unknown;
  readonly bytes: Buffer;
}

const lengthsBytes = 8;
const noBytes = Buffer.alloc(0);

export function writeFrame(channel: Duplex, header: unknown, bytes: Uint8Array = noBytes): void {
  channel.write(frameHead(header, bytes.length));
  if (bytes.length > 0) channel.write(bytes);
}

/** The lengths and the header of a message. */
export function frameHead(header: unknown, bytesLength = 0): Buffer {
  const text = Buffer.from(JSON.stringify(header));
  const lengths = Buffer.alloc(lengthsBytes);
  lengths.writeUInt32LE(text.length, 0);
  lengths.writeUInt32LE(bytesLength, 4);
  return Buffer.concat([lengths, text]);
}

/** Throws on a malformed frame, or one with more bytes than `mostBytes`; ends when the stream does. */
export async function* readFrames(channel: Duplex, mostBytes: number): AsyncGenerator<MessageFrame, void, void> {
  const incoming = new Incoming(channel);
  for (;;) {
    const lengths = await incoming.take(lengthsBytes);
    if (lengths === undefined) return;
    const headerLength = lengths.readUInt32LE(0);
    const bytesLength = lengths.readUInt32LE(4);
    // A header fits a predicate of the largest JSON body, escaped.
    if (headerLength > 64 * 2 ** 20 || bytesLength > mostBytes) throw new Error('a message is too long');
    const text = await incoming.take(headerLength);
    const bytes = await incoming.take(bytesLength);
    if (text === undefined || bytes === undefined) throw new Error('the channel ended in the middle of a message');
    yield { header: JSON.parse(text.toString()) as unknown, bytes };
  }
}

/** Reads a stream by numbers of bytes. */
class Incoming {
  readonly #chunks: AsyncIterator<Buffer>;
  #rest: Buffer = noBytes;

  constructor(channel: Duplex) {
    this.#chunks = channel[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  }

  /** A view of one chunk, or a new buffer for bytes from several; undefined if the stream ends before. */
  async take(count: number): Promise<Buffer | undefined> {
    if (count <= this.#rest.length) return this.#cut(count);
    const whole = Buffer.allocUnsafe(count);
    let filled = this.#cut(this.#rest.length).copy(whole);
    while (filled < count) {
      const next = await this.#chunks.next();
      if (next.done === true) return undefined;
      this.#rest = next.value;
      filled += this.#cut(Math.min(count - filled, this.#rest.length)).copy(whole, filled);
    }
    return whole;
  }

  #cut(count: number): Buffer {
    const cut = this.#rest.subarray(0, count);
    this.#rest = this.#rest.subarray(count);
    return cut;
  }
}
