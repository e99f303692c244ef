import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { canConcat, concatRows, FaultyPart, type RowsOf } from '#src/arrow/concat-rows.ts';
import { parseFieldPath } from '#src/arrow/field-path.ts';
import { joinFiles } from '#src/arrow/join-files.ts';
import { readKeys } from '#src/arrow/key-columns.ts';
import { pieceOfFile } from '#src/arrow/piece-of-file.ts';
import type { DataType, Field, Schema } from '#src/arrow/schema.ts';
import { schemaFingerprint } from '#src/arrow/schema-message.ts';
import type { IpcFile, IpcPiece } from '#src/arrow/source.ts';
import { typeName } from '#src/arrow/type-name.ts';
import { decodeFile } from '#test/fixtures/column-decoder.ts';
import type { EncodedColumn } from '#test/fixtures/column-encoder.ts';
import {
  type Codec,
  encodeBatch,
  encodeMessage,
  encodeSchema,
  encodeStream,
  endOfStream,
  field,
  type Rows,
  schemaOf,
} from '#test/fixtures/ipc-writer.ts';
import { type NativeLance, openNativeLance } from '#test/fixtures/native-lance.ts';
import { type TypeCase, typeCases, wholeOf } from '#test/fixtures/streams.ts';
import { Random } from '#test/model/random.ts';

const utf8: DataType = { kind: 'utf8' };
const bool: DataType = { kind: 'bool' };
const int32: DataType = { kind: 'int', bitWidth: 32, signed: true };
const int64: DataType = { kind: 'int', bitWidth: 64, signed: true };
const codecs = ['none', 'lz4', 'zstd'] as const;

const isPlain = (of: Field): boolean => of.dictionary === undefined && of.children.every(isPlain);
const struct = (name: string, children: readonly Field[]): Field => field(name, { kind: 'struct' }, { children });
const list = (name: string, item: Field): Field => field(name, { kind: 'list' }, { children: [item] });

const deepCases: readonly TypeCase[] = [
  {
    field: list('k', struct('item', [field('n', { kind: 'null' }), field('b', bool)])),
    values: [[{ n: null, b: true }, null], [], null],
  },
  {
    field: list('k', struct('item', [field('b', bool), list('l', field('item', utf8))])),
    values: [[{ b: true, l: ['x', null] }, null], [], null, [{ b: null, l: null }]],
  },
  {
    field: field('k', { kind: 'large_list' }, { children: [list('item', field('item', bool))] }),
    values: [[[true, false, null], []], null, [null, [true]], []],
  },
  {
    field: field(
      'k',
      { kind: 'fixed_size_list', listSize: 3 },
      { children: [struct('item', [field('b', bool), field('t', utf8)])] },
    ),
    values: [[{ b: true, t: 'a' }, { b: false, t: null }, null], null, [null, null, { b: null, t: 'long text' }]],
  },
  {
    field: field(
      'k',
      { kind: 'map' },
      {
        children: [
          { ...struct('entries', [field('key', utf8, { nullable: false }), field('value', int32)]), nullable: false },
        ],
      },
    ),
    values: [
      [{ key: 'a', value: 1n }],
      [],
      null,
      [
        { key: 'b', value: null },
        { key: '', value: 3n },
      ],
    ],
  },
];

const plainCases: readonly TypeCase[] = [...typeCases.filter((type) => isPlain(type.field)), ...deepCases];

const pieceOf = (schema: Schema, batches: readonly Rows[], codec: Codec = 'none'): Promise<IpcPiece> =>
  wholeOf(encodeStream(schema, batches, codec));

function randomMask(random: Random, rows: number): Uint8Array | undefined {
  const percent = random.pick([undefined, undefined, 0, 10, 50, 95, 100]);
  return percent === undefined ? undefined : Uint8Array.from({ length: rows }, () => Number(random.chance(percent)));
}

/** Up to four parts of up to three batches, some of them empty, each part in a codec of its own. */
async function randomParts(random: Random, schema: Schema, cases: readonly TypeCase[]): Promise<RowsOf[]> {
  const batch = (): Rows => {
    const rows = random.pick([0, 1, 7, 8, 20, 65]);
    const column = ({ values }: TypeCase) => {
      const allowed = random.chance(30) ? values.filter((value) => value !== null) : values;
      return Array.from({ length: rows }, () => random.pick(allowed.length === 0 ? values : allowed));
    };
    return Object.fromEntries(schema.fields.map(({ name }, i) => [name, column(cases[i]!)]));
  };
  const parts: RowsOf[] = [];
  for (let left = 1 + random.int(4); left > 0; left--) {
    const piece = await pieceOf(schema, Array.from({ length: random.int(4) }, batch), random.pick(codecs));
    parts.push({ piece, keep: randomMask(random, piece.rows) });
  }
  return parts;
}

function expectedRows(parts: readonly RowsOf[]): Record<string, unknown[]> {
  const columns: Record<string, unknown[]> = {};
  for (const { piece, keep } of parts) {
    for (const [name, values] of Object.entries(decodeFile(piece.file))) {
      const kept = values.filter((_, row) => keep === undefined || keep[row] === 1);
      columns[name] = [...(columns[name] ?? []), ...kept];
    }
  }
  return columns;
}

