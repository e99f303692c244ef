import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { concatRows } from '#src/arrow/column/concat-rows.ts';
import { typeName } from '#src/arrow/schema/schema.ts';
import { decodeFile } from '#test/fixtures/column-decoder.ts';
import { encodeSchema, encodeStream, field, schemaOf } from '#test/fixtures/ipc-writer.ts';
import { type NativeLance, openNativeLance } from '#test/fixtures/native-lance.ts';
import { wholeOf } from '#test/fixtures/streams.ts';
import { Random } from '#test/model/random.ts';
import {
  assertConcat,
  chunkOf,
  column,
  deepCases,
  expectedRows,
  int32,
  int64,
  list,
  none,
  plainCases,
  randomParts,
  streamOf,
  utf8,
  wide,
  words,
} from '#test/unit/arrow/concat-parts.ts';

describe('kept rows of several sources become one source', () => {
  for (const [i, type] of plainCases.entries()) {
    it(`of type ${typeName(type.field)}, whatever is kept, however it came`, async () => {
      const schema = schemaOf([type.field]);
      const random = new Random(i);
      for (let run = 0; run < 6; run++) await assertConcat(await randomParts(random, schema, [type]));
    });
  }

  it('of all types side by side', async () => {
    const random = new Random(4711);
    const schema = wide(plainCases);
    for (let run = 0; run < 4; run++) await assertConcat(await randomParts(random, schema, plainCases));
  });

  it('under the schema message of the first, byte for byte', async () => {
    const [a, b] = [
      schemaOf([field('t', utf8, { metadata: { unit: 'm' } })], { of: 'the first' }),
      schemaOf([field('t', utf8, { nullable: false, metadata: { unit: 'm' } })], { of: 'the second' }),
    ];
    const parts = [await chunkOf(a, [{ t: ['x'] }]), await chunkOf(b, [{ t: ['y'] }])];
    const made = await assertConcat(parts.map((chunk) => ({ chunk, keep: undefined })));
    const message = encodeSchema(a);
    assert.ok(made.file.subarray(8, 8 + message.length).equals(message));
    assert.equal(made.schema, parts[0]!.schema);
  });
});

describe('columns as writers of slices leave them', () => {
  it('lose what no value refers to', async () => {
    const schema = schemaOf([field('t', utf8), list('l', field('item', int32))]);
    const texts = column(3, [none, words(2, 3, 3, 5), Buffer.from('..abc..')]);
    const lists = column(3, [none, words(1, 2, 4, 4)], [column(6, [none, words(0, 1, 2, 3, 4, 5)])]);
    const chunk = await wholeOf(streamOf(schema, 3, [texts, lists]));
    const made = await assertConcat([
      { chunk, keep: Uint8Array.of(0, 1, 1) },
      { chunk, keep: undefined },
    ]);
    assert.deepEqual(decodeFile(made.file), {
      t: ['', 'bc', 'a', '', 'bc'],
      l: [[2n, 3n], [], [1n], [2n, 3n], []],
    });
    assert.equal(made.decodedBytes, 4 * 6 + 5 + 4 * 6 + 4 * 5);
  });

  it('keep the values under their NULLs out of sight', async () => {
    const schema = schemaOf([field('t', utf8)]);
    const texts = { ...column(3, [Buffer.of(0b101), words(0, 1, 3, 4), Buffer.from('abbc')]), nulls: 1 };
    const chunk = await wholeOf(streamOf(schema, 3, [texts]));
    const made = await assertConcat([{ chunk, keep: Uint8Array.of(0, 1, 1) }]);
    assert.deepEqual(decodeFile(made.file), { t: [null, 'c'] });
  });

  it('have no NULL where they count none, whatever their bitmap says', async () => {
    const schema = schemaOf([field('n', int32, { nullable: false })]);
    const chunk = await wholeOf(streamOf(schema, 2, [column(2, [Buffer.of(0b01), words(1, 2)])]));
    const made = await assertConcat([{ chunk, keep: undefined }]);
    assert.deepEqual(decodeFile(made.file), { n: [1n, 2n] });
    assert.equal(made.decodedBytes, 8);
  });

  it('have no bitmap where no kept row is NULL', async () => {
    const schema = schemaOf([field('n', int32)]);
    const chunk = await chunkOf(schema, [{ n: [1n, null, 3n] }]);
    const made = await assertConcat([{ chunk, keep: Uint8Array.of(1, 0, 1) }]);
    assert.equal(made.decodedBytes, 8);
  });
});

describe('a batch of no rows', () => {
  it('may have no offsets', async () => {
    const schema = schemaOf([list('l', field('item', utf8)), field('t', utf8)]);
    const empty = column(0, [none, none, none]);
    const stream = streamOf(schema, 0, [column(0, [none, none], [empty]), empty]);
    const parts = [stream, encodeStream(schema, [{ l: [['a'], null], t: ['b', null] }])];
    const made = await assertConcat(
      await Promise.all(parts.map(async (bytes) => ({ chunk: await wholeOf(bytes), keep: undefined }))),
    );
    assert.equal(made.rows, 2);
  });
});

describe('the engine', () => {
  let lance: NativeLance;
  before(async () => {
    lance = await openNativeLance();
  });
  after(() => lance.remove());

  it('stores what was joined, of all types (P1)', async () => {
    const cases = plainCases.filter((type) => !deepCases.includes(type));
    const parts = await randomParts(new Random(1), wide(cases), cases);
    const whole = await chunkOf(wide(cases), [
      Object.fromEntries(cases.map(({ values }, i) => [`c${i}`, [values[0], values.at(-1)]])),
    ]);
    const all = [...parts, { chunk: whole, keep: undefined }];
    const made = await assertConcat(all);
    const table = await lance.create(made.file);
    assert.deepEqual(await table.rows(), expectedRows(all));
  });

  it('stores what was joined of lists of structs and of lists (P1)', async () => {
    const cases = deepCases.slice(1, 3);
    const parts = await randomParts(new Random(3), wide(cases), cases);
    const table = await lance.create((await assertConcat(parts)).file);
    assert.deepEqual(await table.rows(), expectedRows(parts));
  });

  it('merges what was joined', async () => {
    const schema = schemaOf([field('id', int64), field('t', utf8)]);
    const table = await lance.create((await chunkOf(schema, [{ id: [1n, 2n], t: ['a', 'b'] }])).file);
    const parts = [
      { chunk: await chunkOf(schema, [{ id: [2n, 3n], t: ['lost', 'c'] }], 'lz4'), keep: Uint8Array.of(0, 1) },
      { chunk: await chunkOf(schema, [{ id: [2n], t: [null] }], 'zstd'), keep: undefined },
    ];
    const { numInsertedRows, numUpdatedRows } = await table.merge(['id'], concatRows(parts).file);
    assert.deepEqual({ numInsertedRows, numUpdatedRows }, { numInsertedRows: 1, numUpdatedRows: 1 });
    const { id, t } = await table.rows();
    const rows = new Map(id!.map((key, row) => [key, t![row]]));
    assert.deepEqual(
      rows,
      new Map<unknown, unknown>([
        [1n, 'a'],
        [2n, null],
        [3n, 'c'],
      ]),
    );
  });
});
