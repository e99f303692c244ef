/** Inserts that share a commit, and what another program does meanwhile. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LancegateError } from '#src/kernel/errors.ts';
import { tableOf } from '#test/fixtures/pairs.ts';
import { byAppending, countsOf, type Interruptions, Stage } from './stage.ts';

test('an insert whose values lie is refused alone, and its neighbours share their commit all the same', async (t) => {
  const stage = await Stage.open(t, tableOf([1, 'old']));
  const bad = await stage.insertRequest(tableOf([7, 'bad']));
  const offsets = bad.chunk!.file.indexOf(Buffer.from([0, 0, 0, 0, 3, 0, 0, 0]));
  bad.chunk!.file.writeInt32LE(-5, offsets + 4);
  const [first, second] = [
    await stage.insertRequest(tableOf([5, 'good'])),
    await stage.insertRequest(tableOf([6, 'good'], [6, 'good'])),
  ];
  const [before, refused, after] = countsOf(await stage.together([first, bad, second]));
  assert.ok(refused instanceof LancegateError);
  assert.equal(refused.kind, 'InvalidInput');
  assert.deepEqual([before, after, stage.commits], [[1, 0], [2, 0], [2]]);
  assert.deepEqual(await stage.rows(), ['1:old', '5:good', '6:good', '6:good']);
});

test('inserts that another program overtakes come on top of what it committed (P1, P2)', async (t) => {
  const interruptions: Interruptions = {};
  const stage = await Stage.open(t, tableOf([1, 'old']), { interruptions });
  const theirs = [
    () => byAppending(stage, tableOf([2, 'them']))(),
    async () => void (await (await stage.externalWriter()).delete('id = 1')),
  ].values();
  interruptions.merge = async () => void (await theirs.next().value?.());
  const sources = [tableOf([3, 'us']), tableOf([4, 'us'], [5, 'us'])];
  const requests = await Promise.all(sources.map((source) => stage.insertRequest(source)));
  const answers = await stage.together(requests);
  assert.deepEqual(countsOf(answers), [
    [1, 0],
    [2, 0],
  ]);
  assert.equal(theirs.next().done, true, 'both commits came in between');
  assert.deepEqual(await stage.rows(), ['2:them', '3:us', '4:us', '5:us']);
});