/** The structural check of client streams passes what was made, and counts the same. */
async function assertSound(made: IpcPiece): Promise<void> {
  const [block] = made.batches;
  assert.ok(block !== undefined && made.batches.length === 1);
  const messages = made.file.subarray(8, block.offset + block.metaLength + block.bodyLength);
  const { rows, decodedBytes, file } = await wholeOf(Buffer.concat([messages, endOfStream]));
  assert.deepEqual({ rows, decodedBytes }, { rows: made.rows, decodedBytes: made.decodedBytes });
  assert.ok(file.equals(made.file));
}

async function assertConcat(parts: readonly RowsOf[]): Promise<IpcPiece> {
  assert.equal(canConcat(parts.map(({ piece }) => piece)), true);
  const made = concatRows(parts);
  await assertSound(made);
  assert.deepEqual(decodeFile(made.file), expectedRows(parts));
  return made;
}

const wide = (cases: readonly TypeCase[]): Schema =>
  schemaOf(
    cases.map(({ field: of }, i) => ({ ...of, name: `c${i}`, metadata: new Map([['unit', `of ${i}`]]) })),
    { origin: 'lancegate' },
  );

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
    const parts = [await pieceOf(a, [{ t: ['x'] }]), await pieceOf(b, [{ t: ['y'] }])];
    const made = await assertConcat(parts.map((piece) => ({ piece, keep: undefined })));
    const message = encodeSchema(a);
    assert.ok(made.file.subarray(8, 8 + message.length).equals(message));
    assert.equal(made.schema, parts[0]!.schema);
  });
});

/** A stream of one batch whose columns are as given, true or not. */
const streamOf = (schema: Schema, rows: number, columns: readonly EncodedColumn[], codec: Codec = 'none'): Buffer => {
  const { header, body } = encodeBatch(rows, columns, codec);
  return Buffer.concat([encodeSchema(schema), encodeMessage({ kind: 'batch', header, body }), endOfStream]);
};

const words = (...values: number[]): Buffer => Buffer.from(Int32Array.from(values).buffer);
const longs = (...values: bigint[]): Buffer => Buffer.from(BigInt64Array.from(values).buffer);
const none = Buffer.alloc(0);
const column = (length: number, buffers: readonly Uint8Array[], children: readonly EncodedColumn[] = []) => ({
  length,
  nulls: 0,
  buffers,
  children,
});

describe('columns as writers of slices leave them', () => {
  it('lose what no value refers to', async () => {
    const schema = schemaOf([field('t', utf8), list('l', field('item', int32))]);
    const texts = column(3, [none, words(2, 3, 3, 5), Buffer.from('..abc..')]);
    const lists = column(3, [none, words(1, 2, 4, 4)], [column(6, [none, words(0, 1, 2, 3, 4, 5)])]);
    const piece = await wholeOf(streamOf(schema, 3, [texts, lists]));
    const made = await assertConcat([
      { piece, keep: Uint8Array.of(0, 1, 1) },
      { piece, keep: undefined },
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
    const piece = await wholeOf(streamOf(schema, 3, [texts]));
    const made = await assertConcat([{ piece, keep: Uint8Array.of(0, 1, 1) }]);
    assert.deepEqual(decodeFile(made.file), { t: [null, 'c'] });
  });

  it('have no NULL where they count none, whatever their bitmap says', async () => {
    const schema = schemaOf([field('n', int32, { nullable: false })]);
    const piece = await wholeOf(streamOf(schema, 2, [column(2, [Buffer.of(0b01), words(1, 2)])]));
    const made = await assertConcat([{ piece, keep: undefined }]);
    assert.deepEqual(decodeFile(made.file), { n: [1n, 2n] });
    assert.equal(made.decodedBytes, 8);
  });

  it('have no bitmap where no kept row is NULL', async () => {
    const schema = schemaOf([field('n', int32)]);
    const piece = await pieceOf(schema, [{ n: [1n, null, 3n] }]);
    const made = await assertConcat([{ piece, keep: Uint8Array.of(1, 0, 1) }]);
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
      await Promise.all(parts.map(async (bytes) => ({ piece: await wholeOf(bytes), keep: undefined }))),
    );
    assert.equal(made.rows, 2);
  });
});

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
      const empty = await pieceOf(schema, []);
      const bad = await wholeOf(stream);
      const parts = [empty, empty, bad, empty].map((piece) => ({ piece, keep: undefined }));
      assert.throws(
        () => concatRows(parts),
        (error) =>
          error instanceof FaultyPart &&
          error.kind === 'InvalidInput' &&
          error.part === 2 &&
          message.test(error.message),
      );
      const leftOut = { piece: bad, keep: new Uint8Array(bad.rows) };
      assert.throws(() => concatRows([leftOut]), { name: 'LancegateError', part: 0 });
      assert.equal(concatRows(parts.filter(({ piece }) => piece !== bad)).rows, 0);
    });
  }

  it('damaged compression', async () => {
    const stream = encodeStream(text, [{ n: [1n], t: ['a'.repeat(100)] }], 'zstd');
    const magicAt = stream.lastIndexOf(Buffer.from('28b52ffd', 'hex'));
    stream[magicAt] = 0;
    const parts = [
      { piece: await pieceOf(text, []), keep: undefined },
      { piece: await wholeOf(stream), keep: undefined },
    ];
    assert.throws(() => concatRows(parts), { part: 1, message: /^column t: malformed ZSTD/ });
  });

  it('but a NULL inside a struct or a list of fixed size that is NULL is none', async () => {
    const structs = await pieceOf(schemaOf([struct('s', [field('a', int32, item)])]), [{ s: [{ a: 1n }, null] }]);
    await assertConcat([{ piece: structs, keep: undefined }]);
    const lists = await pieceOf(pairs, [{ p: [null, [1n, 2n]] }]);
    await assertConcat([{ piece: lists, keep: undefined }]);
  });

  it('a mask of another length is a defect of the caller', async () => {
    const piece = await pieceOf(text, [{ n: [1n], t: ['x'] }]);
    assert.throws(() => concatRows([{ piece, keep: new Uint8Array(2) }]), /mask/);
  });
});

