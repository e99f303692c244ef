import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { DataType, Field, Schema } from '#src/arrow/schema/schema.ts';
import { btreeOn, type IndexSpec } from '#src/engine/port/index-spec.ts';
import type { FragmentFacts, IndexFacts, Layout } from '#src/engine/port/upkeep.ts';
import { keysToIndex, needsOf, needsPruning, type Plan } from '#src/maintenance/plan.ts';

const full = 2 ** 20;
let nextId = 0;
const fragments = (count: number, rows: number, deletedRows = 0): FragmentFacts[] =>
  Array.from({ length: count }, () => ({ id: nextId++, rows, deletedRows }));
const withoutIds = (all: readonly FragmentFacts[]): FragmentFacts[] =>
  all.map(({ rows, deletedRows }) => ({ rows, deletedRows }));

function layoutOf(all: readonly FragmentFacts[], indexes: readonly IndexFacts[] = [], rowBytes = 24): Layout {
  const rows = all.reduce((sum, each) => sum + each.rows - each.deletedRows, 0);
  return { rows, fragments: all, bytes: rows * rowBytes, indexes };
}
const ofMerges = (rows: number, unindexedRows: number): IndexFacts => ({
  ...{ name: 'id_idx', columns: ['id'], rows, unindexedRows, spec: btreeOn('id'), isPlain: true },
});
const vectorSpec: IndexSpec = { name: 'v', column: 'v', options: { type: 'IVF_FLAT', vector: { distance: 'l2' } } };
const ofClient = (rows: number, unindexedRows: number, spec: IndexSpec | undefined = vectorSpec): IndexFacts => ({
  ...{ name: 'v', columns: ['v'], rows, unindexedRows, spec, isPlain: false },
});
const unknown = (rows: number, unindexedRows: number): IndexFacts => ({
  ...ofClient(rows, unindexedRows),
  spec: undefined,
});

const noSchema = { fields: [], metadata: new Map() } as unknown as Schema;
const plans = (layout: Layout, isQuiet: boolean, lastPinned = -1): readonly Plan[] =>
  needsOf({ layout, schema: noSchema, lastPinned }, []).flatMap((need) =>
    need.isForQuiet && !isQuiet ? [] : [need.plan],
  );
const shown = (layout: Layout, isQuiet = false): readonly string[] =>
  plans(layout, isQuiet).map((plan) => `${plan.job}: ${plan.reason}`);
/** How many fragments the first compaction takes. */
const taken = (layout: Layout, isQuiet = false, lastPinned = -1): number | 'all' => {
  const compaction = plans(layout, isQuiet, lastPinned).find(({ job }) => job === 'compact');
  if (compaction?.job !== 'compact') return 0;
  return compaction.fragments === 'all' ? 'all' : compaction.fragments.length;
};

describe('small fragments are merged by size (P8)', () => {
  test('once there are sixteen of one tier, and not before', () => {
    assert.equal(taken(layoutOf(fragments(15, 1))), 0);
    assert.equal(taken(layoutOf(fragments(16, 1))), 16);
    assert.equal(taken(layoutOf([...fragments(15, 15), ...fragments(15, 16)])), 0, 'sixteen rows are another tier');
  });

  test('with all that are smaller, and without those that are larger', () => {
    const all = [...fragments(3, 300_000), ...fragments(16, 100), ...fragments(5, 1)];
    assert.equal(taken(layoutOf(all)), 21);
  });

  test('by the rows that are left in them', () =>
    assert.equal(taken(layoutOf([...fragments(8, 1), ...fragments(8, 100, 90)])), 16));

  test('without those that are full, unless a quarter of their rows is deleted', () => {
    assert.equal(taken(layoutOf(fragments(20, full))), 0);
    assert.equal(taken(layoutOf(fragments(20, full, full / 4))), 0);
    assert.equal(taken(layoutOf(fragments(20, full, full / 4 + 1))), 20);
  });

  test('a gibibyte at a time, and only as far as one tier of them fits into that', () => {
    const size = (count: number, mebibytes: number) => layoutOf(fragments(count, 1_024), [], mebibytes * 1_024);
    assert.equal(taken(size(40, 50)), 20);
    assert.equal(taken(size(40, 65)), 0);
  });

  test('without those that an index of a client covers', () => {
    const all = [...fragments(20, 100), ...fragments(17, 10)];
    assert.equal(taken(layoutOf(all, [ofClient(2_000, 170)])), 17);
    assert.equal(taken(layoutOf(all, [unknown(2_000, 170)])), 17);
    assert.equal(taken(layoutOf(all, [ofMerges(2_000, 170)])), 37, 'that of a merge key is built in seconds');
  });

  test('with those that it covers once it is built again', () => {
    const all = [...fragments(20, 100), ...fragments(5, 1_000)];
    assert.equal(taken(layoutOf(all, [ofClient(2_000, 5_000)])), 20);
    assert.equal(taken(layoutOf(all, [ofClient(2_000, 5_000), unknown(2_000, 5_000)])), 0, 'not if one cannot be');
  });

  test('without those that an index is being built from', () => {
    const all = fragments(40, 10);
    assert.equal(taken(layoutOf(all), false, all[19]!.id), 20);
  });
});

