/**
 * Several IPC files of one schema as one, for results that the engine hands out batch by batch and takes back only whole.
 * Its own files only: nothing is checked here but what joining needs.
 */
import { invalidInput } from '../../kernel/errors.ts';
import type { Block, IpcFile } from '../format/ipc-file.ts';
import { magic, prefixBytes, readMessage } from '../format/message.ts';
import { fileTail } from '../format/reframe.ts';
import { schemaMessageStart } from '../schema/schema-message.ts';

interface Parsed {
  readonly schemaMessage: Buffer;
  /** The schema message with its prefix, as it stands in the file. */
  readonly schema: Buffer;
  readonly dictionaries: readonly Buffer[];
  readonly batches: readonly Buffer[];
}

/** Throws `InvalidInput` where more than one file has dictionaries: a file can hold each dictionary only once. */
export function joinFiles(files: readonly IpcFile[]): IpcFile {
  const [only, ...others] = files;
  if (only === undefined) throw new Error('no files to join');
  if (others.length === 0) return only;
  const parsed = files.map(parse);
  if (parsed.some((file) => file.dictionaries.length > 0)) {
    throw invalidInput('too many rows at once for a table with dictionary columns: send the source in smaller parts');
  }
  return assemble(
    parsed[0] as Parsed,
    parsed.flatMap((file) => file.batches),
  );
}

function parse(file: IpcFile): Parsed {
  const schema: Buffer[] = [];
  const dictionaries: Buffer[] = [];
  const batches: Buffer[] = [];
  const into = { schema, dictionary: dictionaries, batch: batches };
  let at = schemaMessageStart(file);
  for (;;) {
    const metadataBytes = file.readInt32LE(at + 4);
    if (metadataBytes === 0) break;
    const bodyAt = at + prefixBytes + metadataBytes;
    const { kind, bodyLength } = readMessage(file.subarray(at + prefixBytes, bodyAt));
    into[kind].push(file.subarray(at, bodyAt + bodyLength));
    at = bodyAt + bodyLength;
  }
  const first = schema[0];
  if (first === undefined) throw new Error('an IPC file without a schema message');
  return { schema: first, schemaMessage: first.subarray(prefixBytes), dictionaries, batches };
}

function assemble({ schema, schemaMessage }: Parsed, batches: readonly Buffer[]): IpcFile {
  const blocks: Block[] = [];
  let offset = magic.length + schema.length;
  for (const batch of batches) {
    const metaLength = prefixBytes + batch.readInt32LE(4);
    blocks.push({ offset, metaLength, bodyLength: batch.length - metaLength });
    offset += batch.length;
  }
  const tail = fileTail({ schemaMessage, dictionaries: [], batches: blocks });
  return Buffer.concat([magic, schema, ...batches, tail]) as IpcFile;
}
