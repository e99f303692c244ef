import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { DataType, Field, Schema } from '#src/arrow/schema/schema.ts';
import type { FragmentFacts, Layout } from '#src/engine/port/engine.ts';
import { estimateCost, guessCost, noCorrections } from '#src/maintenance/decide/estimate.ts';
import {
  type BranchFacts,
  chooseTidying,
  columnsToIndex,
  isTidiedBeforeIndex,
  type OptimizeReason,
  reasonToOptimize,
} from '#src/maintenance/decide/policy.ts';

const limits = { maxWaitMs: 200, indexFromRows: 20_000 };
const busy: BranchFacts = {
  commitsSinceOptimize: 0,
  commitsSinceIndex: 0,
  lossMs: 0,
  looseLossMs: 0,
  scanLossMs: 0,
  scanLossSinceIndexMs: 0,
  quietForMs: 10,
  prunableVersions: 0,
  keptVersions: 0,
};
const cheap = { heldMs: 40, tailMs: 60 };
const long = { heldMs: 900, tailMs: 100 };

interface Case {
  readonly title: string;
  readonly facts: Partial<BranchFacts>;
  readonly cost?: typeof cheap;
  readonly reason: OptimizeReason | undefined;
}

const cases: readonly Case[] = [
  { title: 'a branch without commits is left alone', facts: {}, reason: undefined },
  { title: 'a loss below the cost is borne', facts: { commitsSinceOptimize: 60, lossMs: 69 }, reason: undefined },
  { title: 'a loss of the cost is ended', facts: { commitsSinceOptimize: 60, lossMs: 70 }, reason: 'slower' },
  {
    title: 'a loss seen over few commits is noise',
    facts: { commitsSinceOptimize: 15, lossMs: 500 },
    reason: undefined,
  },
  {
    title: 'many fragments go, also where they cost nothing',
    facts: { commitsSinceOptimize: 192 },
    reason: 'many commits',
  },
  {
    title: 'beside writers, many old versions are a reason only once there is something to put together',
    facts: { commitsSinceOptimize: 15, prunableVersions: 1_000 },
    reason: undefined,
  },
  {
    title: 'many old versions go beside writers',
    facts: { commitsSinceOptimize: 16, prunableVersions: 512 },
    reason: 'old versions',
  },
  {
    title: 'not while they are few beside those that stay, all of which are read to remove them',
    facts: { commitsSinceOptimize: 16, prunableVersions: 1_799, keptVersions: 3_600 },
    reason: undefined,
  },
  {
    title: 'they go when they are half as many',
    facts: { commitsSinceOptimize: 16, prunableVersions: 1_800, keptVersions: 3_600 },
    reason: 'old versions',
  },
  {
    title: 'the longer it takes, the more of them there have to be',
    facts: { commitsSinceOptimize: 16, prunableVersions: 949 },
    cost: { heldMs: 150, tailMs: 1_600 },
    reason: undefined,
  },
  { title: 'a quiet branch is tidied', facts: { commitsSinceOptimize: 16, quietForMs: 5_000 }, reason: 'quiet' },
  {
    title: 'a few commits on a quiet branch stay',
    facts: { commitsSinceOptimize: 15, quietForMs: 5_000 },
    reason: undefined,
  },
  {
    title: 'on a quiet branch some old versions go',
    facts: { commitsSinceOptimize: 1, quietForMs: 5_000, prunableVersions: 16 },
    reason: 'old versions',
  },
  {
    title: 'not a few, which a slow writer makes again and again',
    facts: { commitsSinceOptimize: 1, quietForMs: 5_000, prunableVersions: 15 },
    reason: undefined,
  },
  {
    title: 'the last old version goes when nobody has written for a minute',
    facts: { commitsSinceOptimize: 1, quietForMs: 60_000, prunableVersions: 1 },
    reason: 'old versions',
  },
  {
    title: 'writers do not wait longer than they should, for fragments',
    facts: { commitsSinceOptimize: 1_000, lossMs: 2_849, prunableVersions: 1_000 },
    cost: long,
    reason: undefined,
  },
  {
    title: 'writers wait once they have lost three times as much',
    facts: { commitsSinceOptimize: 1_000, lossMs: 2_850 },
    cost: long,
    reason: 'overdue',
  },
  {
    title: 'a little longer than they should is borne for a little more',
    facts: { commitsSinceOptimize: 60, lossMs: 330 },
    cost: { heldMs: 220, tailMs: 160 },
    reason: 'overdue',
  },
  {
    title: 'nor do fragments grow in number without end',
    facts: { commitsSinceOptimize: 1_024 },
    cost: long,
    reason: 'overdue',
  },
  {
    title: 'nobody waits on a quiet branch, however long it takes',
    facts: { commitsSinceOptimize: 16, quietForMs: 5_000 },
    cost: long,
    reason: 'quiet',
  },
];

