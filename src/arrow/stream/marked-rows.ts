/** Which rows of a source a column of it marks, and the source without that column. */
import { Builder } from 'flatbuffers';
import { invalidInput } from '../../kernel/errors.ts';
import { paired } from '../../kernel/paired.ts';
import { openDictionary } from '../column/batch-buffers.ts';
import { allRows, BatchPlan } from '../column/batch-plan.ts';
import { bitAt, type ColumnData, isNullAt, readColumns, readDictionary } from '../column/column-data.ts';
import { copyOf, writeFile } from '../format/ipc-file.ts';
import { CopiedSchema, finishSchema } from '../schema/copied-schema.ts';
import { schemaMessage } from '../schema/read-schema.ts';
import type { Dictionary, Field, IpcChunk } from '../schema/schema.ts';
import { readIndex } from './unified-dictionary.ts';

/**
 * It has a byte for each row: 1 where the column holds true or, if it is of another type than Boolean, a value; of a dictionary-encoded
 * column what its indices stand for counts. Throws `InvalidInput` on invalid buffers.
 */
export function marksIn(chunk: IpcChunk, column: string): Uint8Array {
  const index = chunk.schema.fields.findIndex(({ name }) => name === column);
  const marks = new Uint8Array(chunk.rows);
  const field = chunk.schema.fields[index];
  if (field === undefined || field.type.kind === 'null') return marks;
  const { dictionary } = field;
  const values = readDictionary(chunk.file, chunk.dictionaries, field).flatMap((data) => [...marked(field, data)]);
  let at = 0;
  for (const { rows, columns } of readColumns(chunk)) {
    const data = columns[index]!;
    marks.set(dictionary === undefined ? marked(field, data) : markedIndices(dictionary, data, values), at);
    at += rows;
  }
  return marks;
}

function marked({ type }: Field, data: ColumnData): Uint8Array {
  const marks = new Uint8Array(data.length);
  for (let row = 0; row < data.length; row++)
    marks[row] = Number(!isNullAt(data, row) && (type.kind !== 'bool' || bitAt(data.bytes, row)));
  return marks;
}

function markedIndices({ index }: Dictionary, data: ColumnData, values: readonly number[]): Uint8Array {
  const marks = new Uint8Array(data.length);
  const width = index.bitWidth / 8;
  const indices = Buffer.from(data.bytes.buffer, data.bytes.byteOffset, data.bytes.length);
  for (let row = 0; row < data.length; row++) {
    if (isNullAt(data, row)) continue;
    const mark = values[readIndex(indices, row * width, width)];
    if (mark === undefined) throw invalidInput('an index lies outside its dictionary');
    marks[row] = mark;
  }
  return marks;
}

/** The reservation of the chunk covers both. Throws `InvalidInput` on invalid buffers. */
export function withoutColumn(chunk: IpcChunk, column: string): IpcChunk {
  const { fields } = chunk.schema;
  const isKept = fields.map(({ name }) => name !== column);
  if (isKept.every(Boolean)) return chunk;
  const batches = readColumns(chunk).map(({ rows, columns }) => {
    const plan = new BatchPlan();
    for (const [index, [field, data]] of paired(fields, columns).entries())
      if (isKept[index]) plan.addColumn(field, [{ data, runs: allRows(rows) }]);
    return plan.message(rows);
  });
  const builder = new Builder();
  const copied = new CopiedSchema(builder, schemaMessage(chunk.file));
  const kept = copied.fields.filter((_, index) => isKept[index]).map((each) => copied.at(each));
  const schema = { ...chunk.schema, fields: fields.filter((_, index) => isKept[index]) };
  const ids = new Set(dictionaryIds(schema.fields));
  // The engine reads no file with a dictionary of no column.
  const used = chunk.dictionaries.filter((block) => ids.has(openDictionary(chunk.file, block).id));
  const dictionaries = used.map((block) => copyOf(chunk.file, block));
  const made = writeFile(finishSchema(builder, kept), dictionaries, batches);
  return { ...made, schema, rows: chunk.rows, decodedBytes: chunk.decodedBytes, release: chunk.release };
}

const dictionaryIds = (fields: readonly Field[]): readonly bigint[] =>
  fields.flatMap(({ dictionary, children }) => [...(dictionary ? [dictionary.id] : []), ...dictionaryIds(children)]);
