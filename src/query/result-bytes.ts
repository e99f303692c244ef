import type { IpcFile } from '../arrow/format/ipc-file.ts';
import { FileStream } from '../arrow/stream/file-stream.ts';
import { lengthOf, mostReplyBytes } from './protocol.ts';

/** The batches of a result as the bytes of one file, in parts of one message each. */
export class ResultBytes {
  readonly #file = new FileStream();
  readonly #parts: AsyncIterator<Buffer>;
  /** What was cut off the last part. */
  #rest: Buffer = Buffer.alloc(0);

  constructor(batches: AsyncIterable<IpcFile>) {
    this.#parts = this.#partsOf(batches);
  }

  /** In what was read so far. */
  get rows(): number {
    return this.#file.rows;
  }

  /** At most so many bytes as a message may have; and whether they are the last. */
  async next(): Promise<{ readonly bytes: readonly Buffer[]; readonly isLast: boolean }> {
    const bytes: Buffer[] = [];
    for (let room = mostReplyBytes; room > 0; room = mostReplyBytes - lengthOf(bytes)) {
      const part = this.#rest.length > 0 ? this.#rest : await this.#nextPart();
      if (part === undefined) return { bytes, isLast: true };
      bytes.push(part.subarray(0, room));
      this.#rest = part.subarray(room);
    }
    return { bytes, isLast: false };
  }

  async #nextPart(): Promise<Buffer | undefined> {
    const next = await this.#parts.next();
    return next.done === true ? undefined : next.value;
  }

  async *#partsOf(batches: AsyncIterable<IpcFile>): AsyncGenerator<Buffer, void, void> {
    for await (const file of batches) yield* this.#file.add(file);
    yield* this.#file.end();
  }
}