describe('when a branch is tidied (P8)', () => {
  for (const { title, facts, cost = cheap, reason } of cases) {
    test(title, () => assert.equal(reasonToOptimize({ ...busy, ...facts }, cost, limits), reason));
  }
});

const sizes = (count: number, rows: number, deletedRows = 0): FragmentFacts[] =>
  Array.from({ length: count }, () => ({ rows, deletedRows }));
const full = 2 ** 20;

const layout = (given: Partial<Layout>): Layout => ({
  committedAtMs: undefined,
  rows: 100_000,
  fragments: sizes(1, 100_000),
  bytes: 1_000_000,
  indexes: [],
  ...given,
});

const plain = { columns: ['k'], unindexedRows: 6_000, isPlain: true };
const large = layout({
  rows: 10 * full + 6_000,
  fragments: [...sizes(10, full), ...sizes(60, 100)],
  bytes: 2.5e8,
  indexes: [plain],
});

describe('what a tidying is expected to cost', () => {
  test('it grows with the rows that are rewritten', () => {
    const million = layout({ rows: 1_000_000, fragments: sizes(1, 1_000_000) });
    assert.ok(guessCost(million, 'all').heldMs > 3 * guessCost(layout({}), 'all').heldMs);
  });

  test('a table of ten million rows in full fragments is not rewritten', () => {
    assert.ok(guessCost(large, 'all').heldMs < 20);
  });

  test('one in many fragments is', () => {
    assert.ok(guessCost({ ...large, fragments: sizes(80, 131_072) }, 'all').heldMs > 1_000);
  });

  test('full fragments of which a good part is deleted are, too', () => {
    const crowded = [...sizes(9, full), ...sizes(1, full, 110_000)];
    assert.ok(guessCost({ ...large, fragments: crowded }, 'all').heldMs > 100);
  });

  test('what was measured corrects it, for each way by itself', () => {
    const corrections = { ...noCorrections, all: { heldFactor: 3, tailMs: 7 } };
    const guess = estimateCost(large, noCorrections, limits);
    const { all, new: only } = estimateCost(large, corrections, limits);
    assert.deepEqual(all, { heldMs: guess.all.heldMs * 3, tailMs: 7 });
    assert.deepEqual(only, guess.new);
  });
});

describe('the index is built anew beside the writers', () => {
  const small = layout({
    fragments: [...sizes(1, 100_000), ...sizes(60, 1)],
    indexes: [{ ...plain, unindexedRows: 60 }],
  });
  // Reading through many versions is what has made putting the new ones together expensive.
  const corrections = { ...noCorrections, new: { heldFactor: 1, tailMs: 300 } };
  const estimate = estimateCost(small, corrections, limits);
  const lost: BranchFacts = { ...busy, commitsSinceOptimize: 60, commitsSinceIndex: 60, lossMs: 90 };
  const way = (facts: Partial<BranchFacts>) => chooseTidying({ ...lost, ...facts }, estimate, limits)?.way;

  test('when reading what it does not cover has cost as much', () => {
    assert.equal(way({ scanLossMs: 90, scanLossSinceIndexMs: 16 }), undefined);
    assert.equal(way({ scanLossMs: 90, scanLossSinceIndexMs: 18 }), 'index');
  });

  test('not for a few commits', () => {
    assert.equal(way({ scanLossMs: 90, scanLossSinceIndexMs: 18, commitsSinceIndex: 15 }), undefined);
  });

  test('and fragments are put together when what remains has cost as much as that', () => {
    assert.equal(way({ scanLossMs: 30, scanLossSinceIndexMs: 18 }), 'all');
  });

  test('not where putting the new fragments together takes less', () => {
    const sooner = estimateCost(small, { ...corrections, index: { heldFactor: 1, tailMs: 1_000 } }, limits);
    const facts = { ...lost, lossMs: 200, scanLossMs: 200, scanLossSinceIndexMs: 200 };
    assert.equal(chooseTidying(facts, sooner, limits)?.way, 'new');
  });
});

describe('fragments are put together before the first index is built', () => {
  const isFirst = (given: Partial<Layout>, mergeMs: number): boolean => {
    const made = layout({ rows: 10_000_000, fragments: sizes(15, 700_000), bytes: 2.4e8, ...given });
    return isTidiedBeforeIndex(made, estimateCost(made, noCorrections, limits), mergeMs);
  };

  test('where merges are slow without it', () => assert.equal(isFirst({}, 250), true));
  test('not where writers would wait for much longer than they do', () => assert.equal(isFirst({}, 25), false));
  test('of a large table also where there are few, for else the index would be built anew instead', () => {
    assert.equal(isFirst({ fragments: [...sizes(9, full), ...sizes(1, 600_000), ...sizes(2, 100)] }, 250), true);
    assert.equal(isFirst({ fragments: [...sizes(9, full), ...sizes(1, 600_000)] }, 250), false);
  });
  test('not where there are few of a small one', () =>
    assert.equal(isFirst({ rows: 700_000, fragments: sizes(7, 100_000) }, 250), false));
  test('not where they are full', () => assert.equal(isFirst({ fragments: sizes(10, full) }, 250), false));
  test('not where an index would have to be built again', () =>
    assert.equal(isFirst({ indexes: [plain] }, 250), false));
});

