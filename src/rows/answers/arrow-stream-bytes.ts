/** Makes an Arrow IPC stream of files of one schema, which may bring the dictionaries of each batch anew. */

import { openBatch } from '../../arrow/column/batch-buffers.ts';
import { type Block, endMarker, type IpcFile, readFooter } from '../../arrow/format/ipc-file.ts';
import { schemaMessage } from '../../arrow/schema/read-schema.ts';

export class ArrowStreamBytes {
  #hasSchema = false;
  #rows = 0;

  get rows(): number {
    return this.#rows;
  }

  *add(file: IpcFile): Generator<Buffer, void, void> {
    const { dictionaries, batches } = readFooter(file);
    if (!this.#hasSchema) yield Buffer.from(schemaMessage(file));
    this.#hasSchema = true;
    for (const block of dictionaries) yield messageAt(file, block);
    for (const block of batches) {
      this.#rows += openBatch(file, block).rows;
      yield messageAt(file, block);
    }
  }

  *end(): Generator<Buffer, void, void> {
    yield endMarker;
  }
}

const messageAt = (file: IpcFile, { offset, metaLength, bodyLength }: Block): Buffer =>
  file.subarray(offset, offset + metaLength + bodyLength);
