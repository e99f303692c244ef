/** Upserts by row address: when there are any, and that rows and counts are as the engine's merge leaves them. */

import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import type { Table } from 'apache-arrow';
import { ownSql } from '#src/kernel/checked-sql.ts';
import { directCommits, openKnown, sendRows, sendTogether } from './direct-commits.ts';
import { full, type Row } from './rows.ts';
import { countsOf, type Interruptions, Stage, type StageOptions, upsert } from './stage.ts';

const open = (t: TestContext, rows: Table, options: StageOptions = {}): Promise<Stage> =>
  Stage.open(t, rows, { hasKeyIndex: true, ...options });

const many = (count: number): Row[] => Array.from({ length: count }, (_, id) => [id, 'old']);

describe('once merges have cost as much as reading the key index takes, upserts are committed by row address (P2, P4)', () => {
  test('at the third merge of a small table, and each is one version', async (t) => {
    const stage = await open(t, full([1, 'old']));
    for (const n of [1, 2, 3, 4, 5]) assert.deepEqual(await sendRows(stage, [[1, `${n}`]]), [[0, 1]]);
    assert.deepEqual(stage.replacements, ['made', 'made', 'made']);
    assert.equal(stage.addressReadings, 1);
    assert.deepEqual(await stage.rows(), ['1:5']);
    assert.equal(await (await stage.externalWriter()).version(), 6);
  });

  test('and not for a table that is merged into once (P10)', async (t) => {
    const stage = await open(t, full([1, 'old']));
    await sendRows(stage, [[1, 'new']]);
    assert.equal(stage.addressReadings, 0);
  });

  test('concurrently with the commits of a larger table, which go on meanwhile', async (t) => {
    const interruptions: Interruptions = {};
    const stage = await open(t, full(...many(100_000)), { interruptions, keyMemoryBytes: 1 << 23 });
    const reading = Promise.withResolvers<void>();
    interruptions.readAddresses = () => reading.promise;
    const mergeOne = async (id: number) =>
      countsOf(await stage.together([await stage.request(full([id, 'meanwhile']))]));
    let sent = 0;
    for (; stage.addressReadings === 0; sent++) {
      assert.ok(sent < 200, 'the key index is never read');
      assert.deepEqual(await mergeOne(sent), [[0, 1]]);
    }
    assert.ok(sent > 1, 'what a merge costs is less than reading');
    for (const id of [100_000, 100_001]) assert.deepEqual(await mergeOne(id), [[1, 0]]);
    assert.deepEqual(stage.replacements, []);
    interruptions.readAddresses = undefined;
    reading.resolve();
    await stage.addressesRead();
    assert.deepEqual(await sendRows(stage, [[0, 'a']], [[100_000, 'b']], [[100_001, 'c']], [[100_002, 'd']]), [
      ...[
        [0, 1],
        [0, 1],
        [0, 1],
      ],
      [1, 0],
    ]);
    assert.deepEqual(stage.replacements, ['made']);
    assert.equal((await stage.rows()).length, 100_003);
  });
});

describe('counts and rows of a direct commit are exact (P2, P4)', () => {
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
      title: 'a batch of new and of existing keys',
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
      title: 'NULL is no key: such rows are inserted each time, and the addresses of others count them',
      sources: [
        [
          [null, 'a'],
          [9, 'b'],
        ],
        [
          [2, 'c'],
          [null, 'c'],
          [8, 'c'],
        ],
      ],
      counts: [
        [2, 0],
        [2, 1],
      ],
      rows: ['2:c', '8:c', '9:b', 'null:a', 'null:c'],
    },
  ] satisfies { title: string; sources: Row[][]; counts: number[][]; rows: string[] }[]) {
    test(title, async (t) => {
      const { stage } = await openKnown(t, full(...before));
      assert.deepEqual(await sendRows(stage, ...sources), counts);
      const keys = new Set(rows.map((row) => row.split(':')[0]).filter((key) => key !== 'null'));
      const after = [...untouched.filter((row) => !keys.has(row.split(':')[0])), ...rows].sort();
      assert.deepEqual(await stage.rows(), after);
      // The addresses of what was written are known without reading it.
      assert.deepEqual(await sendRows(stage, ...sources.map(() => [[77, 'z']] as Row[])), [
        [1, 0],
        ...sources.slice(1).map(() => [0, 1]),
      ]);
      const again = sources.map((source) => source.filter(([id]) => id !== null).map(([id]): Row => [id, 'again']));
      assert.deepEqual(
        await sendRows(stage, ...again),
        again.map((source) => [0, source.length]),
      );
      assert.equal(directCommits(stage), 3);
      assert.equal(stage.addressReadings, 1);
      const written = after.map((row) => row.replace(/^(\d+):.*/, (now, id) => (keys.has(id) ? `${id}:again` : now)));
      assert.deepEqual(await stage.rows(), [...written, '77:z'].sort());
    });
  }

  test('a key that a merge of another kind deletes is inserted again, and one that it inserts is found', async (t) => {
    const { stage } = await openKnown(t, full(...before));
    const deleting = { ...upsert, whenNotMatchedBySourceDelete: { filter: ownSql('id = 2') } };
    await sendTogether(stage, [stage.request(full([20, 'kept']), deleting)]);
    await sendTogether(stage, [stage.request(full([21, 'kept']), { ...upsert, whenMatchedUpdateAll: false })]);
    assert.deepEqual(await sendRows(stage, [[2, 'a']], [[20, 'b']], [[21, 'c']]), [
      [1, 0],
      [0, 1],
      [0, 1],
    ]);
    assert.equal(directCommits(stage), 2);
    assert.deepEqual(await stage.rows(), ['1:known', '20:b', '21:c', '2:a', '3:old', 'null:none'].sort());
  });
});
