/** Keys of every type, by which upserts are committed by row address. */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { type Field, typeName } from '#src/arrow/schema/schema.ts';
import { encodeStream, field, schemaOf } from '#test/fixtures/ipc-writer.ts';
import { inChunks, keyCases, sourceFrom } from '#test/fixtures/streams.ts';
import { directCommits, sendTogether, sendUntilDirectCommit } from './direct-commits.ts';
import { countsOf, Stage } from './stage.ts';

const int32 = { kind: 'int', bitWidth: 32, signed: true } as const;
const int64 = { kind: 'int', bitWidth: 64, signed: true } as const;
const float64 = { kind: 'float', bitWidth: 64 } as const;
const utf8 = { kind: 'utf8' } as const;

/** The values of the key columns of one row. */
type Key = readonly unknown[];

const isSame = (a: Key, b: Key): boolean =>
  a.every((value, at) => {
    const other = b[at];
    return value instanceof Buffer && other instanceof Buffer
      ? value.equals(other)
      : Object.is(value, other) || value === other;
  });
const distinct = (keys: readonly Key[]): Key[] =>
  keys.filter((key, at) => !key.includes(null) && keys.findIndex((other) => isSame(other, key)) === at);

function streamOf(columns: readonly Field[], keys: readonly Key[], first: number): Buffer {
  const values = columns.map(({ name }, at) => [name, keys.map((key) => key[at])] as const);
  const v = keys.map((_, at) => BigInt(first + at));
  return encodeStream(schemaOf([...columns, field('v', int32)]), [{ ...Object.fromEntries(values), v }]);
}

/** The table has half of the keys to begin with; the others are inserted by direct commits, and all are found, whichever program wrote them. */
async function assertFound(t: TestContext, columns: readonly Field[], keys: readonly Key[]): Promise<Stage> {
  const half = Math.floor(keys.length / 2);
  assert.ok(half > 0);
  const { file } = await sourceFrom(inChunks(streamOf(columns, keys.slice(0, half), 0))).whole();
  const stage = await Stage.open(t, file, { on: columns.map(({ name }) => name), hasKeyIndex: true });
  await sendUntilDirectCommit(stage, () => stage.request(streamOf(columns, keys.slice(0, 1), 0)));
  const known = directCommits(stage);
  const send = async (...sources: Buffer[]) =>
    countsOf(
      await sendTogether(
        stage,
        sources.map((source) => stage.request(source)),
      ),
    );
  const rest = keys.length - half;
  const nothing = columns.map(() => null);
  assert.deepEqual(await send(streamOf(columns, keys, 100), streamOf(columns, keys.slice(half), 200)), [
    [rest, half],
    [0, rest],
  ]);
  assert.deepEqual(await send(streamOf(columns, [...keys.slice(1), nothing], 300)), [[1, keys.length - 1]]);
  await stage.moveRows();
  await stage.compact();
  assert.deepEqual(await send(streamOf(columns, keys.toReversed(), 400)), [[0, keys.length]]);
  assert.equal(directCommits(stage) - known, 3);
  const expected = [300 + keys.length - 1, ...keys.map((_, at) => 400 + at)];
  assert.deepEqual(await stage.rows(['v']), expected.map(String).sort());
  return stage;
}

describe('a key of every type finds the address of its row (P2, P4)', () => {
  for (const { field: k, values } of keyCases) {
    if (k.dictionary !== undefined) continue;
    test(typeName(k), async (t) => {
      await assertFound(t, [k], distinct(values.map((value) => [value])));
    });
  }
});

describe('keys that look alike stay apart (P2)', () => {
  for (const { title, columns, keys } of [
    {
      title: 'integers around the largest safe ones',
      columns: [field('k', int64)],
      keys: [
        0n,
        -1n,
        2n ** 32n,
        -(2n ** 32n),
        2n ** 53n - 1n,
        2n ** 53n,
        2n ** 53n + 1n,
        1n - 2n ** 53n,
        -(2n ** 53n),
        -(2n ** 53n) - 1n,
      ].map((key) => [key]),
    },
    {
      title: 'floats, of which some are integers and some are not numbers',
      columns: [field('k', float64)],
      keys: [
        0,
        0.5,
        -0.5,
        1,
        Number.NaN,
        Number.POSITIVE_INFINITY,
        Number.NEGATIVE_INFINITY,
        2 ** 53,
        2 ** 53 + 2,
        5e-324,
      ].map((key) => [key]),
    },
    {
      title: 'texts that are like numbers, and like each other',
      columns: [field('k', utf8)],
      keys: [
        '0.5',
        'NaN',
        '-0',
        '0',
        '1',
        '01',
        '1.0',
        'null',
        '',
        ' ',
        'a',
        'a\u0000',
        'A',
        'ä',
        'a\u0308',
        'x'.repeat(512),
        'x'.repeat(513),
      ].map((key) => [key]),
    },
    {
      title: 'two columns whose values run into each other',
      columns: [field('a', utf8), field('b', utf8)],
      keys: [
        ['ab', 'c'],
        ['a', 'bc'],
        ['', 'abc'],
        ['abc', ''],
        ['1:a', 'b'],
        ['1', 'a1:b'],
        ['c', 'ab'],
      ],
    },
    {
      title: 'two columns of different types, in either order',
      columns: [field('a', int64), field('b', float64)],
      keys: [
        [1n, 2],
        [2n, 1],
        [1n, 0],
        [1n, Number.NaN],
        [2n ** 60n, 0.5],
        [2n ** 60n + 1n, 0.5],
      ],
    },
  ] satisfies { title: string; columns: Field[]; keys: Key[] }[]) {
    test(title, (t) => assertFound(t, columns, keys).then(() => undefined));
  }

  test('a row that lacks a part of its key has none', async (t) => {
    const columns = [field('a', int64), field('b', utf8)];
    const stage = await assertFound(t, columns, [
      [1n, 'x'],
      [2n, 'x'],
      [1n, 'y'],
    ]);
    const source = streamOf(
      columns,
      [
        [1n, null],
        [null, 'x'],
        [1n, 'x'],
      ],
      500,
    );
    for (let sent = 0; sent < 2; sent++) {
      assert.deepEqual(countsOf(await sendTogether(stage, [stage.request(source)])), [[2, 1]]);
    }
    assert.equal(stage.replacements.at(-1), 'made');
  });
});

test('a key from a dictionary is left to the engine, and others are not (P2, P4)', async (t) => {
  const k = keyCases.find(({ field: { dictionary } }) => dictionary !== undefined)!.field;
  const { file } = await sourceFrom(inChunks(streamOf([k], [['x'], ['y']], 0))).whole();
  const stage = await Stage.open(t, file, { on: ['k'], hasKeyIndex: true });
  for (let sent = 0; sent < 4; sent++) {
    const answers = await sendTogether(stage, [stage.request(streamOf([k], [['y'], [`new ${sent}`]], 10 * sent))]);
    assert.deepEqual(countsOf(answers), [[1, 1]]);
  }
  assert.deepEqual(stage.replacements, []);
  assert.equal((await stage.rows(['v'])).length, 6);
});
