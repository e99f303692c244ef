/** The thread of `threaded-text.ts`: writes one result after the other, a part each time that it is asked. */
import { parentPort } from 'node:worker_threads';
import { asBuffer, type IpcFile } from '../arrow/format/ipc-file.ts';
import { LancegateError } from '../kernel/errors.ts';
import { RowText } from '../rows/answers/row-text.ts';
import { mostReplyBytes, plainError } from './protocol.ts';
import type { ToWrite, WrittenText } from './threaded-text.ts';

class ResultWriter {
  #text: RowText | undefined;
  #parts: Iterator<Buffer, void> = [][Symbol.iterator]();

  answer(asked: ToWrite): WrittenText {
    try {
      this.#take(asked);
      const next = this.#parts.next();
      return { part: next.done === true ? undefined : next.value, rows: this.#text?.rows ?? 0 };
    } catch (error) {
      return { fault: plainError(error) };
    }
  }

  #take(asked: ToWrite): void {
    if (asked.kind === 'begin') this.#text = new RowText(asked.form, mostReplyBytes, asked.rows);
    const text = this.#text;
    if (text === undefined) throw new LancegateError('Internal', 'no result was begun');
    if (asked.kind === 'add') this.#parts = text.add(asBuffer(asked.file) as IpcFile);
    if (asked.kind === 'end') this.#parts = text.end();
  }
}

const writer = new ResultWriter();
parentPort?.on('message', (asked: ToWrite) => parentPort?.postMessage(writer.answer(asked)));
