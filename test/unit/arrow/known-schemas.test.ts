import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { KnownSchemas } from '#src/arrow/schema/known-schemas.ts';
import type { Schema } from '#src/arrow/schema/schema.ts';
import { StreamSource } from '#src/arrow/stream/source-reader.ts';
import { BodyMemory } from '#src/memory/body-memory.ts';
import { encodeStream, field, schemaOf } from '#test/fixtures/ipc-writer.ts';
import { inChunks, roomyLimits } from '#test/fixtures/streams.ts';

const schemaNamed = (name: string): Schema => ({ fields: [], metadata: new Map([['name', name]]) });

describe('known schemas', () => {
  it('are read once for the same bytes, and for others anew', () => {
    const known = new KnownSchemas();
    let reads = 0;
    const of = (bytes: string) => known.of(Buffer.from(bytes), () => schemaNamed(`${bytes} ${++reads}`));
    assert.equal(of('a'), of('a'));
    assert.notEqual(of('a'), of('b'));
    assert.equal(reads, 2);
  });

  it('that are refused are refused again', () => {
    const known = new KnownSchemas();
    const read = () => {
      throw new Error('malformed');
    };
    for (let i = 0; i < 2; i++) assert.throws(() => known.of(Buffer.from('x'), read), /malformed/);
  });

  it('are few and small: the one unused for longest is forgotten, a large one never kept (P7)', () => {
    const known = new KnownSchemas();
    const reads: string[] = [];
    const of = (name: string, bytes = Buffer.from(name)) => {
      known.of(bytes, () => {
        reads.push(name);
        return schemaNamed(name);
      });
    };
    for (let i = 0; i < 128; i++) of(`${i}`);
    of('0');
    of('one more');
    reads.length = 0;
    for (const name of ['0', 'one more', '1']) of(name);
    assert.deepEqual(reads, ['1']);
    reads.length = 0;
    for (let i = 0; i < 2; i++) of('large', Buffer.alloc(8193));
    assert.deepEqual(reads, ['large', 'large']);
  });

  it('serve streams that begin with the same bytes, and their rows stay their own', async () => {
    const schemas = new KnownSchemas();
    const memory = new BodyMemory({ maxBytes: 2 ** 30, maxIdleBytes: 0 });
    const wholeOf = (type: 'utf8' | 'binary', ks: readonly string[]) => {
      const stream = encodeStream(schemaOf([field('k', { kind: type })]), [{ k: ks }]);
      return new StreamSource(inChunks(stream), { limits: roomyLimits, account: memory.open(), schemas }).whole();
    };
    const [one, two, other] = [await wholeOf('utf8', ['a']), await wholeOf('utf8', ['b', 'c']), await wholeOf('binary', ['d'])]; // biome-ignore format: three
    assert.equal(one.schema, two.schema);
    assert.deepEqual([one.rows, two.rows], [1, 2]);
    assert.equal(other.schema.fields[0]?.type.kind, 'binary');
  });
});
