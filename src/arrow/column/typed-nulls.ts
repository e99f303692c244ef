/**
 * Rewrites columns of Arrow's type Null with the table's type. A program that has seen no value of a column sends it so, as
 * pyarrow does with a list of `None`, also inside a struct or a list. The engine refuses them if the table has another type, so
 * they are rewritten: NULL in every row.
 *
 * The schema of the result points into copies of both schema messages, field by field, as the footer of a file does
 * (`ipc-file.ts`): so no type or metadata is lost, also none that this code does not know.
 */
import { Builder } from 'flatbuffers';
import { copyOf, type IpcFile, writeFile } from '../format/ipc-file.ts';
import { addCopy, FlatTable, finishMessage, prefixBytes } from '../format/message.ts';
import { schemaMessage } from '../schema/read-schema.ts';
import { bytesOfBits, childrenOf, columnLayout, type Field, type IpcChunk, type Schema } from '../schema/schema.ts';
import { holdsNull, isNull, refuseColumn, targetOf, typedSchema } from '../schema/schema-rules.ts';
import { allRows, BatchPlan } from './batch-plan.ts';
import { type ColumnData, readColumns } from './column-data.ts';

const isEncoded = ({ dictionary, children }: Field): boolean => dictionary !== undefined || children.some(isEncoded);

/** For NULLs inside structs and lists. A list can have more items than rows, and the body's reservation does not cover them. */
const mostInnerBytes = 64 * 2 ** 20;

/**
 * The chunk with the types of the table, which its schema fits (`checkSourceFits`): the same chunk if no column needs to be
 * rewritten, else a new one, uncompressed. The reservation of the old one covers both. Throws `InvalidInput` on invalid
 * buffers, and `TableSchemaValidationError` if the table's column is dictionary-encoded: its dictionary is not in the source.
 */
export function typeNulls(chunk: IpcChunk, table: Schema, tableFile: IpcFile): IpcChunk {
  const { fields } = chunk.schema;
  const typed = fields.flatMap((field) => targetOf(field, table) ?? []);
  if (typed.length === 0) return chunk;
  const encoded = typed.find(isEncoded);
  if (encoded !== undefined)
    throw refuseColumn([encoded.name], 'is of type null, and dictionary-encoded in the table: send it typed');
  const schema = typedSchema(chunk.schema, table);
  const inner = { bytes: 0 };
  const batches = readColumns(chunk).map(({ rows, columns }) => {
    const plan = new BatchPlan();
    for (const [i, field] of schema.fields.entries()) {
      const data = typedData(columns[i]!, fields[i]!, field, inner);
      plan.addColumn(field, [{ data, runs: allRows(rows) }]);
    }
    return plan.message(rows);
  });
  const dictionaries = chunk.dictionaries.map((block) => copyOf(chunk.file, block));
  const made = writeFile(typedSchemaMessage(chunk, table, tableFile), dictionaries, batches);
  const decodedBytes = Math.max(chunk.decodedBytes, made.file.length);
  return { ...made, schema, rows: chunk.rows, decodedBytes, release: chunk.release };
}

function typedData(data: ColumnData, field: Field, target: Field, inner: { bytes: number }, depth = 0): ColumnData {
  if (isNull(field)) {
    if (depth > 0) requireModest(target, data.length, inner);
    return nulls(target, data.length);
  }
  if (!holdsNull(field)) return data;
  const children = data.children.map((child, i) =>
    typedData(child, field.children[i]!, target.children[i]!, inner, depth + 1),
  );
  return { ...data, children };
}

function requireModest(target: Field, length: number, inner: { bytes: number }): void {
  inner.bytes += length * nullBytes([target]);
  if (inner.bytes <= mostInnerBytes) return;
  throw refuseColumn(
    [target.name],
    `is of type null ${length} times inside another column: send it with the table's type`,
  );
}

/** A field without NULL has none inside a struct that is NULL: what it holds there counts for nothing. */
function nulls(field: Field, length: number, hasNulls = true): ColumnData {
  const { offsetBytes, valueBits = 0, childValues = 0 } = columnLayout(field);
  return {
    length,
    validity: hasNulls && length > 0 ? new Uint8Array(bytesOfBits(length)) : undefined,
    bytes: new Uint8Array(bytesOfBits(length * valueBits)),
    offsets: new Uint32Array(offsetBytes === 0 ? 0 : length + 1),
    children: field.children.map((child) => nulls(child, length * childValues, child.nullable)),
  };
}

/** The message of the typed schema: its fields are those of copies of both schema messages. */
function typedSchemaMessage(chunk: IpcChunk, table: Schema, tableFile: IpcFile): Buffer {
  const source = schemaMessage(chunk.file).subarray(prefixBytes);
  const target = schemaMessage(tableFile).subarray(prefixBytes);
  const builder = new Builder();
  const fromSource = fieldOffsets(builder, source);
  const fromTarget = fieldOffsets(builder, target);
  const { fields } = chunk.schema;
  builder.startVector(4, fields.length, 4);
  for (const field of fields.toReversed()) {
    const isTyped = targetOf(field, table) !== undefined;
    builder.addOffset((isTyped ? fromTarget : fromSource).get(field.name)!);
  }
  const typed = builder.endVector();
  builder.startObject(4);
  builder.addFieldOffset(fieldsOfSchema, typed, 0);
  return finishMessage(builder, 'schema', builder.endObject(), 0);
}

/** Field numbers of `Message` and `Schema`. */
const header = 2;
const fieldsOfSchema = 1;

/** Copies a schema message into `builder`. Answers what `addOffset` takes for the table of each column. */
function fieldOffsets(builder: Builder, metadata: Buffer): ReadonlyMap<string, number> {
  const copy = addCopy(builder, metadata);
  const fields = FlatTable.root(metadata).table(header)?.tables(fieldsOfSchema) ?? [];
  return new Map([...fields].map((field) => [field.text(0) ?? '', copy - field.at]));
}

/**
 * The memory that one row takes in the columns of the table that the source does not send, rounded up. It can be more than all
 * that the source sends: a fixed-size value takes its full size when it is NULL, so if the table has a vector of a million
 * floats, a key of four bytes makes four megabytes of NULL.
 */
export function nullBytesPerRow(source: Schema, table: Schema): number {
  const sent = new Set(source.fields.filter(({ type }) => type.kind !== 'null').map(({ name }) => name));
  return Math.ceil(nullBytes(table.fields.filter(({ name }) => !sent.has(name))));
}

/** Of one NULL in each field: a bit, and what its offsets, its value and its children take. */
const nullBytes = (fields: readonly Field[]): number =>
  fields.reduce((bytes, field) => {
    const { offsetBytes, valueBits = 0, childValues = 0 } = columnLayout(field);
    return bytes + 1 / 8 + offsetBytes + valueBits / 8 + childValues * nullBytes(childrenOf(field));
  }, 0);
