import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Dataset } from '#src/engine/port/dataset.ts';
import type { IndexSpec } from '#src/engine/port/index-spec.ts';
import { createIndex } from '#test/fixtures/create-index.ts';
import { eventually } from '#test/http/eventually.ts';
import { watchedTable } from './watched-table.ts';

const numbers = (count: number): number[] => Array.from({ length: count }, (_, i) => i);

/** A table of 100 rows; `meanwhile` is done right after an index was built and before it is committed. */
async function indexedTable(
  t: TestContext,
  meanwhile: (commit: () => Promise<void>) => Promise<void> = async () => undefined,
  hasRoom = true,
) {
  const inMemory: string[] = [];
  const replaced = (opened: Dataset): Partial<Dataset> => ({
    // As where only the engine may compact.
    layout: async () => {
      const layout = await opened.layout();
      return { ...layout, fragments: layout.fragments.map(({ rows, deletedRows }) => ({ rows, deletedRows })) };
    },
    prepareIndex: async (spec: IndexSpec) => {
      const prepared = await opened.prepareIndex(spec);
      await meanwhile(watched.commit);
      return prepared;
    },
    warmIndex: async (column: string) => {
      inMemory.push(column);
      return hasRoom && (await opened.warmIndex(column));
    },
  });
  const watched = await watchedTable(t, { ids: numbers(100), indexFromRows: 100, mostFragments: 0, replaced });
  t.after(() => watched.scheduler.close());
  const reasons = (): unknown[] => watched.lines().map(({ reason }) => reason);
  return { ...watched, reasons, inMemory };
}

test('what is committed while the first index is built counts as not in it (P8)', async (t) => {
  let builds = 0;
  const { clock, commit, reasons, inMemory } = await indexedTable(t, async (commitOne) => {
    builds += 1;
    if (builds === 1) for (const _ of numbers(30)) await commitOne();
  });
  for (const _ of numbers(2)) await commit();
  await eventually('the index is built', () => reasons().includes('merges on the column'));
  clock.advance(2_000);
  // Each reads the keys of thirty fragments; without them it would take sixteen commits to be worth another build.
  for (const _ of numbers(6)) await commit();
  await eventually('it is rebuilt', () => reasons().includes('debt'));
  assert.deepEqual(reasons(), ['merges on the column', 'debt']);
  assert.deepEqual(inMemory, ['id', 'id'], 'each is read into memory at once');
});

test('an index that was there before is read into memory when merges begin, once (P8)', async (t) => {
  const { clock, commit, reasons, dataset, inMemory } = await indexedTable(t);
  await createIndex(dataset, 'id');
  await commit();
  clock.advance(2_000);
  assert.deepEqual(inMemory, [], 'one merge may be the only one');
  await commit();
  await eventually('it is read', () => inMemory.length > 0);
  for (const _ of numbers(3)) {
    await commit();
    clock.advance(2_000);
  }
  assert.deepEqual(inMemory, ['id']);
  assert.deepEqual(reasons(), [], 'and not built');
});

test('an index that was there before and has no room in memory is logged (P8)', async (t) => {
  const { commit, dataset, lines } = await indexedTable(t, undefined, false);
  await createIndex(dataset, 'id');
  for (const _ of numbers(2)) await commit();
  await eventually('it is in the log', () =>
    lines().some(({ message }) => /larger than --engine-index-cache/.test(message ?? '')),
  );
  assert.equal(lines().length, 1);
});
