import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { CanonicalKey } from '#src/arrow/key-columns.ts';
import { hashOfInteger, KeyRows } from '#src/table/key-rows.ts';

const edges: readonly CanonicalKey[] = [
  ...[0, '-0', 1, -1, 0.5, -0.5, 1.5, 'NaN', '', 'a', '1', Infinity, -Infinity],
  ...[2 ** 31, -(2 ** 31), 2 ** 32, 2 ** 32 + 1, Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER, 2 ** 60],
  ...[2n ** 63n - 1n, -(2n ** 63n), 2n ** 64n],
];

describe('the rows of keys', () => {
  test('are counted for each key, whatever its type', () => {
    const rows = new KeyRows();
    for (const [index, key] of edges.entries()) for (let i = 0; i <= index % 3; i++) rows.add(key);
    for (const [index, key] of edges.entries()) assert.equal(rows.get(key), 1 + (index % 3), String(key));
    assert.equal(rows.size, edges.length);
    assert.equal(rows.get(7), 0);
    assert.equal(rows.get('b'), 0);
  });

  test('are what a map would say, through all its growing', () => {
    const rows = new KeyRows();
    const map = new Map<CanonicalKey, number>();
    let state = 1;
    for (let i = 0; i < 200_000; i++) {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      const key = state % 3 === 0 ? `k${state % 5_000}` : ((state % 100_000) - 50_000) * 2 ** (state % 20);
      rows.add(key);
      map.set(key, (map.get(key) ?? 0) + 1);
    }
    assert.equal(rows.size, map.size);
    for (const [key, count] of map) assert.equal(rows.get(key), count, String(key));
  });

  const patterns: readonly (readonly [string, (i: number) => number])[] = [
    ['one after the other', (i) => i],
    ['multiples of 1,024', (i) => i * 1_024],
    ['multiples of 2^32', (i) => i * 2 ** 32],
    ['times in nanoseconds', (i) => 1_790_000_000_000_000 + i * 1_000_000],
    ['falling', (i) => -i * 7],
  ];
  for (const [title, keyOf] of patterns) {
    test(`keys that are ${title} are spread evenly`, () => {
      const count = 65_536;
      const perPart = new Uint32Array(256);
      const slots = new Set<number>();
      for (let i = 0; i < count; i++) {
        const hash = hashOfInteger(keyOf(i));
        perPart[hash >>> 24] = (perPart[hash >>> 24] ?? 0) + 1;
        slots.add(hash & (count - 1));
      }
      assert.ok(Math.max(...perPart) < 2 * (count / 256), `a part of ${Math.max(...perPart)}`);
      // 63 % where chance has its way.
      assert.ok(slots.size > 0.6 * count, `${slots.size} slots`);
    });
  }
});
