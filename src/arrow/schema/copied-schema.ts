import { Builder } from 'flatbuffers';
import { addCopy, FlatTable, finishMessage, prefixBytes } from '../format/message.ts';

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
  return finishSchema(builder, offsets, metadataAt);
}

export function finishSchema(builder: Builder, fields: readonly number[], metadata = 0): Buffer {
  const vector = addOffsets(builder, fields);
  builder.startObject(4);
  builder.addFieldOffset(1, vector, 0);
  builder.addFieldOffset(2, metadata, 0);
  return finishMessage(builder, 'schema', builder.endObject(), 0);
}

export function addOffsets(builder: Builder, offsets: readonly number[]): number {
  builder.startVector(4, offsets.length, 4);
  for (const offset of offsets.toReversed()) builder.addOffset(offset);
  return builder.endVector();
}

/** The numbers of the fields of `Field` in Arrow's Schema.fbs. */
export const fieldOf = {
  name: 0,
  nullable: 1,
  typeNumber: 2,
  type: 3,
  dictionary: 4,
  children: 5,
  metadata: 6,
} as const;
type FieldParts = Readonly<Record<keyof typeof fieldOf, number>>;

/** A schema message is copied into `builder`, so that fields can point at its parts. */
export class CopiedSchema {
  readonly fields: readonly FlatTable[];
  readonly #copy: number;

  constructor(builder: Builder, message: Buffer) {
    const metadata = message.subarray(prefixBytes);
    this.#copy = addCopy(builder, metadata);
    this.fields = [...(FlatTable.root(metadata).table(2)?.tables(1) ?? [])];
  }

  /** Says where the copy has a table; 0 where there is none. */
  at(table: FlatTable | undefined): number {
    return table === undefined ? 0 : this.#copy - table.at;
  }

  partsOf(field: FlatTable): FieldParts {
    return {
      name: this.#vectorAt(field, fieldOf.name),
      nullable: field.uint8(fieldOf.nullable),
      typeNumber: field.uint8(fieldOf.typeNumber),
      type: this.at(field.table(fieldOf.type)),
      dictionary: this.at(field.table(fieldOf.dictionary)),
      children: this.#vectorAt(field, fieldOf.children),
      metadata: this.#vectorAt(field, fieldOf.metadata),
    };
  }

  /** Says where the copy has a text or a vector, which begins with its length; 0 where there is none. */
  #vectorAt(field: FlatTable, number: number): number {
    const { at } = field.vector(number, 1);
    return at === 0 ? 0 : this.#copy - (at - Uint32Array.BYTES_PER_ELEMENT);
  }
}

export function addField(builder: Builder, parts: FieldParts): number {
  builder.startObject(7);
  for (const name of ['metadata', 'children', 'dictionary', 'type', 'name'] as const)
    builder.addFieldOffset(fieldOf[name], parts[name], 0);
  for (const name of ['typeNumber', 'nullable'] as const) builder.addFieldInt8(fieldOf[name], parts[name], 0);
  return builder.endObject();
}
