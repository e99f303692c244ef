/** An external writer that never stops, and clients that write the same new keys. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import type { MergeCounts } from '#src/engine/port/merge-spec.ts';
import { full, type Row } from './rows.ts';
import { Stage, upsert } from './stage.ts';

const clients = 8;
const requestsEach = 8;
/** New keys come from a window that moves on: both sides soon find those of the other. */
const windowKeys = 12;

function random(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

test('no key that another program had written before is left twice, and counts are exact (P2, P4)', async (t) => {
  const stage = await Stage.open(t, full([-1, 'old']));
  const pick = random(Number(process.env.LANCEGATE_GROUP_SEED ?? 1));
  let front = 0;
  const someKeys = (): number[] => [...new Set(Array.from({ length: 4 }, () => front + pick(windowKeys)))];
  const merges: { readonly keys: readonly number[]; readonly counts: MergeCounts }[] = [];
  const writtenOutside = new Map<number, number>();

  const client = async (): Promise<void> => {
    for (let sent = 0; sent < requestsEach; sent++) {
      const keys = someKeys();
      front += 1;
      const request = await stage.request(full(...keys.map((key): Row => [key, 'us'])), upsert);
      merges.push({ keys, counts: await stage.merge(request) });
    }
  };
  let isOver = false;
  const externalWriter = async (): Promise<void> => {
    const table = await stage.externalWriter();
    for (let round = 0; !isOver; round++) {
      const keys = someKeys().filter((key) => !writtenOutside.has(key));
      await setImmediate();
      if (keys.length === 0) continue;
      for (const key of keys) writtenOutside.set(key, Number.POSITIVE_INFINITY);
      const rows = full(...keys.map((key): Row => [key, 'them']));
      await table.checkoutLatest();
      const builder = table.mergeInsert('id').whenMatchedUpdateAll().whenNotMatchedInsertAll();
      const { version } = round % 2 === 0 ? await table.add(rows) : await builder.execute(rows);
      for (const key of keys) writtenOutside.set(key, version);
    }
  };
  const outside = externalWriter();
  await Promise.all(Array.from({ length: clients }, client));
  isOver = true;
  await outside;

  const firstMerged = firstVersionOfEach(merges, stage.mergedVersions);
  const stored = new Map<number, number>();
  for (const row of await stage.rows(['id'])) stored.set(Number(row), (stored.get(Number(row)) ?? 0) + 1);
  let met = 0;
  for (const [key, version] of firstMerged) {
    const isOurs = (writtenOutside.get(key) ?? 0) < version;
    if (writtenOutside.has(key) && isOurs) met += 1;
    if (isOurs) assert.equal(stored.get(key), 1, `key ${key}`);
    else assert.ok((stored.get(key) ?? 0) >= 1, `key ${key}`);
  }
  const inserted = merges.reduce((sum, { counts }) => sum + counts.numInsertedRows, 0);
  const isNew = ([key, version]: [number, number]) => (writtenOutside.get(key) ?? Number.POSITIVE_INFINITY) > version;
  assert.equal(inserted, [...firstMerged].filter(isNew).length);
  t.diagnostic(
    `${met} keys of the external writer met, ${stage.overtakenShadows} commits of ${stage.commits.length} overtaken`,
  );
});

/** An answer names the version that it was put right in, if it was; the keys were written in the merge before that. */
function firstVersionOfEach(
  merges: readonly { readonly keys: readonly number[]; readonly counts: MergeCounts }[],
  mergedVersions: readonly number[],
): ReadonlyMap<number, number> {
  const first = new Map<number, number>();
  for (const { keys, counts } of merges) {
    const version = mergedVersions.findLast((merged) => merged <= counts.version) ?? 0;
    for (const key of keys) first.set(key, Math.min(version, first.get(key) ?? version));
  }
  return first;
}
