import type { Block, IpcFile } from '../format/ipc-file.ts';
import type { Schema } from './schema.ts';

/** A part of a source, or all of it: a file the engine takes, and what is known of it without decoding. */
export interface IpcChunk {
  readonly file: IpcFile;
  readonly schema: Schema;
  readonly dictionaries: readonly Block[];
  readonly batches: readonly Block[];
  readonly rows: number;
  /** Bytes of all buffers after decompression, and of the NULLs in columns that the source leaves out. */
  readonly decodedBytes: number;
  /** Gives the memory of `file` to the next body. Nothing of the chunk may be used afterwards, nor keys read from it. */
  release(): void;
}
