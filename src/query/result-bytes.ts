import type { IpcFile } from '../arrow/format/ipc-file.ts';
import { FileStream } from '../arrow/stream/file-stream.ts';
import { mostReplyBytes } from './protocol.ts';

/** The batches of a result as the bytes of one file, in parts of one message each. */
export class ResultBytes {
  readonly #file = new FileStream();
  readonly #batches: AsyncIterator<IpcFile>;
  /** The bytes of the batch that was read last, and then those that end the file. */
  #parts: Iterator<Buffer, void> = [][Symbol.iterator]();
  #hasEnd = false;
  /** What was cut off the last part. */
  #rest: Buffer = Buffer.alloc(0);

  constructor(batches: AsyncIterable<IpcFile>) {
    this.#batches = batches[Symbol.asyncIterator]();
  }

  /** In what was read so far. */
  get rows(): number {
    return this.#file.rows;
  }

  /** At most so many bytes as a message may have; and whether they are the last. */
  async next(): Promise<{ readonly bytes: readonly Buffer[]; readonly isLast: boolean }> {
    const bytes: Buffer[] = [];
    let room = mostReplyBytes;
    while (room > 0) {
      const part = this.#rest.length > 0 ? this.#rest : this.#parts.next().value;
      if (part === undefined) {
        if (this.#hasEnd) return { bytes, isLast: true };
        await this.#readBatch();
        continue;
      }
      const taken = part.subarray(0, room);
      bytes.push(taken);
      this.#rest = part.subarray(room);
      room -= taken.length;
    }
    return { bytes, isLast: false };
  }

  async #readBatch(): Promise<void> {
    const { done, value } = await this.#batches.next();
    this.#hasEnd = done === true;
    this.#parts = done === true ? this.#file.end() : this.#file.add(value);
  }
}