describe('whether pieces can become one', () => {
  const base = [field('id', int64), struct('s', [field('a', utf8)])];
  const pieceWith = (fields: readonly Field[]) => pieceOf(schemaOf(fields), []);
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
      assert.equal(canConcat([await pieceWith(base), await pieceWith(fields)]), false);
    });
  }

  it('no: dictionaries, also within and in one piece alone', async () => {
    const dictionary = { id: 1n, index: { bitWidth: 8, signed: true }, ordered: false } as const;
    const coded = await pieceWith([struct('s', [field('a', utf8, { dictionary })])]);
    assert.equal(canConcat([coded]), false);
    assert.equal(canConcat([coded, coded]), false);
  });

  it('yes where a later one is stricter about NULL, no where it is looser, on every level', async () => {
    const strict = await pieceWith([field('id', int64), struct('s', [field('a', utf8, { nullable: false })])]);
    const loose = await pieceWith(base);
    assert.equal(canConcat([loose, strict]), true);
    assert.equal(canConcat([strict, loose]), false);
  });

  it('yes whatever the metadata of the schemas say; no pieces are none', async () => {
    const other = await pieceOf(schemaOf(base, { pandas: '{}' }), []);
    assert.equal(canConcat([await pieceWith(base), other]), true);
    assert.equal(canConcat([]), false);
  });

  it('no: too much for one batch', async () => {
    const piece = await pieceOf(schemaOf(base), [{ id: [1n], s: [null] }]);
    const large = { ...piece, decodedBytes: 100 << 20 };
    assert.equal(canConcat([piece, large, large]), true);
    assert.equal(canConcat([piece, large, large, large]), false);
  });

  it('is seen from fingerprints: equal for equal schema messages, and for no others', async () => {
    const a = await pieceOf(schemaOf(base), [{ id: [1n], s: [null] }], 'zstd');
    assert.equal(schemaFingerprint(a), schemaFingerprint(await pieceWith(base)));
    assert.notEqual(schemaFingerprint(a), schemaFingerprint(await pieceWith([base[0]!])));
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
    const whole = await pieceOf(wide(cases), [
      Object.fromEntries(cases.map(({ values }, i) => [`c${i}`, [values[0], values.at(-1)]])),
    ]);
    const all = [...parts, { piece: whole, keep: undefined }];
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
    const table = await lance.create((await pieceOf(schema, [{ id: [1n, 2n], t: ['a', 'b'] }])).file);
    const parts = [
      { piece: await pieceOf(schema, [{ id: [2n, 3n], t: ['lost', 'c'] }], 'lz4'), keep: Uint8Array.of(0, 1) },
      { piece: await pieceOf(schema, [{ id: [2n], t: [null] }], 'zstd'), keep: undefined },
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

  it('returns files whose keys can be read, of one batch and of several', async () => {
    const schema = schemaOf([field('v', utf8), field('id', int64)]);
    const ids = Array.from({ length: 50 }, (_, i) => BigInt(i * i));
    const table = await lance.create((await pieceOf(schema, [{ v: ids.map(String), id: ids }])).file);
    const files = await table.files(20);
    const keysOf = (file: Uint8Array) => {
      const keys = readKeys(pieceOfFile(file as IpcFile), [parseFieldPath('id')]);
      return Array.from({ length: keys.rows }, (_, row) => keys.canonical(row));
    };
    assert.equal(files.length, 3);
    assert.deepEqual(files.flatMap(keysOf), ids.map(Number));
    const joined = pieceOfFile(joinFiles(files as IpcFile[]));
    assert.equal(joined.batches.length, 3);
    assert.deepEqual(keysOf(joined.file), ids.map(Number));
    assert.deepEqual(
      joined.schema.fields.map(({ name }) => name),
      ['v', 'id'],
    );
    const again = [pieceOfFile(files[0] as IpcFile), joined].map((piece) => ({ piece, keep: undefined }));
    assert.deepEqual(decodeFile(concatRows(again).file).id, [...ids.slice(0, 20), ...ids]);
  });
});
