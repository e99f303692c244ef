import { openBatch } from '../column/batch-buffers.ts';
import { asBuffer, readFooter } from '../format/file-blocks.ts';
import type { Block, IpcFile } from '../format/ipc-file.ts';
import type { IpcChunk } from '../schema/ipc-chunk.ts';
import { readSchemaTable } from '../schema/read-schema.ts';

const bodyBytes = (blocks: readonly Block[]): number => blocks.reduce((sum, { bodyLength }) => sum + bodyLength, 0);

/**
 * A file that the engine wrote, as a chunk, so that keys can be read from it. The footer and the batches are believed, and
 * `decodedBytes` supposes that nothing is compressed, as the engine's results never are. `release` does nothing.
 */
export function chunkOfFile(file: IpcFile): IpcChunk {
  const { schema, dictionaries, batches } = readFooter(file);
  const bytes = asBuffer(file);
  return {
    file,
    schema: readSchemaTable(schema),
    dictionaries,
    batches,
    rows: batches.reduce((sum, block) => sum + openBatch(bytes, block).rows, 0),
    decodedBytes: bodyBytes(dictionaries) + bodyBytes(batches),
    release: () => undefined,
  };
}
