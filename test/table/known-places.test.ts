/** Upserts committed by the places of their rows: when they are, and that rows and counts are as the engine's merge leaves them. */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import type { Table } from 'apache-arrow';
import { systemClock } from '#src/kernel/clock.ts';
import { placed, sendTogether, sendUntilPlaced } from './placed.ts';
import { full, type Row } from './rows.ts';
import { byAppending, countsOf, type Interruptions, Stage, type StageOptions, upsert } from './stage.ts';

const open = (t: TestContext, rows: Table, options: StageOptions = {}): Promise<Stage> =>
  Stage.open(t, rows, { knowsPlaces: true, ...options });

/** One request for each source, all in one commit. */
const send = async (stage: Stage, ...sources: readonly Row[][]): Promise<unknown[]> =>
  countsOf(
    await sendTogether(
      stage,
      sources.map((rows) => stage.request(full(...rows))),
    ),
  );

/** The places of a small table are read in the turn of the next merge. */
async function openKnown(t: TestContext, rows: Table, options: StageOptions = {}): Promise<Stage> {
  const stage = await open(t, rows, options);
  await sendUntilPlaced(stage, () => stage.request(full([1, 'known'])));
  return stage;
}

const many = (count: number): Row[] => Array.from({ length: count }, (_, id) => [id, 'old']);

describe('once merges have cost as much as reading the places takes, upserts are committed by them (P2, P4)', () => {
  test('at the second merge of a small table, and each is one version', async (t) => {
    const stage = await open(t, full([1, 'old']));
    for (const n of [1, 2, 3, 4]) assert.deepEqual(await send(stage, [[1, `${n}`]]), [[0, 1]]);
    assert.deepEqual(stage.replacements, ['made', 'made', 'made']);
    assert.equal(stage.placeReadings, 1);
    assert.deepEqual(await stage.rows(), ['1:4']);
    assert.equal(await (await stage.outsider()).version(), 5);
  });

  test('beside the commits of a larger table, which go on meanwhile', async (t) => {
    const interruptions: Interruptions = {};
    const stage = await open(t, full(...many(50_000)), { interruptions, keyMemoryBytes: 1 << 22 });
    const reading = Promise.withResolvers<void>();
    interruptions.readPlaces = () => reading.promise;
    const mergeOne = async (id: number) => countsOf(await stage.together([await stage.request(full([id, 'beside']))]));
    let sent = 0;
    for (; stage.placeReadings === 0; sent++) {
      assert.ok(sent < 200, 'the places are never read');
      assert.deepEqual(await mergeOne(sent), [[0, 1]]);
    }
    assert.ok(sent > 1, 'what a merge costs is less than reading');
    for (const id of [50_000, 50_001]) assert.deepEqual(await mergeOne(id), [[1, 0]]);
    assert.deepEqual(stage.replacements, []);
    interruptions.readPlaces = undefined;
    reading.resolve();
    await stage.placesRead();
    assert.deepEqual(await send(stage, [[0, 'a']], [[50_000, 'b']], [[50_001, 'c']], [[50_002, 'd']]), [
      ...[
        [0, 1],
        [0, 1],
        [0, 1],
      ],
      [1, 0],
    ]);
    assert.deepEqual(stage.replacements, ['made']);
    assert.equal((await stage.rows()).length, 50_003);
  });
});

describe('counts and rows of a commit by places are exact (P2, P4)', () => {
  const before: Row[] = [
    [1, 'old'],
    [2, 'old'],
    [3, 'old'],
    [null, 'none'],
  ];
  const untouched = ['1:known', '2:old', '3:old', 'null:none'];

  for (const { title, sources, counts, rows } of [
    { title: 'an existing key alone', sources: [[[2, 'a']]], counts: [[0, 1]], rows: ['2:a'] },
    { title: 'a new key alone', sources: [[[9, 'a']]], counts: [[1, 0]], rows: ['9:a'] },
    {
      title: 'existing keys alone, all rows of a fragment',
      sources: [
        [
          [1, 'a'],
          [2, 'b'],
          [3, 'c'],
        ],
      ],
      counts: [[0, 3]],
      rows: ['1:a', '2:b', '3:c'],
    },
    {
      title: 'a group of new and of existing keys',
      sources: [
        [
          [1, 'a'],
          [8, 'a'],
        ],
        [[2, 'b']],
        [[9, 'c']],
      ],
      counts: [
        [1, 1],
        [0, 1],
        [1, 0],
      ],
      rows: ['1:a', '2:b', '8:a', '9:c'],
    },
    {
      title: 'a key of several requests: the first to bring it inserts, the last wins',
      sources: [
        [
          [9, 'a'],
          [2, 'a'],
        ],
        [[9, 'b']],
        [
          [2, 'c'],
          [9, 'c'],
        ],
      ],
      counts: [
        [1, 1],
        [0, 1],
        [0, 2],
      ],
      rows: ['2:c', '9:c'],
    },
    {
      title: 'NULL is no key: such rows are inserted each time',
      sources: [
        [
          [null, 'a'],
          [null, 'b'],
        ],
        [
          [2, 'c'],
          [null, 'c'],
        ],
      ],
      counts: [
        [2, 0],
        [1, 1],
      ],
      rows: ['2:c', 'null:a', 'null:b', 'null:c'],
    },
  ] satisfies { title: string; sources: Row[][]; counts: number[][]; rows: string[] }[]) {
    test(title, async (t) => {
      const stage = await openKnown(t, full(...before));
      const known = placed(stage);
      assert.deepEqual(await send(stage, ...sources), counts);
      const keys = new Set(rows.map((row) => row.split(':')[0]).filter((key) => key !== 'null'));
      const after = [...untouched.filter((row) => !keys.has(row.split(':')[0])), ...rows].sort();
      assert.deepEqual(await stage.rows(), after);
      // The places of what was written are known without reading it.
      assert.deepEqual(await send(stage, ...sources.map(() => [[77, 'z']] as Row[])), [
        [1, 0],
        ...sources.slice(1).map(() => [0, 1]),
      ]);
      const again = sources.map((source) => source.filter(([id]) => id !== null).map(([id]): Row => [id, 'again']));
      assert.deepEqual(
        await send(stage, ...again),
        again.map((source) => [0, source.length]),
      );
      assert.equal(placed(stage) - known, 3);
      assert.equal(stage.placeReadings, 1);
      assert.equal((await stage.rows()).length, after.length + 1);
    });
  }

  test('a key that a merge of another kind deletes is inserted again, and one that it inserts is found', async (t) => {
    const stage = await openKnown(t, full(...before));
    const deleting = { ...upsert, whenNotMatchedBySourceDelete: { filter: 'id = 2' } };
    await sendTogether(stage, [stage.request(full([20, 'kept']), deleting)]);
    await sendTogether(stage, [stage.request(full([21, 'kept']), { ...upsert, whenMatchedUpdateAll: false })]);
    const known = placed(stage);
    assert.deepEqual(await send(stage, [[2, 'a']], [[20, 'b']], [[21, 'c']]), [
      [1, 0],
      [0, 1],
      [0, 1],
    ]);
    assert.equal(placed(stage) - known, 1);
    assert.deepEqual(await stage.rows(), ['1:known', '20:b', '21:c', '2:a', '3:old', 'null:none'].sort());
  });
});

