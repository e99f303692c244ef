/** Keys that a program past the gate has doubled. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { directCommits, openKnown, sendRows, sendTogether } from './direct-commits.ts';
import { full } from './rows.ts';
import { byAppending, countsOf, upsert } from './stage.ts';

const before = full([1, 'old'], [7, 'old'], [8, 'old']);

/** What each request inserted, updated and deleted. */
const allCounts = (answers: Awaited<ReturnType<typeof sendTogether>>) =>
  answers.map((answer) => {
    assert.equal(answer.status, 'fulfilled');
    const { numInsertedRows, numUpdatedRows, numDeletedRows } = (answer as PromiseFulfilledResult<never>).value;
    return [numInsertedRows, numUpdatedRows, numDeletedRows];
  });

describe('a key that another program has doubled while the key index is known', () => {
  test('has one row after an upsert of whole rows: one updated, the others deleted, and the log says so once (P2, P4)', async (t) => {
    const { stage } = await openKnown(t, before);
    await byAppending(stage, full([7, 'twin'], [7, 'third'], [8, 'twin']))();
    const sources = [full([7, 'us'], [9, 'us']), full([7, 'later'])];
    const answers = await sendTogether(
      stage,
      sources.map((source) => stage.request(source)),
    );
    assert.deepEqual(allCounts(answers), [
      [1, 1, 2],
      [0, 1, 0],
    ]);
    assert.deepEqual(await stage.rows(), ['1:known', '7:later', '8:old', '8:twin', '9:us']);
    assert.deepEqual(allCounts(await sendTogether(stage, [stage.request(full([7, 'a'], [8, 'a']))])), [[0, 2, 1]]);
    assert.deepEqual(await stage.rows(), ['1:known', '7:a', '8:a', '9:us']);
    assert.equal(directCommits(stage), 2);
    assert.equal(stage.warnings.filter((line) => line.includes('several rows')).length, 1);
  });

  test('keeps its rows where a merge only inserts, and makes no version (P2, P4)', async (t) => {
    const { stage } = await openKnown(t, before);
    await byAppending(stage, full([7, 'twin']))();
    const version = await (await stage.externalWriter()).version();
    const inserting = { ...upsert, whenMatchedUpdateAll: false };
    assert.deepEqual(allCounts(await sendTogether(stage, [stage.request(full([7, 'us']), inserting)])), [[0, 0, 0]]);
    assert.deepEqual(await stage.rows(), ['1:known', '7:old', '7:twin', '8:old']);
    assert.equal(await (await stage.externalWriter()).version(), version);
  });

  test('has all of its rows updated where a merge only updates (P4)', async (t) => {
    const { stage } = await openKnown(t, before);
    await byAppending(stage, full([7, 'twin']))();
    const updating = { ...upsert, whenNotMatchedInsertAll: false };
    const answers = await sendTogether(stage, [
      stage.request(full([7, 'us'], [9, 'us']), updating),
      stage.request(full([1, 'us']), updating),
    ]);
    assert.deepEqual(countsOf(answers), [
      [0, 2],
      [0, 1],
    ]);
    assert.deepEqual(await stage.rows(), ['1:us', '7:us', '7:us', '8:old']);
  });

  test('is followed when its rows are compacted with others, or deleted (P2, P8)', async (t) => {
    const { stage } = await openKnown(t, before);
    await byAppending(stage, full([7, 'twin'], [8, 'twin']))();
    assert.deepEqual(await sendRows(stage, [[1, 'a']]), [[0, 1]]);
    await stage.compact();
    await (await stage.externalWriter()).delete("id = 7 AND v = 'old'");
    await stage.moveRows();
    const answers = await sendTogether(stage, [stage.request(full([7, 'us'], [8, 'us']))]);
    assert.deepEqual(allCounts(answers), [[0, 2, 1]]);
    assert.deepEqual(await stage.rows(), ['1:a', '7:us', '8:us']);
    assert.equal(stage.replacements.length, 2);
  });
});

describe('merges by row address that only insert or only update (P2, P4)', () => {
  for (const { title, spec, counts, rows } of [
    {
      title: 'insert what is not there',
      spec: { ...upsert, whenMatchedUpdateAll: false },
      counts: [
        [2, 0, 0],
        [0, 0, 0],
      ],
      rows: ['1:known', '7:old', '8:old', '9:a', 'null:a'],
    },
    {
      title: 'update what is there',
      spec: { ...upsert, whenNotMatchedInsertAll: false },
      counts: [
        [0, 1, 0],
        [0, 1, 0],
      ],
      rows: ['1:known', '7:b', '8:old'],
    },
  ]) {
    test(title, async (t) => {
      const { stage } = await openKnown(t, before);
      const sources = [full([7, 'a'], [9, 'a'], [null, 'a']), full([9, 'b'], [7, 'b'])];
      const answers = await sendTogether(
        stage,
        sources.map((source) => stage.request(source, spec)),
      );
      assert.deepEqual(allCounts(answers), counts);
      assert.deepEqual(await stage.rows(), rows);
      assert.deepEqual(stage.replacements, ['made']);
    });
  }

  test('make no version where they change no row', async (t) => {
    const { stage } = await openKnown(t, before);
    const version = await (await stage.externalWriter()).version();
    const commits = stage.commits.length;
    const inserting = { ...upsert, whenMatchedUpdateAll: false };
    const updating = { ...upsert, whenNotMatchedInsertAll: false };
    for (const [spec, id] of [
      [inserting, 7],
      [updating, 9],
    ] as const) {
      const [answer] = await sendTogether(stage, [stage.request(full([id, 'us']), spec)]);
      assert.ok(answer?.status === 'fulfilled');
      assert.deepEqual(answer.value, {
        version,
        numInsertedRows: 0,
        numUpdatedRows: 0,
        numDeletedRows: 0,
        numAttempts: 1,
      });
    }
    assert.equal(await (await stage.externalWriter()).version(), version);
    assert.equal(stage.commits.length, commits);
  });
});
