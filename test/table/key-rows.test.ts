import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { CanonicalKey } from '#src/keys/key-columns.ts';
import { type KeyHash, SeededKeyHash } from '#src/merge/known-keys/fingerprint.ts';
import { KeyRows, mostBytesPerKey } from '#src/merge/known-keys/key-rows.ts';

const edges: readonly CanonicalKey[] = [
  ...[0, '-0', 1, -1, 0.5, -0.5, 1.5, 'NaN', '', 'a', 'b', '1', '12', Infinity, -Infinity],
  ...[2 ** 31, -(2 ** 31), 2 ** 32, 2 ** 32 + 1, Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER, 2 ** 60, 5e-324],
  ...[2n ** 63n - 1n, -(2n ** 63n), 2n ** 64n],
];

function random(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

describe('the rows of keys', () => {
  test('are counted for each key, whatever its type', () => {
    const rows = new KeyRows(new SeededKeyHash(1));
    for (const [index, key] of edges.entries()) for (let i = 0; i <= index % 3; i++) rows.add(key);
    for (const [index, key] of edges.entries()) assert.equal(rows.get(key), 1 + (index % 3), String(key));
    assert.equal(rows.get(7), 0);
    assert.equal(rows.get('c'), 0);
  });

  test('are what a map would say, through all its growing', () => {
    const rows = new KeyRows(new SeededKeyHash(2));
    const map = new Map<CanonicalKey, number>();
    const pick = random(1);
    for (let i = 0; i < 200_000; i++) {
      const key = pick(3) === 0 ? `k${pick(5_000)}` : (pick(100_000) - 50_000) * 2 ** pick(20);
      rows.add(key);
      map.set(key, (map.get(key) ?? 0) + 1);
    }
    for (const [key, count] of map) assert.equal(rows.get(key), count, String(key));
  });

  test('are never fewer than there are, where keys cannot be told apart', () => {
    const worst: KeyHash = { markOf: (key) => [0, 1, 255 * 2 ** 32, 256 * 2 ** 32 - 1][Number(key) % 4] ?? 0 };
    const rows = new KeyRows(worst);
    for (let key = 0; key < 30; key++) for (let i = 0; i <= key % 3; i++) rows.add(key);
    for (let key = 0; key < 30; key++) assert.ok(rows.get(key) >= 1 + (key % 3));
  });

  test('take 4 to 7 bytes for each key of any type, and more for those with several rows (P7)', () => {
    for (const keyOf of [(i: number) => i, (i: number) => `a long text, of which there are many: ${i}`]) {
      const rows = new KeyRows(new SeededKeyHash(3));
      const keys = 300_000;
      for (let i = 0; i < keys; i++) rows.add(keyOf(i));
      assert.ok(rows.bytes >= 4 * keys, `${rows.bytes}`);
      assert.ok(rows.bytes <= mostBytesPerKey * keys + 256 * 250, `${rows.bytes}`);
      const before = rows.bytes;
      for (let i = 0; i < 1_000; i++) rows.add(keyOf(i));
      assert.equal(rows.bytes, before + 60_000);
    }
  });
});

describe('the marks of keys', () => {
  const patterns: readonly (readonly [string, (i: number) => CanonicalKey])[] = [
    ['one after the other', (i) => i],
    ['multiples of 1,024', (i) => i * 1_024],
    ['multiples of 2^32', (i) => i * 2 ** 32],
    ['times in nanoseconds', (i) => 1_790_000_000_000_000 + i * 1_000_000],
    ['falling', (i) => -i * 7],
    ['fractions', (i) => i / 16],
    ['beyond what numbers hold', (i) => 2n ** 63n + BigInt(i)],
    ['texts of digits', (i) => `user-${i}`],
    ['texts that differ in their middle', (i) => `${'x'.repeat(20)}${i.toString(36)}${'y'.repeat(20)}`],
    ['bytes', (i) => String.fromCharCode(i & 255, (i >> 8) & 255, 0, 0)],
  ];
  for (const [title, keyOf] of patterns) {
    test(`that are ${title} are spread evenly, and each has its own`, () => {
      const count = 65_536;
      const hash = new SeededKeyHash(4);
      const perPart = new Uint32Array(256);
      const slots = new Set<number>();
      const marks = new Set<number>();
      for (let i = 0; i < count; i++) {
        const mark = hash.markOf(keyOf(i));
        const part = Math.floor(mark / 2 ** 32);
        perPart[part] = (perPart[part] ?? 0) + 1;
        slots.add((mark >>> 0) >>> 16);
        marks.add(mark);
      }
      assert.equal(marks.size, count);
      assert.ok(Math.max(...perPart) < 2 * (count / 256), `a part of ${Math.max(...perPart)}`);
      assert.ok(Math.min(...perPart) > count / 256 / 2, `a part of ${Math.min(...perPart)}`);
      // 63 % where chance has its way.
      assert.ok(slots.size > 0.6 * count, `${slots.size} slots`);
    });
  }

  test('are others for another seed, of which nobody knows (P10)', () => {
    const [one, two] = [new SeededKeyHash(1), new SeededKeyHash(2)];
    for (const key of edges) assert.notEqual(one.markOf(key), two.markOf(key), String(key));
  });
});
