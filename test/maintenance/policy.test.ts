import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { DataType, Field, Schema } from '#src/arrow/schema/schema.ts';
import type { IndexSpec } from '#src/engine/port/index-spec.ts';
import type { FragmentFacts, Layout } from '#src/engine/port/upkeep.ts';
import {
  type BranchFacts,
  columnsToIndex,
  corrected,
  noFactors,
  optionsFor,
  plansFor,
  smallestTier,
} from '#src/maintenance/decide/policy.ts';
import { type Debt, noDebt } from '#src/maintenance/observe/debt.ts';

const policy = { maxWaitMs: 200, indexFromRows: 20_000 };
const full = 2 ** 20;
let nextId = 0;
const fragments = (count: number, rows: number, deletedRows = 0): FragmentFacts[] =>
  Array.from({ length: count }, () => ({ id: nextId++, rows, deletedRows }));
const withoutIds = (all: readonly FragmentFacts[]): FragmentFacts[] =>
  all.map(({ rows, deletedRows }) => ({ rows, deletedRows }));

function layoutOf(all: readonly FragmentFacts[], more: Partial<Layout> = {}): Layout {
  const rows = all.reduce((sum, each) => sum + each.rows - each.deletedRows, 0);
  return { committedAtMs: undefined, rows, fragments: all, bytes: rows * 24, indexes: [], ...more };
}
const indexed = (unindexedRows: number, isPlain = true): Partial<Layout> => ({
  indexes: [{ name: 'id_idx', columns: ['id'], rows: 100_000, unindexedRows, spec: undefined, isPlain }],
});
/** An index of a client, which `rows` are in and `unindexedRows` are not. */
const ofClient = (rows: number, unindexedRows: number): { readonly layout: Layout } => {
  const vector = { distance: 'l2' } as const;
  const spec: IndexSpec = { name: 'v', column: 'vector', options: { type: 'IVF_FLAT', vector } };
  const index = { name: 'v', columns: ['vector'], rows, unindexedRows, spec, isPlain: false };
  return { layout: layoutOf(fragments(1, rows + unindexedRows), { indexes: [index] }) };
};
const busyTable = layoutOf([...fragments(1, 100_000), ...fragments(40, 10)]);

interface Case {
  readonly layout?: Layout;
  readonly debt?: Partial<Debt>;
  readonly facts?: Partial<BranchFacts>;
  readonly missing?: readonly string[];
}

function firstPlan({ layout = busyTable, debt = {}, facts = {}, missing = [] }: Case): string | undefined {
  const busy = {
    debt: { ...noDebt, ...debt },
    quietForMs: 10,
    removableVersions: 0,
    keptVersions: 0,
    unseenCommits: 0,
    ...facts,
  };
  const [plan] = plansFor(busy, optionsFor(layout, missing, noFactors, policy), policy);
  if (plan === undefined) return undefined;
  return plan.job === 'compact' ? `${plan.extent}: ${plan.reason}` : `${plan.job}: ${plan.reason}`;
}

