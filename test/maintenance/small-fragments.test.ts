import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { FragmentFacts, IndexFacts, Layout } from '#src/engine/port.ts';
import { smallFragments } from '#src/maintenance/small-fragments.ts';

const sized = (...rows: readonly number[]): FragmentFacts[] =>
  rows.map((count, id) => ({ id, rows: count, deletedRows: 0 }));
const many = (count: number, rows: number): number[] => Array.from({ length: count }, () => rows);

/** Rows of 1 KB: 4.3 ms for a thousand of them. */
const layout = (fragments: readonly FragmentFacts[], indexes: readonly IndexFacts[] = []): Layout => {
  const rows = fragments.reduce((sum, fragment) => sum + fragment.rows - fragment.deletedRows, 0);
  return { committedAtMs: undefined, rows, fragments, bytes: rows * 1_000, indexes };
};
const chosen = (fragments: readonly FragmentFacts[], indexes?: readonly IndexFacts[]) =>
  smallFragments(layout(fragments, indexes), 200)?.ids.toSorted((a, b) => a - b);

const plain = { columns: ['id'], unindexedRows: 0, isPlain: true };
const foreign = { columns: ['vector'], unindexedRows: 0, isPlain: false };

describe('fragments to put together (P8)', () => {
  test('are the smallest, as many as can be rewritten in time', () => {
    const ids = chosen(sized(500_000, ...many(100, 1_000)));
    assert.ok(ids !== undefined && ids.length > 20 && ids.length < 50, String(ids?.length));
    assert.ok(!ids.includes(0));
    const { heldMs = 0 } = smallFragments(layout(sized(500_000, ...many(100, 1_000))), 200) ?? {};
    assert.ok(heldMs > 150 && heldMs <= 200, String(heldMs));
  });

  test('are none that is larger than all the smaller ones together: a row is not written again and again', () => {
    assert.deepEqual(
      chosen(sized(9_000, ...many(16, 100))),
      Array.from({ length: 16 }, (_, i) => i + 1),
    );
    assert.equal(chosen(sized(1_500, ...many(16, 100)))?.length, 17);
  });

  test('count by the rows that are left of them', () => {
    const emptied = { id: 99, rows: 100_000, deletedRows: 99_900 };
    assert.ok(chosen([emptied, ...sized(...many(8, 100))])?.includes(99));
  });

  test('are none where they are few', () => {
    assert.equal(chosen(sized(100_000, ...many(7, 10))), undefined);
    assert.equal(chosen(sized(100_000, ...many(8, 10)))?.length, 8);
  });

  test('are none that the engine does not let us choose', () => {
    assert.equal(chosen(many(20, 10).map((rows) => ({ rows, deletedRows: 0 }))), undefined);
  });

  test("are also those in an index of ours, which is built anew, but not those in somebody else's", () => {
    const fragments = sized(100_000, ...many(20, 10));
    assert.equal(chosen(fragments, [plain])?.length, 20);
    assert.equal(chosen(fragments, [plain, foreign]), undefined);
    assert.deepEqual(chosen(fragments, [plain, { ...foreign, unindexedRows: 80 }]), [13, 14, 15, 16, 17, 18, 19, 20]);
  });

  test('are a few still where looking at all rows takes longer than writers may wait', () => {
    const ids = chosen(sized(...many(8, 2 ** 20), ...many(100, 1_000)));
    assert.ok(ids !== undefined && ids.length >= 20 && ids.length < 30, String(ids?.length));
  });
});
