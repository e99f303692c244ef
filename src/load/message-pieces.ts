/** Reads the messages of an Arrow IPC stream that comes in pieces, which end anywhere. */
import { endMarker } from '../arrow/format/ipc-file.ts';
import { continuation, type Message, prefixBytes, readMessage } from '../arrow/format/message.ts';
import { invalidInput } from '../kernel/errors.ts';

export class PieceReader {
  readonly #pieces: AsyncIterator<Uint8Array>;
  readonly #whenCut: string;
  #pending: Uint8Array = new Uint8Array(0);

  /** `whenCut` is said where the pieces end within a message. */
  constructor(pieces: AsyncIterable<Uint8Array>, whenCut: string) {
    this.#pieces = pieces[Symbol.asyncIterator]();
    this.#whenCut = whenCut;
  }

  /** Reads `length` bytes, or fewer at the end. */
  async take(length: number): Promise<Buffer> {
    const parts: Uint8Array[] = [];
    for (let left = length; left > 0; ) {
      if (this.#pending.length === 0) {
        const { done, value } = await this.#pieces.next();
        if (done) break;
        this.#pending = value;
      }
      const part = this.#pending.subarray(0, left);
      this.#pending = this.#pending.subarray(part.length);
      parts.push(part);
      left -= part.length;
    }
    return Buffer.concat(parts);
  }

  async takeAll(length: number): Promise<Buffer> {
    const bytes = await this.take(length);
    if (bytes.length < length) throw invalidInput(this.#whenCut);
    return bytes;
  }
}

interface MessageFromPieces extends Message {
  readonly metadata: Buffer;
  readonly body: Buffer;
}

/** Reads the message behind `prefix`; there is none where that is the end marker, or empty. */
export async function messageBehind(prefix: Buffer, pieces: PieceReader): Promise<MessageFromPieces | undefined> {
  if (prefix.length === 0 || prefix.equals(endMarker)) return undefined;
  if (prefix.length < prefixBytes || prefix.readInt32LE(0) !== continuation)
    throw invalidInput('no message begins where the next one should');
  const metadata = await pieces.takeAll(prefix.readUInt32LE(4));
  // Some writers align by four bytes; all that is sent is written anew.
  const message = readMessage(metadata, 4);
  return { ...message, metadata, body: await pieces.takeAll(message.bodyLength) };
}
