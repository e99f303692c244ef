/**
 * Random batches during random external commits, against what SQL says of theirs first and ours after. By hand:
 *   LANCEGATE_GROUP_SEED=7 node --test test/table/external-random.test.ts
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { full, type Row, withoutW } from './rows.ts';
import { byAppending, byMerging, countsOf, type Interruptions, type Spec, Stage, upsert } from './stage.ts';

type Stored = [id: number | null, v: string, w: string | null];

function random(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** Changes `rows`; returns how many were inserted and updated. */
function apply(rows: Stored[], source: readonly Row[], spec: Spec, hasW: boolean): [number, number] {
  let [inserted, updated] = [0, 0];
  for (const [id, v, w = null] of source) {
    const found = rows.filter(([known]) => id !== null && known === id);
    if (spec.whenMatchedUpdateAll !== false) {
      for (const row of found) row.splice(1, 2, v, hasW ? w : row[2]);
      updated += found.length;
    }
    if (found.length > 0 || !spec.whenNotMatchedInsertAll) continue;
    rows.push([id, v, w]);
    inserted += 1;
  }
  return [inserted, updated];
}

test('rows and counts are as if the other program had been first (P2, P4)', async (t) => {
  const seed = Number(process.env.LANCEGATE_GROUP_SEED ?? 1);
  const pick = random(seed);
  const someIds = (from: number, below: number): (number | null)[] => {
    const ids = new Set(Array.from({ length: 1 + pick(4) }, () => from + pick(below)));
    return pick(4) === 0 ? [...ids, null] : [...ids];
  };
  for (let round = 0; round < 12; round++) {
    const rows: Stored[] = Array.from({ length: 6 }, (_, id) => [id, 'old', 'old']);
    const interruptions: Interruptions = {};
    const stage = await Stage.open(t, full(...rows), { interruptions, hasKeyIndex: round % 2 === 1 });
    if (pick(2) === 0) await stage.buildIndex('id');
    const spec = pick(3) === 0 ? { ...upsert, whenMatchedUpdateAll: false } : upsert;
    const hasW = pick(2) === 0;
    for (let group = 0; group < 3; group++) {
      const isMerge = pick(2) === 0;
      // What they append to keys that are there is twice by their doing.
      const ids = someIds(isMerge ? 0 : 100 * (group + 1), isMerge ? 14 : 6);
      // The engine loses such rows of theirs where it merges through an index.
      const theirs = ids.filter((id) => !isMerge || id !== null).map((id): Row => [id, 'them', 'them']);
      interruptions.merge = async () => {
        interruptions.merge = undefined;
        await (isMerge ? byMerging : byAppending)(stage, full(...theirs))();
      };
      apply(rows, theirs, upsert, true);
      const sources = Array.from({ length: 1 + pick(4) }, (_, client) => {
        const ids = new Set([...someIds(0, 14), ...someIds(100 * (group + 1), 6)]);
        return [...ids].map((id): Row => [id, `${round}.${group}.${client}`, hasW ? 'us' : null]);
      });
      const expected = sources.map((source) => apply(rows, source, spec, hasW));
      const requests = sources.map((source) => stage.request((hasW ? full : withoutW)(...source), spec));
      const answers = await stage.together(await Promise.all(requests));
      const what = JSON.stringify({ seed, round, group, spec, hasW, isMerge, theirs, sources });
      assert.deepEqual(countsOf(answers), expected, what);
      assert.deepEqual(await stage.rows(['id', 'v', 'w']), rows.map((row) => row.map(String).join(':')).sort(), what);
    }
  }
});