describe('what is tidied', () => {
  const estimate = (given: Partial<Layout>) => estimateCost({ ...large, ...given }, noCorrections, limits);
  const extent = (facts: Partial<BranchFacts>, given: Partial<Layout> = {}) =>
    chooseTidying({ ...busy, commitsSinceOptimize: 60, ...facts }, estimate(given), limits)?.way;

  test('the new fragments alone of a large table: the index is not built again for them', () => {
    assert.equal(extent({ lossMs: 200 }), 'new');
    assert.ok((estimate({}).new?.heldMs ?? 0) < 20);
    assert.ok(estimate({}).all.tailMs > 1_000);
  });

  test('all of it when it is quiet, and when there are many old versions: neither can go the other way', () => {
    assert.equal(extent({ quietForMs: 5_000 }), 'all');
    assert.equal(extent({ prunableVersions: 2_000 }), 'all');
    assert.equal(extent({ prunableVersions: 600 }), undefined);
  });

  const whole: readonly (readonly [string, Partial<Layout>])[] = [
    ['of a table without an index', { indexes: [] }],
    ['of one that is in many chunks', { fragments: sizes(140, 75_000) }],
    [
      'of one with an old fragment that is rewritten for its deletions',
      { fragments: [...sizes(9, full), ...sizes(1, full, 110_000), ...sizes(60, 100)] },
    ],
    ['of one where many rows are not in the index', { indexes: [{ ...plain, unindexedRows: 1_100_000 }] }],
    [
      'of a small one where a good part is not',
      { ...layout({ fragments: sizes(61, 1_640) }), indexes: [{ ...plain, unindexedRows: 13_000 }] },
    ],
    [
      'of one whose index covers two short fragments side by side: it would be written again for them',
      { fragments: [...sizes(9, full), ...sizes(1, 800_000), ...sizes(1, 300), ...sizes(60, 100)] },
    ],
    [
      'of one where any index does',
      {
        fragments: [...sizes(9, full), ...sizes(1, 800_000), ...sizes(1, 300), ...sizes(60, 100)],
        indexes: [{ ...plain, unindexedRows: 6_300 }, plain],
      },
    ],
  ];
  for (const [title, given] of whole) test(`all ${title}`, () => assert.equal(estimate(given).new, undefined));

  test('the new fragments alone of a small table too: nothing else is written then', () => {
    const fragments = [...sizes(1, 100_000), ...sizes(1, 300), ...sizes(60, 1)];
    assert.equal(
      extent({ lossMs: 200 }, { ...layout({ fragments }), indexes: [{ ...plain, unindexedRows: 360 }] }),
      'new',
    );
  });

  test('the new fragments alone as soon as what reading them has cost is sure, however little was measured', () => {
    assert.equal(extent({ lossMs: 0, scanLossMs: 16 }), undefined);
    assert.equal(extent({ lossMs: 0, scanLossMs: 17 }), 'new');
  });

  test('beside a fragment that was put together before, which the index does not cover', () => {
    const fragments = [...sizes(9, full), ...sizes(1, 800_000), ...sizes(1, 5_000), ...sizes(10, 100)];
    assert.notEqual(estimate({ fragments }).new, undefined);
  });

  test('whatever is deleted of the new ones', () => {
    const fragments = [...sizes(10, full), ...sizes(60, 100, 50)];
    assert.notEqual(estimate({ fragments, indexes: [{ ...plain, unindexedRows: 3_000 }] }).new, undefined);
  });

  test('beside short fragments that full ones keep apart', () => {
    const apart = Array.from({ length: 7 }, () => [...sizes(1, full), ...sizes(1, 285_000)]).flat();
    assert.notEqual(estimate({ fragments: [...apart, ...sizes(60, 100)] }).new, undefined);
  });
});

/** 300,000 rows of 3 KB, of which 12,800 came in the last 20 commits. */
const wide = layout({
  rows: 300_000,
  fragments: [{ rows: 320_000, deletedRows: 32_800 }, ...sizes(20, 640)].map((fragment, id) => ({ id, ...fragment })),
  bytes: 300_000 * 3_080,
  indexes: [{ ...plain, unindexedRows: 0 }],
});

