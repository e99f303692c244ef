import type { Schema } from '../schema/schema.ts';

declare const ipcFile: unique symbol;
/**
 * One complete Arrow IPC *file* in one buffer, structurally checked: the only form in which bytes may reach the engine
 * (docs/engine-facts.md, "Crashes and lies"). Only `arrow/` makes them.
 */
export type IpcFile = Buffer & { readonly [ipcFile]: true };

/** Where one message lies in `IpcChunk.file`, in bytes from its start. */
export interface Block {
  readonly offset: number;
  readonly metaLength: number;
  readonly bodyLength: number;
}

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

/**
 * A client's Arrow IPC stream on its way in. Nothing is read from the network before a method is called. Every method
 * throws `LancegateError`: `InvalidInput` naming the message at fault, `BodyTooLarge`, or the abort reason of the request.
 */
export interface ArrowSource {
  /** The schema, as soon as its message has arrived. May be called again. */
  schema(): Promise<Schema>;
  /** Everything, in chunks of about the configured size, each complete by itself; at least one, perhaps of no rows. */
  chunks(): AsyncIterable<IpcChunk>;
  /**
   * Everything as one chunk, or `BodyTooLarge` beyond the configured maximum. `nullBytesPerRow` is what each row takes in
   * columns that the source leaves out; it counts like decompressed bytes of the body.
   */
  whole(nullBytesPerRow?: number): Promise<IpcChunk>;
  /** Releases every chunk that was not released, and ends the source. To be called when the request is over. */
  close(): void;
}
