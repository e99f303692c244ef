import { Builder } from 'flatbuffers';
import { addCopy, type FlatTable, finishMessage } from '../format/message.ts';

/**
 * Makes the message of a schema of fields that other schemas have, with the metadata of `schema` where that is given. The bytes of the
 * fields are copied, so no type or metadata is lost that this code does not know.
 */
export function schemaOfFields(fields: readonly FlatTable[], schema?: FlatTable): Buffer {
  const builder = new Builder();
  const copies = new Map<Buffer, number>();
  const copyOf = ({ bytes }: FlatTable): number => {
    const copy = copies.get(bytes) ?? addCopy(builder, bytes);
    copies.set(bytes, copy);
    return copy;
  };
  const offsets = fields.map((field) => copyOf(field) - field.at);
  const metadata = schema?.vector(2, 4).at ?? 0;
  const metadataAt = schema === undefined || metadata === 0 ? 0 : copyOf(schema) - (metadata - 4);
  const vector = addOffsets(builder, offsets);
  builder.startObject(4);
  builder.addFieldOffset(1, vector, 0);
  builder.addFieldOffset(2, metadataAt, 0);
  return finishMessage(builder, 'schema', builder.endObject(), 0);
}

export function addOffsets(builder: Builder, offsets: readonly number[]): number {
  builder.startVector(4, offsets.length, 4);
  for (const offset of offsets.toReversed()) builder.addOffset(offset);
  return builder.endVector();
}