describe('a quiet table is put in order (P8)', () => {
  test('by tiers of four', () => {
    assert.deepEqual([taken(layoutOf(fragments(3, 1)), true), taken(layoutOf(fragments(4, 1)), true)], [0, 4]);
    assert.equal(taken(layoutOf([...fragments(1, 100_000), ...fragments(9, 10)]), true), 9);
  });

  test('and every fragment is rewritten of which more than a quarter is deleted, whatever its size', () => {
    const layout = (deleted: number) => layoutOf([...fragments(2, full), ...fragments(1, full, deleted)], [], 3_000);
    assert.deepEqual([taken(layout(full / 4), true), taken(layout(full / 4 + 1), true)], [0, 1]);
    assert.equal(taken(layout(full / 2)), 0, 'not beside writers');
  });

  test('also what the index of a client covers, once a quarter of the table is deleted', () => {
    const layout = (deletedRows: number) => layoutOf(fragments(2, 10_000, deletedRows), [ofClient(20_000, 0)]);
    assert.deepEqual([taken(layout(2_500), true), taken(layout(2_501), true)], [0, 2]);
  });
});

describe('rows that no index covers are indexed (P8)', () => {
  const layout = (index: IndexFacts) => layoutOf(fragments(1, full), [index]);

  test('once they are a quarter of those that it covers', () => {
    assert.deepEqual(shown(layout(ofClient(100_000, 24_999))), []);
    assert.deepEqual(shown(layout(ofClient(100_000, 25_000))), ['index: many rows']);
    assert.deepEqual(shown(layout(ofMerges(100_000, 25_000))), ['index: many rows']);
  });

  test('not for a quarter of next to nothing', () => assert.deepEqual(shown(layout(ofClient(1_000, 999))), []));

  test('once the table is quiet: all for a client, who may wait for them, and many of a merge key', () => {
    assert.deepEqual(shown(layout(ofClient(100_000, 1)), true), ['index: quiet']);
    assert.deepEqual(shown(layout(ofClient(100_000, 0)), true), []);
    assert.deepEqual(shown(layout(ofMerges(100_000, 999)), true), []);
    assert.deepEqual(shown(layout(ofMerges(100_000, 1_000)), true), ['index: quiet']);
  });

  test('not where this service cannot build the index', () =>
    assert.deepEqual(shown(layout(unknown(100, 100_000)), true), []));

  test('after the small fragments are merged, which leave the index', () =>
    assert.deepEqual(shown(layoutOf(fragments(20, 1_000), [ofClient(10_000, 10_000)])), [
      'compact: small fragments',
      'index: many rows',
    ]));
});

test('what only the engine can compact, while writers wait, is left for longer (P8)', () => {
  const engineOnly = (count: number) => layoutOf(withoutIds(fragments(count, 10)));
  assert.deepEqual([taken(engineOnly(255)), taken(engineOnly(256))], [0, 'all']);
  assert.deepEqual([taken(engineOnly(15), true), taken(engineOnly(16), true)], [0, 'all']);
});

test('old versions go where half as many stay, beside writers only if they are many (P8)', () => {
  assert.deepEqual([needsPruning(511, 0, false), needsPruning(512, 1_024, false)], [false, true]);
  assert.equal(needsPruning(512, 1_025, false), false, 'more would have to be kept and read');
  assert.deepEqual(
    [needsPruning(0, 0, true), needsPruning(1, 2, true), needsPruning(1, 3, true)],
    [false, true, false],
  );
});

describe('the key of merges gets an index (P8)', () => {
  const grown = layoutOf(fragments(1, 20_000));
  const field = (type: object, isDictionary = false): Field =>
    ({
      name: 'id',
      type: type as DataType,
      nullable: true,
      metadata: new Map(),
      children: [],
      ...(isDictionary && { dictionary: {} }),
    }) as unknown as Field;
  const columns = (layout: Layout, of: Field): readonly string[] => {
    const schema = { fields: [of], metadata: new Map() } as unknown as Schema;
    return keysToIndex({ layout, schema }, ['id'], 20_000).map(({ column }) => column);
  };
  const int64 = field({ kind: 'int', bits: 64, signed: true });

  test('in a table that has grown', () => {
    assert.deepEqual(columns(grown, int64), ['id']);
    assert.deepEqual(columns({ ...grown, rows: 19_999 }, int64), []);
  });
  test('unless it has one', () => assert.deepEqual(columns({ ...grown, indexes: [ofMerges(1, 0)] }, int64), []));
  test('unless the table has no such column any more', () =>
    assert.deepEqual(columns(grown, { ...int64, name: 'other' }), []));
  test('if it is a text, date or timestamp, but no float or boolean', () => {
    for (const kind of ['utf8', 'date', 'timestamp']) assert.deepEqual(columns(grown, field({ kind })), ['id'], kind);
    for (const kind of ['float', 'bool', 'largeUtf8']) assert.deepEqual(columns(grown, field({ kind })), [], kind);
  });
  test('unless it has a dictionary', () => assert.deepEqual(columns(grown, field({ kind: 'utf8' }, true)), []));
});
