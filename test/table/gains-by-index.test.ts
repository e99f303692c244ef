import assert from 'node:assert/strict';
import { test } from 'node:test';
import { full } from './rows.ts';
import { Stage, upsert } from './stage.ts';

/** Maintenance goes by it: an index that no merge would use need not be renewed (P8). */
test('maintenance learns of each commit whether an index over all rows would have made it faster', async (t) => {
  const stage = await Stage.open(t, full([1, 'old']));
  const send = async (...requests: Parameters<Stage['request']>[]) =>
    stage.together(await Promise.all(requests.map((request) => stage.request(...request))));
  await send([full([1, 'a'])]);
  await stage.buildIndex('id');
  await send([full([1, 'b'])]);
  await send([full([2, 'c'])], [full([3, 'd'])]);
  assert.deepEqual(stage.gainsByIndex, [true, true, true]);
  await send([full([1, 'e']), { ...upsert, useIndex: false }]);
  await send([full([null, 'f'])]);
  await send([full([4, 'x'.repeat(4_000_000)])]);
  assert.deepEqual(stage.gainsByIndex.slice(3), [false, false, false]);
});
