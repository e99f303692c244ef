import type { IpcChunk } from '../schema/ipc-chunk.ts';
import type { Schema } from '../schema/schema.ts';

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
