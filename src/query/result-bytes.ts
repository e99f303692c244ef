import type { IpcFile } from '../arrow/format/ipc-file.ts';
import { FileStream } from '../arrow/stream/file-stream.ts';
import { mostReplyBytes } from './protocol.ts';

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

  async next(): Promise<{ readonly bytes: Buffer; readonly isLast: boolean }> {
    const parts: Buffer[] = [];
    let length = 0;
    for (;;) {
      const part = this.#rest.length > 0 ? this.#rest : await this.#nextPart();
      if (part === undefined) return { bytes: Buffer.concat(parts), isLast: true };
      const taken = part.subarray(0, mostReplyBytes - length);
      this.#rest = part.subarray(taken.length);
      parts.push(taken);
      length += taken.length;
      if (length === mostReplyBytes) return { bytes: parts.length === 1 ? taken : Buffer.concat(parts), isLast: false };
    }
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
