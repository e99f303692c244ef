import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { canConcat, concatRows, FaultyPart } from '#src/arrow/column/concat-rows.ts';
import { schemaFingerprint } from '#src/arrow/schema/read-schema.ts';
import type { Field, Schema } from '#src/arrow/schema/schema.ts';
import { LancegateError } from '#src/kernel/errors.ts';
import { encodeStream, field, schemaOf } from '#test/fixtures/ipc-writer.ts';
import { wholeOf } from '#test/fixtures/streams.ts';
import { mutate, randomOf } from '#test/fuzz/mutations.ts';
import {
  assertConcat,
  assertSound,
  chunkOf,
  codecs,
  column,
  int32,
  int64,
  list,
  longs,
  none,
  plainCases,
  streamOf,
  struct,
  utf8,
  wide,
  words,
} from '#test/unit/arrow/concat-parts.ts';

const refused = (error: unknown): undefined => {
  if (!(error instanceof LancegateError)) throw error;
};

describe('a part whose values lie is named, and so is its column', () => {
  const text = schemaOf([field('n', int32), field('t', utf8)]);
  const withText = (...buffers: Uint8Array[]) =>
    streamOf(text, 2, [column(2, [none, words(1, 2)]), column(2, [none, ...buffers])]);
  const lists = schemaOf([list('l.x', field('item', int32))]);
  const item = { nullable: false };
  const pairs = schemaOf([
    field('p', { kind: 'fixed_size_list', listSize: 2 }, { children: [field('item', int32, item)] }),
  ]);
  const nulls = (length: number, bits: number, values: Buffer) => ({
    ...column(length, [Buffer.of(bits), values]),
    nulls: 1,
  });
  const faults: readonly [title: string, schema: Schema, stream: Buffer, message: RegExp][] = [
    ['offsets that run backwards', text, withText(words(0, 5, 4), Buffer.from('abcdef')), /^column t: .*backwards/],
    ['offsets below zero', text, withText(words(-1, 2, 4), Buffer.from('abcd')), /^column t: .*backwards/],
    ['offsets beyond the data', text, withText(words(0, 2, 9), Buffer.from('abcd')), /^column t: .*outside/],
    ['bytes that are not UTF-8', text, withText(words(0, 1, 2), Buffer.of(97, 0xff)), /^column t: .*UTF-8/],
    ['a character cut in two', text, withText(words(0, 1, 2), Buffer.from('ä')), /^column t: .*UTF-8/],
    [
      'wide offsets beyond the data',
      schemaOf([field('t', { kind: 'large_utf8' })]),
      streamOf(schemaOf([field('t', { kind: 'large_utf8' })]), 1, [
        column(1, [none, longs(0n, (1n << 32n) + 1n), Buffer.from('ab')]),
      ]),
      /^column t: .*outside/,
    ],
    [
      'lists beyond their elements',
      lists,
      streamOf(lists, 1, [column(1, [none, words(0, 3)], [column(2, [none, words(1, 2)])])]),
      /^column `l\.x`: .*outside/,
    ],
    [
      'a NULL in a column without',
      schemaOf([field('n', int32, { nullable: false })]),
      streamOf(schemaOf([field('n', int32, { nullable: false })]), 2, [nulls(2, 0b10, words(0, 1))]),
      /^column n: .*NULL/,
    ],
    [
      'another number of NULLs than it counts',
      schemaOf([field('n', int32)]),
      streamOf(schemaOf([field('n', int32)]), 2, [nulls(2, 0b00, words(0, 1))]),
      /^column n: it counts 1 nulls and holds 2/,
    ],
    [
      'nothing but NULL in a column without',
      schemaOf([field('z', { kind: 'null' }, item)]),
      encodeStream(schemaOf([field('z', { kind: 'null' }, item)]), [{ z: [null] }]),
      /^column z: .*NULL/,
    ],
    [
      'a NULL in a list without, also where the list of that number is NULL',
      schemaOf([list('l', field('item', int32, item))]),
      streamOf(schemaOf([list('l', field('item', int32, item))]), 2, [
        { length: 2, nulls: 1, buffers: [Buffer.of(0b01), words(0, 2, 2)], children: [nulls(2, 0b01, words(0, 1))] },
      ]),
      /^column l: .*NULL/,
    ],
    [
      'a NULL in a list of fixed size without',
      pairs,
      streamOf(pairs, 2, [
        { length: 2, nulls: 1, buffers: [Buffer.of(0b01)], children: [nulls(4, 0b1101, words(0, 1, 2, 3))] },
      ]),
      /^column p: .*NULL/,
    ],
    [
      'a NULL in a struct without',
      schemaOf([struct('s', [field('a', int32, item)])]),
      streamOf(schemaOf([struct('s', [field('a', int32, item)])]), 2, [
        { length: 2, nulls: 1, buffers: [Buffer.of(0b01)], children: [nulls(2, 0b10, words(0, 1))] },
      ]),
      /^column s: .*NULL/,
    ],
  ];
  for (const [title, schema, stream, message] of faults) {
    it(title, async () => {
      const empty = await chunkOf(schema, []);
      const bad = await wholeOf(stream);
      const parts = [empty, empty, bad, empty].map((chunk) => ({ chunk, keep: undefined }));
      assert.throws(
        () => concatRows(parts),
        (error) =>
          error instanceof FaultyPart &&
          error.kind === 'InvalidInput' &&
          error.part === 2 &&
          message.test(error.message),
      );
      const leftOut = { chunk: bad, keep: new Uint8Array(bad.rows) };
      assert.throws(() => concatRows([leftOut]), { name: 'LancegateError', part: 0 });
      assert.equal(concatRows(parts.filter(({ chunk }) => chunk !== bad)).rows, 0);
    });
  }

  it('damaged compression', async () => {
    const stream = encodeStream(text, [{ n: [1n], t: ['a'.repeat(100)] }], 'zstd');
    const magicAt = stream.lastIndexOf(Buffer.from('28b52ffd', 'hex'));
    stream[magicAt] = 0;
    const parts = [
      { chunk: await chunkOf(text, []), keep: undefined },
      { chunk: await wholeOf(stream), keep: undefined },
    ];
    assert.throws(() => concatRows(parts), { part: 1, message: /^column t: malformed ZSTD/ });
  });

  it('but a NULL inside a struct or a list of fixed size that is NULL is none', async () => {
    const structs = await chunkOf(schemaOf([struct('s', [field('a', int32, item)])]), [{ s: [{ a: 1n }, null] }]);
    await assertConcat([{ chunk: structs, keep: undefined }]);
    const lists = await chunkOf(pairs, [{ p: [null, [1n, 2n]] }]);
    await assertConcat([{ chunk: lists, keep: undefined }]);
  });

  it('or its damage is none, and the whole is sound', async () => {
    const whole = wide(plainCases);
    const rows = Object.fromEntries(
      plainCases.map(({ values }, i) => [`c${i}`, [values[0], values.at(-1), values[0]]]),
    );
    const streams = codecs.map((codec) => encodeStream(whole, [rows, rows], codec));
    let faulty = 0;
    for (let run = 0; run < 400; run++) {
      const random = randomOf(3, run);
      const chunk = await wholeOf(mutate(streams[random(3)]!, random).bytes).catch(refused);
      if (chunk === undefined || !canConcat([chunk])) continue;
      try {
        await assertSound(concatRows([{ chunk, keep: undefined }]));
      } catch (error) {
        assert.ok(error instanceof FaultyPart, `run ${run}: ${String(error)}`);
        faulty += 1;
      }
    }
    assert.ok(faulty > 10, `${faulty} of 400 came to the check`);
  });

  it('a mask of another length is a defect of the caller', async () => {
    const chunk = await chunkOf(text, [{ n: [1n], t: ['x'] }]);
    assert.throws(() => concatRows([{ chunk, keep: new Uint8Array(2) }]), /mask/);
  });
});

