import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { FragmentFacts, IndexFacts, Layout } from '#src/engine/port/engine.ts';
import { smallFragments } from '#src/maintenance/decide/small-fragments.ts';

const sized = (...rows: readonly number[]): FragmentFacts[] =>
  rows.map((count, id) => ({ id, rows: count, deletedRows: 0 }));
const many = (count: number, rows: number): number[] => Array.from({ length: count }, () => rows);

/** Rows of 100 bytes: 0.35 ms for a thousand of them. */
const layout = (fragments: readonly FragmentFacts[], indexes: readonly IndexFacts[] = []): Layout => {
  const rows = fragments.reduce((sum, fragment) => sum + fragment.rows - fragment.deletedRows, 0);
  return { committedAtMs: undefined, rows, fragments, bytes: rows * 100, indexes };
};
const chosen = (fragments: readonly FragmentFacts[], indexes?: readonly IndexFacts[]) =>
  smallFragments(layout(fragments, indexes), 200)?.ids.toSorted((a, b) => a - b);

const plain = { columns: ['id'], unindexedRows: 0, isPlain: true };
const foreign = { columns: ['vector'], unindexedRows: 0, isPlain: false };

describe('fragments to put together (P8)', () => {
  test('are the smallest, as many as can be rewritten in two seconds', () => {
    const table = layout(sized(...many(8, 800_000), ...many(1_000, 7_000)));
    const { ids, tailMs } = smallFragments(table, 500) ?? { ids: [] as number[], tailMs: 0 };
    assert.ok(ids.length > 750 && ids.length < 850, String(ids.length));
    assert.ok(!ids.includes(0));
    assert.ok(tailMs > 1_900 && tailMs <= 2_020, String(tailMs));
  });

  test('are none that is larger than all the smaller ones together: a row is not written again and again', () => {
    assert.deepEqual(
      chosen(sized(9_000, ...many(16, 100))),
      Array.from({ length: 16 }, (_, i) => i + 1),
    );
    assert.equal(chosen(sized(1_500, ...many(16, 100)))?.length, 17);
  });

  test('are no more than make way for others while writers may wait, and eight at least', () => {
    const table = layout(sized(...many(1_500, 10)));
    const count = (mostHeldMs: number) => smallFragments(table, mostHeldMs)?.ids.length;
    assert.deepEqual([count(500), count(200), count(20), count(1)], [1_500, 975, 75, 8]);
    assert.ok((smallFragments(table, 200)?.heldMs ?? 201) <= 200);
  });

  test('are all of a kind beside a tiny one', () => assert.equal(chosen(sized(1, ...many(9, 100)))?.length, 10));

  test('are none that are full, which the engine would leave as they are', () => {
    const full = sized(...many(3, 2 ** 20), ...many(16, 300_000));
    assert.deepEqual(
      chosen(full)?.filter((id) => id < 3),
      [],
    );
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
});
