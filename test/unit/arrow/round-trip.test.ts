import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import {
  Dictionary,
  Field,
  FixedSizeList,
  Float32,
  Int8,
  Int32,
  List,
  Struct,
  Table,
  tableToIPC,
  Utf8,
  vectorFromArray,
} from 'apache-arrow';
import { checkStorable, sameType } from '#src/arrow/schema/schema-rules.ts';
import { type NativeLance, openNativeLance } from '#test/fixtures/native-lance.ts';
import {
  emptyStream,
  polarsStreams,
  type StreamCase,
  streamsByType,
  wholeOf,
  wideStream,
} from '#test/fixtures/streams.ts';

let lance: NativeLance;
before(async () => {
  lance = await openNativeLance();
});
after(() => lance.remove());

const allRows = ({ schema, batches }: StreamCase): Record<string, unknown[]> =>
  Object.fromEntries(schema.fields.map(({ name }) => [name, batches.flatMap((rows) => rows[name] ?? [])]));

async function assertRoundTrip(stream: StreamCase): Promise<void> {
  checkStorable(stream.schema);
  const chunk = await wholeOf(stream.bytes);
  const table = await lance.create(chunk.file);
  const stored = await table.schema();
  assert.deepEqual(
    stored.fields.map(({ name, nullable, metadata }) => ({ name, nullable, metadata })),
    stream.schema.fields.map(({ name, nullable, metadata }) => ({ name, nullable, metadata })),
  );
  assert.deepEqual(stored.metadata, stream.schema.metadata);
  for (const [i, field] of stored.fields.entries()) assert.ok(sameType(field, stream.schema.fields[i]!), field.name);
  assert.equal(await table.countRows(), chunk.rows);
  if (chunk.rows > 0) assert.deepEqual(await table.rows(), allRows(stream));
}

describe('a stream goes through re-framing into the engine and comes back bit for bit (P1)', () => {
  const streams = [...streamsByType('none'), wideStream('none'), wideStream('lz4'), wideStream('zstd'), emptyStream()];
  for (const stream of streams) it(stream.title, () => assertRoundTrip(stream));

  for (const { title, bytes, rows } of polarsStreams()) {
    it(title, async () => {
      const table = await lance.create((await wholeOf(bytes)).file);
      const stored = await table.rows();
      assert.deepEqual(
        stored.id,
        Array.from({ length: rows }, (_, i) => `key-${i}`),
      );
      assert.deepEqual(
        stored.n?.map(Number),
        Array.from({ length: rows }, (_, i) => i),
      );
    });
  }

  it('written by apache-arrow', async () => {
    const table = new Table({
      id: vectorFromArray(['a', 'bb', null], new Utf8()),
      list: vectorFromArray([[1], [2, 3], null], new List(new Field('item', new Int32()))),
      vector: vectorFromArray(
        [
          [1, 2],
          [3, 4],
          [5, 6],
        ],
        new FixedSizeList(2, new Field('item', new Float32())),
      ),
      word: vectorFromArray(['x', 'y', 'x'], new Dictionary(new Utf8(), new Int8())),
      struct: vectorFromArray([{ a: 1 }, null, { a: 3 }], new Struct([new Field('a', new Int32())])),
    });
    const stored = await (await lance.create((await wholeOf(tableToIPC(table, 'stream'))).file)).rows();
    assert.deepEqual(stored, {
      id: ['a', 'bb', null],
      list: [[1n], [2n, 3n], null],
      vector: [
        [1, 2],
        [3, 4],
        [5, 6],
      ],
      word: ['x', 'y', 'x'],
      struct: [{ a: 1n }, null, { a: 3n }],
    });
  });
});
