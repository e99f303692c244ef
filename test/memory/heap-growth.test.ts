import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CollectionPace } from '#src/memory/resident-limit.ts';

/** One collection after the other, so many milliseconds apart; whether they are rare after each. */
function seen(pace: CollectionPace, fromMs: number, gapsMs: readonly number[]): readonly boolean[] {
  let atMs = fromMs;
  return gapsMs.map((gapMs) => {
    atMs += gapMs;
    pace.collected(atMs);
    return pace.isSlow;
  });
}

test('collections are rare until four come within six seconds (P7)', () => {
  const pace = new CollectionPace();
  assert.equal(pace.isSlow, true);
  assert.deepEqual(seen(pace, 0, [200, 500, 2_000]), [true, true, true], 'a process that starts');
  assert.deepEqual(seen(pace, 2_700, [9_000, 2_000, 2_000]), [true, true, true]);
  assert.deepEqual(seen(pace, 15_700, [1_999]), [false]);
});

test('collections are rare again once four take eighteen seconds: a heap that may grow is collected less often anyway (P7)', () => {
  const pace = new CollectionPace();
  seen(pace, 0, [100, 100, 100, 100]);
  assert.deepEqual(seen(pace, 400, [5_000, 5_000, 5_000]), [false, false, false]);
  assert.deepEqual(seen(pace, 15_400, [7_999, 5_001]), [false, true]);
});