describe('where fragments can be put together beside the writers (P8)', () => {
  const choose = (facts: Partial<BranchFacts>, given: Layout = wide) =>
    chooseTidying({ ...busy, commitsSinceOptimize: 60, ...facts }, estimateCost(given, noCorrections, limits), limits);

  test('small ones are', () => {
    assert.ok(estimateCost(wide, noCorrections, limits).all.heldMs > 2_000);
    assert.equal(choose({ lossMs: 55 }), undefined);
    const choice = choose({ lossMs: 70 });
    assert.deepEqual([choice?.way, choice?.reason], ['small', 'slower']);
    assert.ok((choice?.fragments?.length ?? 0) >= 16);
    assert.ok(choice?.fragments?.includes(0) === false);
  });

  test('also when measurements begun anew show little: those that are left cost as before', () => {
    assert.equal(choose({ looseLossMs: 55 }), undefined);
    assert.equal(choose({ looseLossMs: 70 })?.way, 'small');
  });

  test('nobody waits for all, whatever was lost, until thousands of old versions can go with it', () => {
    assert.equal(choose({ lossMs: 1e6, commitsSinceOptimize: 5_000, prunableVersions: 4_095 })?.way, 'small');
    assert.deepEqual(choose({ prunableVersions: 4_096 }), { reason: 'old versions', way: 'all' });
    assert.notEqual(choose({ prunableVersions: 4_096, keptVersions: 5_000 })?.way, 'all');
  });

  test('all of it when nobody has written for four times as long, or a minute', () => {
    const { heldMs } = estimateCost(wide, noCorrections, limits).all;
    assert.equal(choose({ quietForMs: 4 * heldMs - 1 }), undefined);
    assert.deepEqual(choose({ quietForMs: 4 * heldMs }), { reason: 'quiet', way: 'all' });
    const huge = { ...wide, bytes: 100 * wide.bytes };
    assert.equal(choose({ quietForMs: 59_999 }, huge), undefined);
    assert.equal(choose({ quietForMs: 60_000 }, huge)?.reason, 'quiet');
  });

  test('all of it, once it is overdue, where no fragment can be chosen', () => {
    const without = { ...wide, fragments: wide.fragments.map(({ rows, deletedRows }) => ({ rows, deletedRows })) };
    assert.equal(choose({ lossMs: 3_000 }, without), undefined);
    assert.deepEqual(choose({ lossMs: 1e6 }, without), { reason: 'overdue', way: 'all' });
  });

  test('small ones of a table of narrow rows, too', () => {
    assert.equal(choose({ lossMs: 40 }, { ...wide, bytes: 300_000 * 24 })?.way, 'small');
  });

  test('all of it where few are small', () => {
    const few = { ...wide, fragments: wide.fragments.slice(0, 7), bytes: 300_000 * 24 };
    assert.equal(choose({ lossMs: 250 }, few)?.way, 'all');
  });
});

const field = (type: DataType, isDictionary = false): Field => ({
  name: 'k',
  nullable: true,
  type,
  dictionary: isDictionary ? { id: 0n, index: { bitWidth: 32, signed: true }, ordered: false } : undefined,
  children: [],
  metadata: new Map(),
});
const schema = (...fields: Field[]): Schema => ({ fields, metadata: new Map() });
const int64 = field({ kind: 'int', bitWidth: 64, signed: true });
const grown = layout({ rows: 20_000 });

describe('which key columns get an index (P8)', () => {
  const columns = (merges: number, at: Layout, type: Field): readonly string[] =>
    columnsToIndex(new Map([['k', merges]]), at, schema(type), limits);

  test('one that a grown table is merged on for the second time', () =>
    assert.deepEqual(columns(2, grown, int64), ['k']));
  test('not at the first merge', () => assert.deepEqual(columns(1, grown, int64), []));
  test('not in a small table', () => assert.deepEqual(columns(2, layout({ rows: 19_999 }), int64), []));
  test('not twice', () => {
    const indexed = { ...grown, indexes: [plain] };
    assert.deepEqual(columns(2, indexed, int64), []);
  });
  test('not one that the table has no more', () => {
    assert.deepEqual(columnsToIndex(new Map([['gone', 2]]), grown, schema(int64), limits), []);
  });

  const refused: readonly DataType[] = [
    { kind: 'float', bitWidth: 64 },
    { kind: 'bool' },
    { kind: 'decimal', bitWidth: 128, precision: 10, scale: 2 },
    { kind: 'binary' },
    { kind: 'large_utf8' },
    { kind: 'struct' },
  ];
  for (const type of refused) {
    test(`not a ${type.kind}`, () => assert.deepEqual(columns(2, grown, field(type)), []));
  }
  test('not a dictionary', () => assert.deepEqual(columns(2, grown, field({ kind: 'utf8' }, true)), []));
});
