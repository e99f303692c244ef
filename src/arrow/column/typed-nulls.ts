/**
 * Rewrites columns of Arrow's type Null with the table's type. A program that has seen no value of a column sends it so, as
 * pyarrow does with a list of `None`, also inside a struct or a list. The engine refuses them if the table has another type, so
 * they are rewritten: NULL in every row.
 *
 * The schema of the result points into copies of both schema messages, field by field, as the footer of a file does
 * (`reframe.ts`): so no type or metadata is lost, also none that this code does not know.
 */
import { FlatTable } from '../format/flatbuffer.ts';
import type { Block, IpcFile } from '../format/ipc-file.ts';
import { continuation, magic, prefixBytes } from '../format/message.ts';
import { fileTail } from '../format/reframe.ts';
import type { IpcChunk } from '../schema/ipc-chunk.ts';
import type { Field, Schema } from '../schema/schema.ts';
import { schemaMessage } from '../schema/schema-message.ts';
import { holdsNull, isNull, refuse, targetOf, typedSchema } from '../schema/typed-schema.ts';
import { BatchPlan } from './batch-plan.ts';
import { type ColumnData, readColumns } from './column-data.ts';
import { columnLayout } from './column-layout.ts';
import { recordBatchMessageBytes, writeRecordBatchMessage } from './record-batch-message.ts';
import { allRows } from './row-runs.ts';

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
    throw refuse([encoded.name], 'is of type null, and dictionary-encoded in the table: send it typed');
  const schema = typedSchema(chunk.schema, table);
  const inner = { bytes: 0 };
  const plans = readColumns(chunk).map(({ rows, columns }) => {
    const plan = new BatchPlan();
    for (const [i, field] of schema.fields.entries()) {
      const data = typedData(columns[i]!, fields[i]!, field, inner);
      plan.addColumn(field, [{ data, runs: allRows(rows) }]);
    }
    return { rows, plan };
  });
  const made = assemble(chunk, schema, typedSchemaMessage(chunk, table, tableFile), plans);
  const decodedBytes = Math.max(chunk.decodedBytes, made.decodedBytes);
  return { ...made, rows: chunk.rows, decodedBytes, release: chunk.release };
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
  inner.bytes += length * (bytesOfNull(target) + 1);
  if (inner.bytes <= mostInnerBytes) return;
  throw refuse([target.name], `is of type null ${length} times inside another column: send it with the table's type`);
}

function bytesOfNull(field: Field): number {
  const layout = columnLayout(field);
  if (layout.form === 'fixed') return layout.widthBytes;
  if (layout.form === 'variable' || layout.form === 'list') return layout.offsetBytes;
  const children = field.children.reduce((bytes, child) => bytes + bytesOfNull(child) + 1, 0);
  return layout.form === 'fixed_size_list' ? layout.listSize * children : children;
}

const noBytes = new Uint8Array(0);
const noOffsets = new Uint32Array(0);

/** A field without NULL has none inside a struct that is NULL: what it holds there counts for nothing. */
function nulls(field: Field, length: number, hasNulls = true): ColumnData {
  const layout = columnLayout(field);
  const validity = hasNulls && length > 0 ? new Uint8Array(Math.ceil(length / 8)) : undefined;
  const column = { length, validity, bytes: noBytes, offsets: noOffsets, children: [] };
  const childrenOf = (count: number) => field.children.map((child) => nulls(child, count, child.nullable));
  switch (layout.form) {
    case 'empty':
      return column;
    case 'bits':
      return { ...column, bytes: new Uint8Array(Math.ceil(length / 8)) };
    case 'fixed':
      return { ...column, bytes: new Uint8Array(length * layout.widthBytes) };
    case 'variable':
      return { ...column, offsets: new Uint32Array(length + 1) };
    case 'list':
      return { ...column, offsets: new Uint32Array(length + 1), children: childrenOf(0) };
    case 'fixed_size_list':
      return { ...column, children: childrenOf(length * layout.listSize) };
    case 'struct':
      return { ...column, children: childrenOf(length) };
  }
}

interface PlannedBatch {
  readonly rows: number;
  readonly plan: BatchPlan;
}

