/**
 * Makes the schema of changed rows: what was done to each row, and the columns of its table. All of them allow NULL, since a deleted row
 * has its key alone.
 */
import { Builder } from 'flatbuffers';
import { type IpcFile, writeFile } from '../format/ipc-file.ts';
import { addField, addOffsets, CopiedSchema, fieldOf, finishSchema } from './copied-schema.ts';
import { schemaMessage } from './read-schema.ts';

export const changeColumn = '_change';
export const versionColumn = '_version';

const intType = 2;
const textType = 5;

/** Makes a file without rows. It copies the bytes of types and metadata, so it loses none that this code does not know. */
export function changesFile(table: IpcFile, columns: ReadonlySet<string>): IpcFile {
  const builder = new Builder();
  const stored = new CopiedSchema(builder, schemaMessage(table));
  const fields = stored.fields.filter((each) => columns.has(each.text(fieldOf.name) ?? ''));
  const offsets = [
    plainField(builder, changeColumn, textType),
    plainField(builder, versionColumn, intType),
    ...fields.map((each) => addField(builder, { ...stored.partsOf(each), nullable: 1 })),
  ];
  return writeFile(finishSchema(builder, offsets), [], []).file;
}

/** Writes a text, or an integer of 64 bits, byte for byte: readers do not load the library that `schemaBytes` needs. */
function plainField(builder: Builder, name: string, typeNumber: typeof intType | typeof textType): number {
  const text = builder.createString(name);
  const children = addOffsets(builder, []);
  builder.startObject(typeNumber === intType ? 2 : 0);
  if (typeNumber === intType) {
    builder.addFieldInt32(0, 64, 0);
    builder.addFieldInt8(1, 1, 0);
  }
  const type = builder.endObject();
  return addField(builder, { name: text, nullable: 0, typeNumber, type, dictionary: 0, children, metadata: 0 });
}
