/** Which rows of a source a column of it marks, and the source without that column. */
import { Builder } from 'flatbuffers';
import { paired } from '../../kernel/paired.ts';
import { copyOf, writeFile } from '../format/ipc-file.ts';
import { CopiedSchema, finishSchema } from '../schema/copied-schema.ts';
import { schemaMessage } from '../schema/read-schema.ts';
import type { IpcChunk } from '../schema/schema.ts';
import { allRows, BatchPlan } from './batch-plan.ts';
import { bitAt, readColumns } from './column-data.ts';

/** It has a byte for each row: 1 where the column holds true or, if it is of another type than Boolean, a value. */
export function marksIn(chunk: IpcChunk, column: string): Uint8Array {
  const index = chunk.schema.fields.findIndex(({ name }) => name === column);
  const marks = new Uint8Array(chunk.rows);
  const field = chunk.schema.fields[index];
  if (field === undefined || field.type.kind === 'null') return marks;
  const isBoolean = field.type.kind === 'bool' && field.dictionary === undefined;
  let at = 0;
  for (const { rows, columns } of readColumns(chunk)) {
    const { validity, bytes } = columns[index]!;
    for (let row = 0; row < rows; row++, at++) {
      if (validity !== undefined && !bitAt(validity, row)) continue;
      if (!isBoolean || bitAt(bytes, row)) marks[at] = 1;
    }
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
  const dictionaries = chunk.dictionaries.map((block) => copyOf(chunk.file, block));
  const made = writeFile(finishSchema(builder, kept), dictionaries, batches);
  const schema = { ...chunk.schema, fields: fields.filter((_, index) => isKept[index]) };
  return { ...made, schema, rows: chunk.rows, decodedBytes: chunk.decodedBytes, release: chunk.release };
}
