import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Field, IpcChunk } from '#src/arrow/schema/schema.ts';
import { ArrowSource, newSchemaCache } from '#src/arrow/stream/source-reader.ts';
import { BodyMemory } from '#src/memory/body-memory.ts';
import { encodeStream, field, schemaOf } from '#test/fixtures/ipc-writer.ts';
import { inChunks, roomyLimits } from '#test/fixtures/streams.ts';

const memory = new BodyMemory({ maxBytes: 2 ** 30, maxIdleBytes: 0 });

function read(schemas: ReturnType<typeof newSchemaCache>, column: Field, rows: readonly string[]): Promise<IpcChunk> {
  const stream = encodeStream(schemaOf([column]), [{ k: rows }]);
  return new ArrowSource(inChunks(stream), { limits: roomyLimits, account: memory.open(), schemas }).whole();
}

describe('known schemas', () => {
  it('that are refused are refused again, and large ones are never kept (P7)', async () => {
    const schemas = newSchemaCache();
    const reserved = field('__lancegate_k', { kind: 'utf8' });
    for (let i = 0; i < 2; i++) await assert.rejects(read(schemas, reserved, []), /reserved/);
    const large = field('k', { kind: 'utf8' }, { metadata: { note: 'x'.repeat(8193) } });
    await read(schemas, large, ['a']);
    assert.equal(schemas.size, 0);
  });

  it('serve streams that begin with the same bytes, and their rows stay their own', async () => {
    const schemas = newSchemaCache();
    const [utf8, binary] = [field('k', { kind: 'utf8' }), field('k', { kind: 'binary' })];
    const one = await read(schemas, utf8, ['a']);
    const two = await read(schemas, utf8, ['b', 'c']);
    const other = await read(schemas, binary, ['d']);
    assert.equal(one.schema, two.schema);
    assert.deepEqual([one.rows, two.rows], [1, 2]);
    assert.equal(other.schema.fields[0]?.type.kind, 'binary');
  });
});