describe('places are not known', () => {
  test('of a table that has a key twice, until somebody puts that right (P2, P4)', async (t) => {
    const stage = await open(t, full([1, 'old'], [7, 'old'], [7, 'twin']));
    for (let sent = 0; sent < 6; sent++)
      assert.deepEqual(await send(stage, [[7, 'new']], [[1, 'new']]), [
        [0, 2],
        [0, 1],
      ]);
    assert.deepEqual(stage.replacements, []);
    assert.deepEqual(await stage.rows(), ['1:new', '7:new', '7:new']);
    const outsider = await stage.outsider();
    await outsider.delete('id = 7');
    await outsider.add(full([7, 'one']));
    await sendUntilPlaced(stage, () => stage.request(full([7, 'found'])));
    assert.deepEqual(await stage.rows(), ['1:new', '7:found']);
  });

  test('any more once somebody brings a key a second time (P4)', async (t) => {
    const stage = await openKnown(t, full([1, 'old'], [7, 'old']));
    const known = placed(stage);
    await byAppending(stage, full([7, 'twin']))();
    for (let sent = 0; sent < 4; sent++) assert.deepEqual(await send(stage, [[7, 'new']]), [[0, 2]]);
    assert.equal(placed(stage), known);
    assert.deepEqual(await stage.rows(), ['1:known', '7:new', '7:new']);
  });

  test('where there is no room for them (P7)', async (t) => {
    for (const keyMemoryBytes of [0, 300]) {
      const stage = await open(t, full([1, 'old']), { keyMemoryBytes });
      assert.deepEqual(await send(stage, [[1, 'a']]), [[0, 1]]);
      for (const id of [2, 3, 4, 5])
        assert.deepEqual(await send(stage, [[1, 'b']], [[id, 'b']]), [
          [0, 1],
          [1, 0],
        ]);
      assert.deepEqual(stage.replacements, []);
      assert.ok(stage.keyBudget.heldBytes <= keyMemoryBytes);
      assert.deepEqual(stage.warnings, []);
    }
  });

  test('any more once other tables need the room (P7)', async (t) => {
    let passedMs = 0;
    const clock = { ...systemClock, nowMs: () => systemClock.nowMs() + passedMs };
    const stage = await openKnown(t, full([1, 'old']), { clock });
    const known = placed(stage);
    passedMs = 60_000;
    assert.ok(stage.keyBudget.heldBytes > 0);
    const other = stage.keyBudget.open(() => undefined);
    assert.ok(other.resize(1 << 20));
    for (const id of [1, 2, 1]) await send(stage, [[id, 'without']]);
    assert.equal(placed(stage), known);
    other.release();
    await sendUntilPlaced(stage, () => stage.request(full([2, 'known'])));
    assert.deepEqual(await stage.rows(), ['1:without', '2:known']);
  });

  test('of a table that takes the place of another at the same version (P2)', async (t) => {
    const stage = await openKnown(t, full([1, 'old'], [2, 'old']));
    const known = placed(stage);
    await stage.replace(full([7, 'new']), await (await stage.outsider()).version());
    assert.deepEqual(await send(stage, [[7, 'a']], [[1, 'a']]), [
      [0, 1],
      [1, 0],
    ]);
    assert.equal(placed(stage), known);
    assert.deepEqual(await stage.rows(), ['1:a', '7:a']);
  });

  test('where reading them fails, and they are read again later', async (t) => {
    for (const rows of [many(5), many(10_001)]) {
      const interruptions: Interruptions = {};
      const stage = await open(t, full(...rows), { interruptions });
      let failures = 0;
      interruptions.readPlaces = () => {
        failures += 1;
        return Promise.reject(new Error('the version has been removed'));
      };
      for (let sent = 0; failures < 2; sent++) {
        assert.ok(sent < 200, 'the places are never read');
        assert.deepEqual(await send(stage, [[1, 'a']]), [[0, 1]]);
      }
      assert.deepEqual(stage.replacements, []);
      interruptions.readPlaces = undefined;
      await sendUntilPlaced(stage, () => stage.request(full([1, 'b'])));
      assert.deepEqual(stage.warnings, []);
    }
  });
});
