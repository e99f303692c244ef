import { invalidInput, LancegateError } from '../../kernel/errors.ts';
import { paired, pairedInEach } from '../../kernel/paired.ts';
import { openBatch } from '../column/batch-buffers.ts';
import { allRows, BatchPlan } from '../column/batch-plan.ts';
import { asBuffer, type Block, copyOf, type IpcFile, readFooter, writeFile } from '../format/ipc-file.ts';
import { readSchemaOfIpcFile, readSchemaTable, schemaMessage } from '../schema/read-schema.ts';
import type { IpcChunk } from '../schema/schema.ts';
import { canEncode, DictionaryFull, EncodedColumns } from './encoded-columns.ts';

const bodyBytes = (blocks: readonly Block[]): number => blocks.reduce((sum, { bodyLength }) => sum + bodyLength, 0);

/**
 * Makes a chunk of a file that the engine wrote, so that keys can be read from it. The footer and the batches are believed, and
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
 * Makes several IPC files of one schema one, for results that the engine hands out batch by batch and takes back only whole. The
 * footers are believed. A file can hold each dictionary only once: throws `InvalidInput` where one cannot have all their values.
 */
export function joinFiles(files: readonly IpcFile[]): IpcFile {
  const [first, ...others] = files;
  if (first === undefined) throw new LancegateError('Internal', 'no files to join');
  if (others.length === 0) return first;
  const chunks = files.map(chunkOfFile);
  if (chunks.some(({ dictionaries }) => dictionaries.length > 0)) return joinEncoded(first, chunks);
  const batches = chunks.flatMap((chunk) => chunk.batches.map((block) => copyOf(chunk.file, block)));
  return writeFile(schemaMessage(first), [], batches).file;
}

function joinEncoded(first: IpcFile, chunks: readonly IpcChunk[]): IpcFile {
  const { fields } = readSchemaOfIpcFile(first);
  const full = 'too many rows at once for a table with dictionary columns: send the source in smaller parts';
  if (!canEncode(fields)) throw invalidInput(full);
  const read = new EncodedColumns();
  const batches = chunks.flatMap((chunk) => read.read(chunk));
  const encoding = read.encoding();
  const plan = new BatchPlan(encoding.encode);
  try {
    const ofBatches = batches.map(({ columns }) => columns);
    for (const [field, columns] of pairedInEach(fields, ofBatches)) {
      const slices = paired(columns, batches).map(([data, { rows }]) => ({ data, runs: allRows(rows) }));
      plan.addColumn(field, slices);
    }
  } catch (error) {
    throw error instanceof DictionaryFull ? invalidInput(full) : error;
  }
  const message = plan.message(batches.reduce((sum, { rows }) => sum + rows, 0));
  const dictionaries = encoding.messages().map((dictionary) => dictionary.message);
  return writeFile(schemaMessage(first), dictionaries, [message]).file;
}