/** The dictionaries are those of `chunk`, as they are. */
function assemble(
  chunk: IpcChunk,
  schema: Schema,
  message: Buffer,
  planned: readonly PlannedBatch[],
): Omit<IpcChunk, 'rows' | 'release'> {
  let end = magic.length + message.length;
  const place = (metaLength: number, bodyLength: number): Block => {
    const block = { offset: end, metaLength, bodyLength };
    end += metaLength + bodyLength;
    return block;
  };
  const dictionaries = chunk.dictionaries.map(({ metaLength, bodyLength }) => place(metaLength, bodyLength));
  const batches = planned.map(({ plan }) =>
    place(recordBatchMessageBytes(plan.nodes.length, plan.buffers.length), plan.bodyLength),
  );
  const tail = fileTail({ schemaMessage: message.subarray(prefixBytes), dictionaries, batches });
  const file = Buffer.alloc(end + tail.length);
  file.set(magic);
  file.set(message, magic.length);
  for (const [i, { offset, metaLength, bodyLength }] of chunk.dictionaries.entries()) {
    file.set(chunk.file.subarray(offset, offset + metaLength + bodyLength), dictionaries[i]!.offset);
  }
  for (const [i, { rows, plan }] of planned.entries()) {
    const { offset, metaLength, bodyLength } = batches[i]!;
    writeRecordBatchMessage(file.subarray(offset, offset + metaLength), rows, plan);
    plan.fill(file.subarray(offset + metaLength, offset + metaLength + bodyLength));
  }
  file.set(tail, end);
  const decodedBytes = end - magic.length - message.length;
  return { file: file as IpcFile, schema, dictionaries, batches, decodedBytes };
}

/** Field numbers of `Message` and `Schema`. */
const header = 2;
const fieldsOfSchema = 1;

/** Places as in `record-batch-message.ts`: `Message` at 16, `Schema` at 44 with the offset of its fields at 48, their vector at 52. */
const messageVtable = [12, 20, 16, 18, 4, 8];
const schemaVtable = [8, 8, 0, 4];
const messageAt = 16;
const schemaAt = 44;
const vectorAt = 52;
const metadataV5 = 4;
const schemaKind = 1;

const aligned = (bytes: number): number => Math.ceil(bytes / 8) * 8;

function typedSchemaMessage(chunk: IpcChunk, table: Schema, tableFile: IpcFile): Buffer {
  const source = schemaMessage(chunk).subarray(prefixBytes);
  const target = schemaMessage({ file: tableFile }).subarray(prefixBytes);
  const { fields } = chunk.schema;
  const sourceAt = aligned(vectorAt + 4 + 4 * fields.length);
  const targetAt = sourceAt + aligned(source.length);
  const metadata = Buffer.alloc(targetAt + aligned(target.length));
  metadata.set(source, sourceAt);
  metadata.set(target, targetAt);
  metadata.writeUInt32LE(messageAt, 0);
  for (const [i, word] of messageVtable.entries()) metadata.writeUInt16LE(word, 4 + 2 * i);
  metadata.writeInt32LE(messageAt - 4, messageAt);
  metadata.writeUInt32LE(schemaAt - (messageAt + 4), messageAt + 4);
  metadata.writeInt16LE(metadataV5, messageAt + 16);
  metadata.writeUInt8(schemaKind, messageAt + 18);
  for (const [i, word] of schemaVtable.entries()) metadata.writeUInt16LE(word, 36 + 2 * i);
  metadata.writeInt32LE(schemaAt - 36, schemaAt);
  metadata.writeUInt32LE(vectorAt - (schemaAt + 4), schemaAt + 4);
  metadata.writeUInt32LE(fields.length, vectorAt);
  const sourcePlaces = placesOf(source);
  const targetPlaces = placesOf(target);
  for (const [i, field] of fields.entries()) {
    const isTyped = targetOf(field, table) !== undefined;
    const at = isTyped ? targetAt + targetPlaces.get(field.name)! : sourceAt + sourcePlaces.get(field.name)!;
    const place = vectorAt + 4 + 4 * i;
    metadata.writeUInt32LE(at - place, place);
  }
  const prefix = Buffer.alloc(prefixBytes);
  prefix.writeInt32LE(continuation, 0);
  prefix.writeInt32LE(metadata.length, 4);
  return Buffer.concat([prefix, metadata]);
}

/** Where each column's table lies in the metadata of a schema message. */
function placesOf(metadata: Buffer): ReadonlyMap<string, number> {
  const fields = FlatTable.root(metadata).table(header)?.tables(fieldsOfSchema) ?? [];
  return new Map([...fields].map((field) => [field.text(0) ?? '', field.at]));
}
