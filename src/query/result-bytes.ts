import type { IpcFile } from '../arrow/format/ipc-file.ts';
import { FileStream } from '../arrow/stream/file-stream.ts';
import type { AnswerForm } from '../rows/answer-form.ts';
import { ArrowStreamBytes } from '../rows/answers/arrow-stream-bytes.ts';
import { RowText } from '../rows/answers/row-text.ts';
import { mostReplyBytes } from './protocol.ts';

/** Batches as bytes, in parts as they come. */
interface AnswerBytes {
  /** In the batches so far. */
  readonly rows: number;
  /** Parts may be views of the batch, and of memory that is written again once two more messages are full. */
  add(batch: IpcFile): Iterator<Buffer, void>;
  end(): Iterator<Buffer, void>;
}

export function answerBytesOf(form: AnswerForm): AnswerBytes {
  switch (form.kind) {
    case 'arrow file':
      return new FileStream();
    case 'arrow stream':
      return new ArrowStreamBytes();
    case 'text':
      return new RowText(form, mostReplyBytes);
  }
}

/** The batches of a result as the bytes of one answer, in parts of one message each. */
export class ResultBytes {
  readonly #encoding: AnswerBytes;
  readonly #batches: AsyncIterator<IpcFile>;
  /** The bytes of the batch that was read last, and then those that end the file. */
  #parts: Iterator<Buffer, void> = [][Symbol.iterator]();
  #hasEnd = false;
  /** What was cut off the last part. */
  #rest: Buffer = Buffer.alloc(0);

  constructor(batches: AsyncIterable<IpcFile>, encoding: AnswerBytes) {
    this.#encoding = encoding;
    this.#batches = batches[Symbol.asyncIterator]();
  }

  /** In what was read so far. */
  get rows(): number {
    return this.#encoding.rows;
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
    this.#parts = done === true ? this.#encoding.end() : this.#encoding.add(value);
  }
}
