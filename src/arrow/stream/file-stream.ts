/**
 * Makes many IPC files of one schema one file, in parts as they come: the schema, the record batches byte for byte, and the footer
 * at the end. A footer may list dictionaries that lie behind the batches, so those of all files are joined there.
 *
 * The files are the engine's own and are believed. A reader of the whole holds no more than one of them, and the dictionaries.
 */
import { LancegateError } from '../../kernel/errors.ts';
import { openBatch } from '../column/batch-buffers.ts';
import { type Block, fileTail, type IpcFile, ownFile, readFooter } from '../format/ipc-file.ts';
import { magic, prefixBytes } from '../format/message.ts';
import { readSchemaTable, schemaMessage } from '../schema/read-schema.ts';
import { JoinedDictionaries } from './joined-dictionaries.ts';

export const rowsOfFile = (file: IpcFile): number =>
  readFooter(file).batches.reduce((rows, block) => rows + openBatch(file, block).rows, 0);

/** Moves a file to an address at which its buffers can be changed in place. */
const aligned = (file: IpcFile): IpcFile =>
  file.byteOffset % 8 === 0 ? file : ownFile(Buffer.from(Uint8Array.from(file).buffer));

export class FileStream {
  #schema: Buffer | undefined;
  #dictionaries: JoinedDictionaries | undefined;
  readonly #batches: Block[] = [];
  #at = 0;
  #rows = 0;

  get rows(): number {
    return this.#rows;
  }

  /** Gives the next bytes of the whole; they may be views of `file`. */
  *add(given: IpcFile): Generator<Buffer, void, void> {
    const file = aligned(given);
    const footer = readFooter(file);
    const schema = schemaMessage(file);
    if (this.#schema === undefined) {
      this.#schema = Buffer.from(schema);
      this.#dictionaries = JoinedDictionaries.of(readSchemaTable(footer.schema));
      yield this.#next(magic);
      yield this.#next(this.#schema);
    } else if (!this.#schema.equals(schema)) {
      throw new LancegateError('Internal', 'the batches of a result have different schemas');
    }
    this.#dictionaries?.add(file, footer.dictionaries);
    for (const block of footer.batches) {
      const batch = openBatch(file, block);
      this.#rows += batch.rows;
      this.#dictionaries?.shift(batch);
      this.#batches.push({ ...block, offset: this.#at });
      yield this.#next(file.subarray(block.offset, block.offset + block.metaLength + block.bodyLength));
    }
  }

  /** Gives the last bytes. At least one file was added. */
  *end(): Generator<Buffer, void, void> {
    if (this.#schema === undefined) throw new LancegateError('Internal', 'a file needs a schema');
    const dictionaries: Block[] = [];
    for (const { head, bodyLength, fill } of this.#dictionaries?.messages() ?? []) {
      dictionaries.push({ offset: this.#at, metaLength: head.length, bodyLength });
      yield this.#next(head);
      const body = Buffer.alloc(bodyLength);
      fill(body);
      yield this.#next(body);
    }
    yield this.#next(fileTail(this.#schema.subarray(prefixBytes), { dictionaries, batches: this.#batches }));
  }

  #next(bytes: Buffer): Buffer {
    this.#at += bytes.length;
    return bytes;
  }
}
