/** The keys a writer keeps in memory: what they survive, seen by the past versions it has to open for them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { full, type Row } from './rows.ts';
import { byAppending, countsOf, type Interruptions, Stage } from './stage.ts';

/** Two requests whose counts the totals leave open. */
async function sendMixed(stage: Stage, known: number, fresh: number): Promise<unknown[]> {
  const sources: Row[][] = [[[known, 'a']], [[fresh, 'b']]];
  return countsOf(await stage.together(await Promise.all(sources.map((rows) => stage.request(full(...rows))))));
}

const exact = [
  [0, 1],
  [1, 0],
];

test('known keys are kept over tidying and indexing, between groups and beside them (P8)', async (t) => {
  const interruptions: Interruptions = {};
  const stage = await Stage.open(t, full([1, 'old']), { interruptions });
  assert.deepEqual(await sendMixed(stage, 1, 2), exact);
  assert.deepEqual(stage.versionsOpened, [1]);
  await stage.buildIndex('id');
  await stage.tidy();
  assert.deepEqual(await sendMixed(stage, 2, 3), exact);
  interruptions.merge = async () => {
    interruptions.merge = undefined;
    await stage.buildIndex('v');
  };
  assert.deepEqual(await sendMixed(stage, 3, 4), exact);
  assert.deepEqual(await sendMixed(stage, 4, 5), exact);
  assert.deepEqual(stage.versionsOpened, [1]);
  assert.deepEqual(stage.warnings, []);
});

test('known keys are forgotten when somebody else changes rows, even between two tidyings (P4)', async (t) => {
  const stage = await Stage.open(t, full([1, 'old']));
  assert.deepEqual(await sendMixed(stage, 1, 2), exact);
  await stage.buildIndex('id');
  await byAppending(stage, full([50, 'them']))();
  await stage.tidy();
  assert.deepEqual(await sendMixed(stage, 50, 51), exact);
});

test('a table that takes the place of another at the same version has keys of its own (P4)', async (t) => {
  const stage = await Stage.open(t, full([1, 'old']));
  assert.deepEqual(await sendMixed(stage, 1, 2), exact);
  await stage.replace(full([7, 'new']), 2);
  assert.deepEqual(await sendMixed(stage, 7, 1), exact);
});
