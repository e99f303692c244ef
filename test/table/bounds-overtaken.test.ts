/** Another program commits between the writer's look and its commit: what a write may delete is decided on what is there then. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { full } from './rows.ts';
import { byAppending, type Interruptions, Stage, upsert } from './stage.ts';

const bySource = { ...upsert, whenNotMatchedBySourceDelete: true };

/** While a merge that would delete one row is under way, two more come that it would delete. */
async function overtaken(t: TestContext, bounds: { readonly isDryRun: boolean; readonly maxDeleted?: number }) {
  const interruptions: Interruptions = {};
  const stage = await Stage.open(t, full([1, 'old', 'old'], [2, 'old', 'old']), { interruptions, on: ['id'] });
  interruptions.merge = async () => {
    interruptions.merge = undefined;
    await byAppending(stage, full([8, 'them', 'them'], [9, 'them', 'them']))();
  };
  const request = await stage.request(full([1, 'us', 'us']), bySource);
  const asked = { maxDeleted: undefined, ...bounds, shown: 'max_deleted' };
  const [outcome] = await stage.together([{ ...request, bounds: asked }]);
  return { outcome, rows: await stage.rows(['id', 'v']) };
}

test('max_deleted counts rows that came while the write was under way (P4)', async (t) => {
  const { outcome, rows } = await overtaken(t, { isDryRun: false, maxDeleted: 1 });
  assert.match(String(outcome?.status === 'rejected' && outcome.reason), /3 rows would be deleted, and 1 may be/);
  assert.deepEqual(rows, ['1:old', '2:old', '8:them', '9:them']);
});

test('a dry run that another program overtakes says what it would do to the version that it names (P4)', async (t) => {
  const { outcome, rows } = await overtaken(t, { isDryRun: true });
  assert.ok(outcome?.status === 'fulfilled', String(outcome?.status === 'rejected' && outcome.reason));
  const { numUpdatedRows, numDeletedRows, version } = outcome.value;
  assert.deepEqual([numUpdatedRows, numDeletedRows, version], [1, 3, 2]);
  assert.deepEqual(rows, ['1:old', '2:old', '8:them', '9:them']);
});
