import { invalidInput } from '../../kernel/errors.ts';
import { openBatch } from '../column/batch-buffers.ts';
import { asBuffer, type Block, copyOf, type IpcFile, readFooter, writeFile } from '../format/ipc-file.ts';
import { readSchemaTable, schemaMessage } from '../schema/read-schema.ts';
import type { IpcChunk } from '../schema/schema.ts';

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

/**
 * Several IPC files of one schema as one, for results that the engine hands out batch by batch and takes back only whole. The
 * footers are believed. Throws `InvalidInput` where one has dictionaries: a file can hold each dictionary only once.
 */
export function joinFiles(files: readonly IpcFile[]): IpcFile {
  const [first, ...others] = files;
  if (first === undefined) throw new Error('no files to join');
  if (others.length === 0) return first;
  const batches = files.flatMap((file) => {
    const footer = readFooter(file);
    if (footer.dictionaries.length === 0) return footer.batches.map((block) => copyOf(file, block));
    throw invalidInput('too many rows at once for a table with dictionary columns: send the source in smaller parts');
  });
  return writeFile(schemaMessage(first), [], batches).file;
}
