import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Float16, Table, vectorFromArray } from 'apache-arrow';
import { parseFieldPath } from '#src/arrow/schema/field-path.ts';
import { type DataType, type Field, typeName } from '#src/arrow/schema/schema.ts';
import { chunkOfFile } from '#src/arrow/stream/ipc-chunks.ts';
import { LancegateError } from '#src/kernel/errors.ts';
import { findDuplicate, type Keys, readKeys, sqlFieldPath } from '#src/keys/key-columns.ts';
import { KeyHasher, textOfDigest } from '#src/keys/key-hasher.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { type Codec, encodeStream, field, type Rows, schemaOf } from '#test/fixtures/ipc-writer.ts';
import { type NativeLance, openNativeLance } from '#test/fixtures/native-lance.ts';
import { keyCases, polarsStreams, wholeOf } from '#test/fixtures/streams.ts';

const utf8: DataType = { kind: 'utf8' };
const int64: DataType = { kind: 'int', bitWidth: 64, signed: true };
const float64: DataType = { kind: 'float', bitWidth: 64 };
const struct = (name: string, children: readonly Field[]): Field => field(name, { kind: 'struct' }, { children });

async function keysOf(
  fields: readonly Field[],
  batches: readonly Rows[],
  on: readonly string[],
  codec: Codec = 'none',
) {
  const chunk = await wholeOf(encodeStream(schemaOf(fields), batches, codec));
  return readKeys(
    chunk,
    on.map((text) => parseFieldPath(text)),
  );
}

const hasher = new KeyHasher(new Uint32Array(8).fill(1));
const duplicateOf = async (keys: Keys) => findDuplicate(keys, await hasher.digest(keys));
const shown = (keys: Keys): string[] => Array.from({ length: keys.rows }, (_, row) => keys.show(row));

/** undefined for NULL. */
async function digestsOf(keys: Keys): Promise<readonly (string | undefined)[]> {
  const digests = await hasher.digest(keys);
  return Array.from({ length: keys.rows }, (_, row) => (keys.isNull(row) ? undefined : textOfDigest(digests, row)));
}

/** NULL equals nothing, NaN itself, and the zeros each other. */
const sameKey = (a: unknown, b: unknown): boolean => {
  if (a === null || b === null) return false;
  return Buffer.isBuffer(a) && Buffer.isBuffer(b) ? a.equals(b) : Object.is(a, b) || a === b;
};