describe('whether chunks can become one', () => {
  const base = [field('id', int64), struct('s', [field('a', utf8)])];
  const chunkWith = (fields: readonly Field[]) => chunkOf(schemaOf(fields), []);
  const refused: readonly [title: string, fields: readonly Field[]][] = [
    ['another name', [field('ID', int64), base[1]!]],
    ['another type', [field('id', int32), base[1]!]],
    ['another order', [base[1]!, base[0]!]],
    ['a column less', [base[0]!]],
    ['a column more', [...base, field('more', utf8)]],
    ['another name within', [base[0]!, struct('s', [field('b', utf8)])]],
    ['an extension type', [field('id', int64, { metadata: { 'ARROW:extension:name': 'x' } }), base[1]!]],
  ];
  for (const [title, fields] of refused) {
    it(`no: ${title}`, async () => {
      assert.equal(canConcat([await chunkWith(base), await chunkWith(fields)]), false);
    });
  }

  it('no: dictionaries, also within and in one chunk alone', async () => {
    const dictionary = { id: 1n, index: { bitWidth: 8, signed: true }, ordered: false } as const;
    const coded = await chunkWith([struct('s', [field('a', utf8, { dictionary })])]);
    assert.equal(canConcat([coded]), false);
    assert.equal(canConcat([coded, coded]), false);
  });

  it('yes where a later one is stricter about NULL, no where it is looser, on every level', async () => {
    const strict = await chunkWith([field('id', int64), struct('s', [field('a', utf8, { nullable: false })])]);
    const loose = await chunkWith(base);
    assert.equal(canConcat([loose, strict]), true);
    assert.equal(canConcat([strict, loose]), false);
  });

  it('yes whatever the metadata of the schemas say; no chunks are none', async () => {
    const other = await chunkOf(schemaOf(base, { pandas: '{}' }), []);
    assert.equal(canConcat([await chunkWith(base), other]), true);
    assert.equal(canConcat([]), false);
  });

  it('no: too much for one batch', async () => {
    const chunk = await chunkOf(schemaOf(base), [{ id: [1n], s: [null] }]);
    const large = { ...chunk, decodedBytes: 100 << 20 };
    assert.equal(canConcat([chunk, large, large]), true);
    assert.equal(canConcat([chunk, large, large, large]), false);
  });

  it('is seen from fingerprints: equal for equal schema messages, and for no others', async () => {
    const a = await chunkOf(schemaOf(base), [{ id: [1n], s: [null] }], 'zstd');
    assert.equal(schemaFingerprint(a), schemaFingerprint(await chunkWith(base)));
    assert.notEqual(schemaFingerprint(a), schemaFingerprint(await chunkWith([base[0]!])));
  });
});
