import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { DeletionVector } from '#src/lance-format/deletion/deletion-vector.ts';
import { valuesOfBitmap } from '#src/lance-format/roaring.ts';
import { Random } from '#test/model/random.ts';

const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, i) => from + i);

/** That it has exactly these rows, by all that it can be asked. */
function assertHas(deleted: DeletionVector, rows: number, expected: ReadonlySet<number>): void {
  assert.equal(deleted.count, expected.size);
  let living = 0;
  for (let offset = 0; offset < rows; offset += 1) {
    const isDeleted = expected.has(offset);
    // Compared by hand, as a million assertions take seconds.
    if (deleted.has(offset) !== isDeleted) assert.fail(`has(${offset}) is ${!isDeleted}`);
    if (deleted.livingBefore(offset) !== living) assert.equal(deleted.livingBefore(offset), living, `before ${offset}`);
    if (!isDeleted) living += 1;
  }
  assert.equal(deleted.livingBefore(rows), living);
  assert.deepEqual(deleted.living(), Uint32Array.from(range(0, rows).filter((offset) => !expected.has(offset))));
  assert.deepEqual(valuesOfBitmap(deleted.toBitmap()), Uint32Array.from(expected).sort());
}

describe('the deleted rows of a fragment', () => {
  for (const rows of [1, 31, 32, 33, 255, 256, 1_000, 65_535, 65_536, 65_537, 150_001]) {
    for (const share of [0.0005, 0.01, 0.5, 1]) {
      test(`are those that were added in any order: ${share * 100} % of ${rows}`, () => {
        const random = new Random(rows + share);
        const offsets = range(0, Math.ceil(rows * share)).map(() => random.int(rows));
        const deleted = DeletionVector.of(rows, offsets);
        assertHas(deleted, rows, new Set(offsets));
      });
    }
  }

  test('may all be deleted', () => {
    const all = range(0, 2 * 65_536);
    assertHas(DeletionVector.of(all.length, all), all.length, new Set(all));
  });

  test('are none at first', () => {
    assertHas(new DeletionVector(70_000), 70_000, new Set());
    assertHas(new DeletionVector(0), 0, new Set());
  });

  test('may be the first and the last of each chunk, and of the fragment', () => {
    const edges = [0, 65_535, 65_536, 131_071, 131_072, 140_000];
    assertHas(DeletionVector.of(140_001, Uint32Array.from(edges)), 140_001, new Set(edges));
  });

  for (const count of [4_095, 4_096, 4_097]) {
    test(`may be ${count} in one chunk, where the form of a chunk and of its bitmap changes`, () => {
      const offsets = range(0, count).map((i) => 65_536 + i * 15);
      assertHas(DeletionVector.of(131_072, offsets.toReversed()), 131_072, new Set(offsets));
    });
  }

  test('are counted anew after each that is added', () => {
    const [rows, random] = [70_000, new Random(1)];
    const deleted = new DeletionVector(rows);
    const expected = new Set<number>();
    for (let round = 0; round < 2_000; round += 1) {
      const [added, asked] = [random.int(rows), random.int(rows)];
      assert.equal(deleted.add(added), !expected.has(added));
      expected.add(added);
      const before = [...expected].filter((offset) => offset < asked).length;
      assert.equal(deleted.livingBefore(asked), asked - before);
    }
    assertHas(deleted, rows, expected);
  });

  for (const [what, kept] of [
    ['few', 5],
    ['as many as are listed', 4_090],
    ['more', 20_000],
  ] as const) {
    test(`are as before where those that were added to ${what} are taken away again`, () => {
      const [rows, random] = [70_000, new Random(kept)];
      const before = new Set(range(0, kept).map(() => random.int(65_536)));
      const deleted = DeletionVector.of(rows, before);
      const added = range(0, 200)
        .map(() => random.int(rows))
        .filter((offset) => deleted.add(offset));
      assert.ok(added.length > 0);
      deleted.livingBefore(rows);
      for (const offset of added) deleted.remove(offset);
      assertHas(deleted, rows, before);
    });
  }

  test('are added once', () => {
    for (const others of [[], range(0, 1_000)]) {
      const deleted = DeletionVector.of(70_000, others);
      assert.deepEqual([deleted.add(69_999), deleted.add(69_999)], [true, false]);
      assert.equal(deleted.count, others.length + 1);
    }
  });

  test('are rows of the fragment, or refused', () => {
    const deleted = new DeletionVector(100);
    for (const offset of [-1, 1.5, 100, 2 ** 32, Number.NaN]) assert.throws(() => deleted.add(offset), RangeError);
    assert.equal(deleted.count, 0);
    assert.deepEqual([deleted.has(100), deleted.has(70_000)], [false, false]);
  });

  test('take little memory where they are few or the fragment is small', () => {
    const bytes = (rows: number, offsets: number[]) => DeletionVector.of(rows, offsets).bytes;
    assert.ok(bytes(65_536, [9]) < 1_024);
    assert.ok(bytes(1_000, range(0, 1_000)) < 1_024);
    assert.ok(bytes(16 * 65_536, range(0, 16 * 65_536)) < 200 * 1_024);
  });
});