describe('the keys of a source (P2)', () => {
  for (const { field: of, values } of keyCases) {
    for (const codec of ['none', 'lz4', 'zstd'] as const) {
      it(`of type ${typeName(of)}, ${codec}, have equal digests exactly where the values are equal`, async () => {
        const twice = [...values, ...values];
        const keys = await keysOf([of], [{ k: values }, { k: values }], ['k'], codec);
        const found = await digestsOf(keys);
        for (const [i, a] of twice.entries()) {
          assert.equal(found[i] === undefined, a === null);
          for (const [j, b] of twice.entries())
            assert.equal(found[i] !== undefined && found[i] === found[j], sameKey(a, b));
        }
        const row = twice.findIndex((value, i) => twice.slice(0, i).some((earlier) => sameKey(earlier, value)));
        const firstRow = twice.findIndex((value) => sameKey(value, twice[row]));
        const duplicate = await duplicateOf(keys);
        assert.deepEqual({ row: duplicate?.row, firstRow: duplicate?.firstRow }, { row, firstRow });
      });
    }
  }

  for (const isSigned of [true, false]) {
    it(`of 64 bits, ${isSigned ? 'signed' : 'unsigned'}, are exact`, async () => {
      const near = [0n, 1n, 2n ** 31n, 2n ** 32n - 1n, 2n ** 32n, 2n ** 53n, 2n ** 53n + 1n, 2n ** 63n - 1n];
      const values = isSigned ? [...near, ...near.map((value) => -value), -(2n ** 63n)] : [...near, 2n ** 64n - 1n];
      const type: DataType = { kind: 'int', bitWidth: 64, signed: isSigned };
      assert.deepEqual(shown(await keysOf([field('k', type)], [{ k: values }], ['k'])), values.map(String));
    });
  }

  it('hold a NULL as often as they like', async () => {
    const keys = await keysOf([field('k', utf8)], [{ k: [null, 'a', null] }], ['k']);
    assert.equal(await duplicateOf(keys), undefined);
    assert.equal(keys.hasNull, true);
  });

  it('inside a struct are NULL where the struct is', async () => {
    const of = struct('m', [field('x', utf8), struct('in', [field('k', int64)])]);
    const rows = [
      { x: 'a', in: { k: 5n } },
      null,
      { x: 'b', in: null },
      { x: 'c', in: { k: null } },
      { x: 'd', in: { k: 5n } },
    ];
    const keys = await keysOf([field('before', utf8), of], [{ before: rows.map(() => 'x'), m: rows }], ['m.in.k']);
    assert.deepEqual(shown(keys), ['5', 'NULL', 'NULL', 'NULL', '5']);
    assert.deepEqual(await duplicateOf(keys), { row: 4, firstRow: 0 });
  });

  it('after columns of every layout are found', async () => {
    const before = [
      field('n', { kind: 'null' }),
      field('b', { kind: 'bool' }),
      field('l', { kind: 'list' }, { children: [struct('item', [field('a', utf8)])] }),
      field('f', { kind: 'fixed_size_list', listSize: 2 }, { children: [field('item', float64)] }),
      field('d', utf8, { dictionary: { id: 9n, index: { bitWidth: 16, signed: false }, ordered: false } }),
    ];
    const rows = { n: [null], b: [true], l: [[{ a: 'x' }]], f: [[1, 2]], d: ['y'], k: ['found'] };
    assert.deepEqual(shown(await keysOf([...before, field('k', utf8)], [rows], ['k'])), ['"found"']);
  });

  it('made of several columns are equal only where all are, and do not run into each other', async () => {
    const fields = [field('a', utf8), field('b', utf8)];
    const rows = { a: ['1', '11', 'x', '1', null], b: ['11', '1', 'x', '11', 'x'] };
    const keys = await keysOf(fields, [rows], ['a', 'b']);
    assert.equal(new Set(await digestsOf(keys)).size, 4);
    assert.equal(keys.isNull(4), true);
    assert.deepEqual(await duplicateOf(keys), { row: 3, firstRow: 0 });
    assert.equal(keys.show(3), '"1", "11"');
  });

  it('of NaNs with different payloads are one key, and the source keeps its bytes', async () => {
    const stream = encodeStream(schemaOf([field('k', float64)]), [{ k: [Number.NaN, 123.5] }]);
    const marker = Buffer.alloc(8);
    marker.writeDoubleLE(123.5);
    const payload = Buffer.from('010000000000f8ff', 'hex');
    payload.copy(stream, stream.indexOf(marker));
    const chunk = await wholeOf(stream);
    assert.equal((await duplicateOf(readKeys(chunk, [parseFieldPath('k')])))?.row, 1);
    assert.ok(chunk.file.includes(payload));
  });

  it('of both zeros are one key, and the source keeps its bytes', async () => {
    const stream = encodeStream(schemaOf([field('k', float64)]), [{ k: [0, -0, 1] }]);
    const chunk = await wholeOf(stream);
    const before = Buffer.from(chunk.file);
    const keys = readKeys(chunk, [parseFieldPath('k')]);
    assert.deepEqual([(await duplicateOf(keys))?.row, keys.hasSpellings], [1, true]);
    assert.deepEqual(chunk.file, before);
    assert.equal((await keysOf([field('k', float64)], [{ k: [1, null] }], ['k'])).hasSpellings, false);
  });

  it('are shown cut where they are long', async () => {
    const keys = await keysOf([field('k', utf8)], [{ k: ['x'.repeat(5000), 'x'.repeat(5000)] }], ['k']);
    assert.ok(keys.show(1).length < 100);
  });

  it('of many rows are compared across all of them, and leave others the thread in between (P10)', async () => {
    const ids = Array.from({ length: 200_000 }, (_, i) => BigInt(i === 199_999 ? 3 : i));
    const keys = await keysOf([field('k', int64)], [{ k: ids }], ['k']);
    let othersRan = false;
    setImmediate(() => {
      othersRan = true;
    });
    assert.deepEqual(await duplicateOf(keys), { row: 199_999, firstRow: 3 });
    assert.ok(othersRan);
  });

  it('of no row at all are no keys', async () => {
    assert.equal(await duplicateOf(await keysOf([field('k', utf8)], [], ['k'])), undefined);
  });

  for (const { title, bytes, rows } of polarsStreams()) {
    it(`are read from ${title}`, async () => {
      const keys = readKeys(await wholeOf(bytes), [parseFieldPath('id')]);
      assert.equal(keys.rows, rows);
      assert.equal(await duplicateOf(keys), undefined);
      assert.equal(keys.show(rows - 1), `"key-${rows - 1}"`);
    });
  }

  it('of a type that is none are refused by path and type', async () => {
    const of = struct('m', [field('l', { kind: 'list' }, { children: [field('item', int64)] })]);
    for (const path of ['m', 'm.l']) {
      await assert.rejects(
        keysOf([of], [{ m: [{ l: [1n] }] }], [path]),
        (error) =>
          error instanceof LancegateError &&
          error.kind === 'InvalidInput' &&
          error.message.startsWith(`column ${path} of type`),
      );
    }
  });

  it('that the source does not have are refused', async () => {
    await assert.rejects(
      keysOf([field('k', utf8)], [{ k: ['a'] }], ['m.`a.b`']),
      (error) =>
        error instanceof LancegateError && error.kind === 'TableColumnNotFound' && error.message.includes('m.`a.b`'),
    );
  });
});