describe('a branch is maintained (P8)', () => {
  const commits = { commits: 60, commitsSinceFull: 60, fragments: 60 };
  const wide = { layout: layoutOf(withoutIds(busyTable.fragments), { bytes: 2e8 }) };
  const cases: readonly [title: string, given: Case, plan: string | undefined][] = [
    ['not without commits', {}, undefined],
    ["not for the few rows that a client's index lacks", ofClient(100_000, 24_999), undefined],
    ["by building a client's index again once it lacks a quarter", ofClient(100_000, 25_000), 'refresh: many rows'],
    ['not for a quarter of next to nothing', ofClient(1_000, 999), undefined],
    [
      'as soon as no one writes, whatever an index lacks',
      { ...ofClient(1_000, 1), facts: { quietForMs: 5_000 } },
      'refresh: quiet',
    ],
    ['not as soon where the build takes long', { ...ofClient(100_000, 1), facts: { quietForMs: 9_000 } }, undefined],
    ['not where an index lacks nothing', { ...ofClient(1_000, 0), facts: { quietForMs: 60_000 } }, undefined],
    [
      'by another look, where commits came since the last one',
      { ...ofClient(1_000, 0), facts: { quietForMs: 5_000, unseenCommits: 1 } },
      'refresh: quiet',
    ],
    ['not while its debt is below the price', { debt: { ...commits, fragmentMs: 15 } }, undefined],
    ['when its debt has reached the price', { debt: { ...commits, fragmentMs: 100 } }, 'tiered: debt'],
    ['not for a few commits, whatever they cost', { debt: { ...commits, commits: 15, fragmentMs: 500 } }, undefined],
    ['when there are many fragments, even if they cost nothing', { debt: { commits: 192 } }, 'tiered: many fragments'],
    [
      'as a whole where few of its fragments are small',
      { layout: layoutOf(fragments(5, 1_000)), debt: { commits: 192 } },
      'full: many fragments',
    ],
    ['as a whole when it is quiet', { debt: commits, facts: { quietForMs: 5_000 } }, 'full: quiet'],
    [
      'not again when it stays quiet',
      { debt: { ...commits, commitsSinceFull: 15 }, facts: { quietForMs: 50_000 } },
      undefined,
    ],
    [
      'under a lock only when it has been quiet for longer',
      { ...wide, debt: { commits: 20, commitsSinceFull: 20 }, facts: { quietForMs: 1_500 } },
      undefined,
    ],
    [
      'under a lock, while it is busy, only for a debt of several times the price',
      { ...wide, debt: { ...commits, fragmentMs: 1_000 } },
      undefined,
    ],
    ['under a lock in the end', { ...wide, debt: { ...commits, fragmentMs: 3_000 } }, 'full: forced'],
    ['under a lock for very many fragments', { ...wide, debt: { commits: 1_024 } }, 'full: forced'],
    ['not for a few old versions while it is busy', { facts: { removableVersions: 511 } }, undefined],
    ['when old versions are many', { facts: { removableVersions: 512 } }, 'prune: old versions'],
    [
      'not when many more would have to be kept and read',
      { facts: { removableVersions: 600, keptVersions: 1_300 } },
      undefined,
    ],
    [
      'when it is quiet and has some old versions',
      { facts: { quietForMs: 5_000, removableVersions: 16 } },
      'prune: old versions',
    ],
    [
      'when it has been quiet for long and has one',
      { facts: { quietForMs: 60_000, removableVersions: 1 } },
      'prune: old versions',
    ],
    [
      'by another index when reading what it misses has cost as much',
      { layout: { ...busyTable, ...indexed(400) }, debt: { unindexed: 30, scanMs: 40 } },
      'index: debt',
    ],
    [
      'not by another index for a few commits',
      { layout: { ...busyTable, ...indexed(400) }, debt: { unindexed: 15, scanMs: 400 } },
      undefined,
    ],
    [
      'by a first index when merges ask for one',
      { layout: layoutOf(fragments(3, 100_000)), missing: ['id'] },
      'index: merges on the column',
    ],
    [
      'before the first index if it is in many pieces, which would leave the index again',
      { layout: layoutOf(fragments(20, 100_000)), missing: ['id'] },
      'tiered: before the index',
    ],
    [
      'by the index when it was compacted for it, whatever writers have brought meanwhile',
      { layout: layoutOf(fragments(20, 100_000)), missing: ['id'], debt: { commits: 9, commitsSinceFull: 30 } },
      'index: merges on the column',
    ],
  ];
  for (const [title, given, plan] of cases) test(title, () => assert.equal(firstPlan(given), plan));
});

