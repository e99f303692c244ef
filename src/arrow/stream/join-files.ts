import { invalidInput } from '../../kernel/errors.ts';
import { readFooter } from '../format/file-blocks.ts';
import type { IpcFile } from '../format/ipc-file.ts';
import { copyOf, writeFile } from '../format/write-file.ts';
import { schemaMessage } from '../schema/schema-message.ts';

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
  return writeFile(schemaMessage({ file: first }), [], batches).file;
}
