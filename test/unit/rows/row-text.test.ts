/** Rows as text, in messages that share memory. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { IpcFile } from '#src/arrow/format/ipc-file.ts';
import { answerBytesOf, ResultBytes } from '#src/query/answer-orders.ts';
import { mostReplyBytes } from '#src/query/protocol.ts';
import { encodeStream, field, schemaOf } from '#test/fixtures/ipc-writer.ts';
import { wholeOf } from '#test/fixtures/streams.ts';

const schema = schemaOf([field('id', { kind: 'int', bitWidth: 32, signed: true }), field('text', { kind: 'utf8' })]);

const rowOf = (id: number): { readonly id: number; readonly text: string } => ({
  id,
  text: `row ${id} `.repeat(id % 90),
});

async function fileOf(from: number, count: number): Promise<IpcFile> {
  const rows = Array.from({ length: count }, (_, i) => rowOf(from + i));
  const columns = { id: rows.map(({ id }) => id), text: rows.map(({ text }) => text) };
  return (await wholeOf(encodeStream(schema, [columns]))).file;
}

describe('rows as text', () => {
  test('a message is whole until the next one was made, whatever the lengths of batches and rows', async () => {
    const counts = [1, 700, 0, 3_000, 5, 900, 2_500];
    const files = counts.map((count, i) =>
      fileOf(
        counts.slice(0, i).reduce((sum, before) => sum + before, 0),
        count,
      ),
    );
    const all = counts.reduce((sum, count) => sum + count, 0);
    const results = new ResultBytes(
      (async function* () {
        for (const file of files) yield await file;
      })(),
      answerBytesOf({ kind: 'text', format: 'ndjson', vectors: 'full' }),
    );
    const messages: Buffer[] = [];
    let leaving: readonly Buffer[] = [];
    for (let isLast = false; !isLast; ) {
      const next = await results.next();
      messages.push(Buffer.concat(leaving));
      [leaving, isLast] = [next.bytes, next.isLast];
    }
    messages.push(Buffer.concat(leaving));
    assert.ok(messages.length > 4);
    assert.ok(messages.slice(1, -1).every(({ length }) => length === mostReplyBytes));
    const expected = Array.from({ length: all }, (_, id) => `${JSON.stringify(rowOf(id))}\n`);
    assert.equal(Buffer.concat(messages).toString(), expected.join(''));
    assert.equal(results.rows, all);
  });
});