describe('a tier is compacted while merges go on (P8)', () => {
  const sizesOf = (layout: Layout, maxWaitMs = 200) => smallestTier(layout, maxWaitMs)?.map(({ rows }) => rows);

  test('of the smallest fragments, as many as can be rewritten in two seconds', () => {
    const layout = layoutOf(fragments(100, 100_000), { bytes: 1e7 * 768 });
    const tier = sizesOf(layout) ?? [];
    assert.ok(tier.length > 8 && tier.length < 20, `${tier.length}`);
  });

  test('none of which is larger than all the smaller ones together: a row is rewritten a few times only', () => {
    assert.deepEqual(sizesOf(layoutOf([...fragments(1, 500_000), ...fragments(20, 10)]))?.length, 20);
    assert.deepEqual(sizesOf(layoutOf([...fragments(1, 150), ...fragments(20, 10)]))?.length, 21);
  });

  test('but no more than can be committed while writers may wait, and eight at least', () => {
    assert.equal(sizesOf(layoutOf(fragments(200, 10)), 25)?.length, 100);
    assert.equal(sizesOf(layoutOf(fragments(200, 10)), 1)?.length, 8);
  });

  test('without full fragments, unless many of their rows are deleted', () => {
    assert.equal(sizesOf(layoutOf(fragments(20, full))), undefined);
    assert.equal(sizesOf(layoutOf(fragments(20, full, full - 10)))?.length, 20);
  });

  test('not of a few', () => assert.equal(sizesOf(layoutOf(fragments(7, 10))), undefined));

  test('not of fragments that only the engine may compact', () =>
    assert.equal(sizesOf(layoutOf(withoutIds(fragments(20, 10)))), undefined));

  test('without the rows that an index of another program covers', () => {
    const all = [...fragments(10, 100), ...fragments(9, 10)];
    assert.deepEqual(sizesOf(layoutOf(all, indexed(90, false))), Array(9).fill(10));
    assert.equal(sizesOf(layoutOf(all, indexed(90)))?.length, 19);
  });
});

test('what jobs took corrects the guess of the next one, but no accident does (P8)', () => {
  assert.equal(corrected(1, 100, 300), 2);
  assert.equal(corrected(2, 200, 300), 2.5, 'the guess was corrected before');
  assert.equal(corrected(1, 100, 1_000_000), 20);
  assert.equal(corrected(1, 100, 0), 0.5);
});

describe('an index is built on (P8)', () => {
  const grown = layoutOf(fragments(1, 20_000));
  const field = (type: DataType, isDictionary = false): Field =>
    ({
      name: 'id',
      type,
      nullable: true,
      metadata: new Map(),
      children: [],
      ...(isDictionary && { dictionary: {} }),
    }) as unknown as Field;
  const columns = (merges: number, layout: Layout, of: Field): readonly string[] =>
    columnsToIndex(
      new Map([['id', merges]]),
      { layout, schema: { fields: [of], metadata: new Map() } as unknown as Schema },
      policy,
    );
  const int64 = field({ kind: 'int', bits: 64, signed: true } as unknown as DataType);

  test('a column of a grown table at the second merge on it', () => assert.deepEqual(columns(2, grown, int64), ['id']));
  test('none at the first merge', () => assert.deepEqual(columns(1, grown, int64), []));
  test('none of a small table', () => assert.deepEqual(columns(2, { ...grown, rows: 19_999 }, int64), []));
  test('none that has one', () => assert.deepEqual(columns(2, { ...grown, ...indexed(0) }, int64), []));
  test('none that the table has no more', () => assert.deepEqual(columns(2, grown, { ...int64, name: 'other' }), []));
  test('texts, dates and timestamps, but not floats or booleans', () => {
    for (const kind of ['utf8', 'date', 'timestamp'])
      assert.deepEqual(columns(2, grown, field({ kind } as DataType)), ['id'], kind);
    for (const kind of ['float', 'bool', 'largeUtf8'])
      assert.deepEqual(columns(2, grown, field({ kind } as unknown as DataType)), [], kind);
  });
  test('no dictionary', () => assert.deepEqual(columns(2, grown, field({ kind: 'utf8' } as DataType, true)), []));
});