describe('keys whose values lie are refused', () => {
  const lies: readonly (readonly [string, (stream: Buffer) => void, RegExp])[] = [
    ['offsets that run backwards', (stream) => patch(stream, [0, 3, 6], [0, 9, 6]), /run backwards/],
    ['offsets outside the data', (stream) => patch(stream, [0, 3, 6], [0, 3, 600]), /outside its data/],
    ['negative offsets', (stream) => patch(stream, [0, 3, 6], [-5, 3, 6]), /run backwards/],
    [
      'bytes that are no UTF-8',
      (stream) => void stream.fill(0xff, stream.indexOf('abcdé'), stream.indexOf('abcdé') + 1),
      /UTF-8/,
    ],
    ['a text that begins within a character', (stream) => patch(stream, [0, 3, 6], [0, 5, 6]), /UTF-8/],
  ];
  for (const [title, lie, why] of lies) {
    it(title, async () => {
      const stream = encodeStream(schemaOf([field('k', utf8)]), [{ k: ['abc', 'dé'] }]);
      lie(stream);
      const chunk = await wholeOf(stream);
      assert.throws(
        () => readKeys(chunk, [parseFieldPath('k')]),
        (error) => error instanceof LancegateError && error.kind === 'InvalidInput' && why.test(error.message),
      );
    });
  }

  function patch(stream: Buffer, from: readonly number[], to: readonly number[]): void {
    const at = stream.indexOf(Buffer.from(Int32Array.from(from).buffer));
    assert.notEqual(at, -1);
    Buffer.from(Int32Array.from(to).buffer).copy(stream, at);
  }
});

describe('keys as SQL', () => {
  let lance: NativeLance;
  before(async () => {
    lance = await openNativeLance();
  });
  after(() => lance.remove());

  for (const { field: of, values } of keyCases) {
    it(`of type ${typeName(of)} find their rows in the engine, and no others`, async () => {
      const chunk = await wholeOf(encodeStream(schemaOf([of]), [{ k: values }]));
      const table = await lance.create(chunk.file);
      const keys = readKeys(chunk, [parseFieldPath('k')]);
      const wanted = values.filter((value) => value !== null).length;
      assert.equal(await table.countRows(`\`k\` IN (${keys.sqlLiterals(0).join(', ')})`), wanted);
      for (const [row, value] of values.entries()) {
        const literal = keys.sqlLiteral(row, 0);
        assert.equal(literal === undefined, value === null);
        if (literal === undefined) continue;
        const same = values.filter((other) => sameKey(other, value) || (value === 0 && other === 0)).length;
        assert.equal(await table.countRows(`\`k\` IN (${literal})`), same, literal);
      }
    });
  }

  it('of half floats are read on every Node that runs this, and some have no such number', (t) => {
    const own = Object.getOwnPropertyDescriptor(DataView.prototype, 'getFloat16');
    if (own !== undefined) {
      Reflect.deleteProperty(DataView.prototype, 'getFloat16');
      t.after(() => Object.defineProperty(DataView.prototype, 'getFloat16', own));
    }
    const halves = [1.5, -0.25, 65_504, 2 ** -24, Number.POSITIVE_INFINITY];
    const file = ipcFile(new Table({ k: vectorFromArray(halves, new Float16()) }));
    assert.deepEqual(
      readKeys(chunkOfFile(file), [parseFieldPath('k')]).sqlLiterals(0),
      ['1.5', '-0.25', '65504', String(2 ** -24), 'inf'].map((text) => `arrow_cast('${text}', 'Float16')`),
    );
  });

  const names = ['a', 'Upper', 'two words', "it's", 'select', 'Größe', '"quoted"', '1st', 'x-y', 'null'];
  for (const name of names) {
    it(`columns named ${name} are found, also inside a struct`, async () => {
      const fields = [field(name, int64), struct('M', [field(name, int64)])];
      const rows = { [name]: [1n, 2n], M: [{ [name]: 1n }, { [name]: 3n }] };
      const table = await lance.create((await wholeOf(encodeStream(schemaOf(fields), [rows]))).file);
      assert.equal(await table.countRows(`${sqlFieldPath({ segments: [name] })} IN (1)`), 1);
      assert.equal(await table.countRows(`${sqlFieldPath({ segments: ['M', name] })} IN (3)`), 1);
    });
  }
  it('dots and backticks in the names of struct fields are no separators', async () => {
    const of = struct('m', [field('a.b', int64), field('a`b', int64)]);
    const rows = { m: [{ 'a.b': 3n, 'a`b': 4n }] };
    const table = await lance.create((await wholeOf(encodeStream(schemaOf([of]), [rows]))).file);
    assert.equal(await table.countRows(`${sqlFieldPath({ segments: ['m', 'a.b'] })} IN (3)`), 1);
    assert.equal(await table.countRows(`${sqlFieldPath({ segments: ['m', 'a`b'] })} IN (4)`), 1);
  });
});
