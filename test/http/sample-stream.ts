/** Streams of numbered rows: `id` counts, `payload` is as long as wanted. */

import { encodeColumn } from '#test/fixtures/column-encoder.ts';
import { encodeBatch, encodeMessage, encodeSchema, endOfStream, field, schemaOf } from '#test/fixtures/ipc-writer.ts';

const schema = schemaOf([
  field('id', { kind: 'int', bitWidth: 64, signed: true }),
  field('payload', { kind: 'binary' }),
]);

export const sampleSchema: Buffer = encodeSchema(schema);

/** A batch of rows `first`, `first + 1`, …, each with the same payload. */
export function sampleBatch(first: number, rows: number, payloadBytes = 0, letter = 'x'): Buffer {
  const payload = Buffer.alloc(payloadBytes, letter);
  const values = {
    id: Array.from({ length: rows }, (_, i) => BigInt(first + i)),
    payload: Array.from({ length: rows }, () => payload),
  };
  const columns = schema.fields.map((of) => encodeColumn(of, values[of.name as keyof typeof values], new Map()));
  return encodeMessage({ kind: 'batch', ...encodeBatch(rows, columns, 'none') });
}

/** Rows 0 to `rows` in one batch. */
export const sampleStream = (rows: number, payloadBytes = 0): Buffer =>
  Buffer.concat([sampleSchema, sampleBatch(0, rows, payloadBytes), endOfStream]);
