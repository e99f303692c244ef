/**
 * Makes the schema of changed rows: what was done to each row, and the columns of its table. All of them allow NULL, since a deleted row
 * has its key alone.
 */
import { Builder } from 'flatbuffers';
import { type IpcFile, writeFile } from '../format/ipc-file.ts';
import { addCopy, FlatTable, finishMessage, prefixBytes } from '../format/message.ts';
import { schemaMessage } from './read-schema.ts';

export const changeColumn = '_change';
export const versionColumn = '_version';

/** Field numbers of `Field` in Arrow's Schema.fbs. */
const fieldOf = { name: 0, nullable: 1, typeNumber: 2, type: 3, dictionary: 4, children: 5, metadata: 6 } as const;
const intType = 2;
const textType = 5;

/** A file without rows. The bytes of types and metadata are copied, so none is lost that this code does not know. */
export function changesFile(table: IpcFile, columns: ReadonlySet<string>): IpcFile {
  const metadata = schemaMessage(table).subarray(prefixBytes);
  const builder = new Builder();
  const copy = addCopy(builder, metadata);
  const stored = [...(FlatTable.root(metadata).table(2)?.tables(1) ?? [])];
  const fields = stored.filter((each) => columns.has(each.text(fieldOf.name) ?? ''));
  const offsets = [
    plainField(builder, changeColumn, textType),
    plainField(builder, versionColumn, intType),
    ...fields.map((each) => nullableField(builder, copy, each)),
  ];
  builder.startVector(4, offsets.length, 4);
  for (const offset of offsets.toReversed()) builder.addOffset(offset);
  const vector = builder.endVector();
  builder.startObject(4);
  builder.addFieldOffset(1, vector, 0);
  return writeFile(finishMessage(builder, 'schema', builder.endObject(), 0), [], []).file;
}

function nullableField(builder: Builder, copy: number, field: FlatTable): number {
  const vectorAt = (number: number): number => {
    const { at } = field.vector(number, 1);
    return at === 0 ? 0 : copy - (at - Uint32Array.BYTES_PER_ELEMENT);
  };
  const tableAt = (number: number): number => {
    const table = field.table(number);
    return table === undefined ? 0 : copy - table.at;
  };
  builder.startObject(7);
  builder.addFieldOffset(fieldOf.metadata, vectorAt(fieldOf.metadata), 0);
  builder.addFieldOffset(fieldOf.children, vectorAt(fieldOf.children), 0);
  builder.addFieldOffset(fieldOf.dictionary, tableAt(fieldOf.dictionary), 0);
  builder.addFieldOffset(fieldOf.type, tableAt(fieldOf.type), 0);
  builder.addFieldOffset(fieldOf.name, vectorAt(fieldOf.name), 0);
  builder.addFieldInt8(fieldOf.typeNumber, field.uint8(fieldOf.typeNumber), 0);
  builder.addFieldInt8(fieldOf.nullable, 1, 0);
  return builder.endObject();
}

/** A text, or an integer of 64 bits. */
function plainField(builder: Builder, name: string, typeNumber: typeof intType | typeof textType): number {
  const text = builder.createString(name);
  builder.startVector(4, 0, 4);
  const children = builder.endVector();
  builder.startObject(typeNumber === intType ? 2 : 0);
  if (typeNumber === intType) {
    builder.addFieldInt32(0, 64, 0);
    builder.addFieldInt8(1, 1, 0);
  }
  const type = builder.endObject();
  builder.startObject(7);
  builder.addFieldOffset(fieldOf.children, children, 0);
  builder.addFieldOffset(fieldOf.type, type, 0);
  builder.addFieldOffset(fieldOf.name, text, 0);
  builder.addFieldInt8(fieldOf.typeNumber, typeNumber, 0);
  return builder.endObject();
}
