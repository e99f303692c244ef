/** Columns of a source as a file without rows, from which the engine adds them to a table. The bytes are copied, so no type is lost. */
import { Builder } from 'flatbuffers';
import { fileTail, type IpcFile, ownFile } from '../format/ipc-file.ts';
import { magic, prefixBytes } from '../format/message.ts';
import { addField, CopiedSchema, fieldOf, finishSchema } from './copied-schema.ts';
import { schemaMessage } from './read-schema.ts';

/** Has the columns of these names as the source declares them, but that they allow NULL. */
export function fileOfColumns(names: ReadonlySet<string>, source: IpcFile): IpcFile {
  const builder = new Builder();
  const copied = new CopiedSchema(builder, schemaMessage(source));
  const wanted = copied.fields.filter((field) => names.has(field.text(fieldOf.name) ?? ''));
  const offsets = wanted.map((field) => addField(builder, { ...copied.partsOf(field), nullable: 1 }));
  return fileOfSchema(finishSchema(builder, offsets));
}

/** A copy of the file but for its rows. */
export const withoutRows = (file: IpcFile): IpcFile => fileOfSchema(schemaMessage(file));

const fileOfSchema = (message: Buffer): IpcFile =>
  ownFile(Buffer.concat([magic, message, fileTail(message.subarray(prefixBytes), { dictionaries: [], batches: [] })]));
