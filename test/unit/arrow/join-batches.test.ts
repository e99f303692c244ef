import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { joinBatches } from '#src/arrow/column/concat-rows.ts';
import { decodeFile } from '#test/fixtures/column-decoder.ts';
import { encodeMessages, encodeStream, endOfStream, field, schemaOf } from '#test/fixtures/ipc-writer.ts';
import { wholeOf } from '#test/fixtures/streams.ts';

const schema = schemaOf([field('id', { kind: 'int', bitWidth: 32, signed: true })]);
const batchesOf = (count: number) => Array.from({ length: count }, (_, id) => ({ id: [BigInt(id)] }));

describe('what a small body could make large', () => {
  it('many batches reach the engine as one, a few as they came (P12)', async () => {
    const many = await wholeOf(encodeStream(schema, batchesOf(500)));
    assert.equal(many.batches.length, 500);
    const joined = joinBatches(many);
    assert.deepEqual([joined.batches.length, joined.rows], [1, 500]);
    assert.deepEqual(decodeFile(joined.file), decodeFile(many.file));
    const few = await wholeOf(encodeStream(schema, batchesOf(10)));
    assert.equal(joinBatches(few), few);
  });

  it('of batches without rows at most one reaches the engine (P12)', async () => {
    const [head, row, empty] = encodeMessages(schema, [{ id: [7n] }, { id: [] }]);
    const chunk = await wholeOf(Buffer.concat([head!, ...Array<Buffer>(1_000).fill(empty!), row!, endOfStream]));
    assert.deepEqual([chunk.batches.length, chunk.rows], [2, 1]);
  });
});
