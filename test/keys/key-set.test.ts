import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type KeyDigests, KeyHasher } from '#src/keys/key-hasher.ts';
import { KeySet } from '#src/keys/key-table.ts';
import { integerColumn, textColumn } from '#test/fixtures/digests.ts';
import { randomOf } from '#test/fuzz/mutations.ts';

const hasher = new KeyHasher(new Uint32Array(8).fill(7));
const numbersOf = (set: KeySet, digests: KeyDigests, keys: number): number[] =>
  Array.from({ length: keys }, (_, key) => set.add(digests, key));

describe('a set of keys', () => {
  test('numbers them in the order in which they come first, over several sources', async () => {
    const set = new KeySet(4, 8);
    const first = await hasher.digest({ columns: [textColumn(['a', 'b', 'a', 'c'])], rows: 4 });
    const second = await hasher.digest({ columns: [textColumn(['d', 'c', 'b', 'e'])], rows: 4 });
    assert.equal(set.indexOf(first, 0), -1);
    assert.deepEqual(numbersOf(set, first, 4), [0, 1, 0, 2]);
    assert.equal(set.indexOf(second, 0), -1);
    assert.deepEqual(numbersOf(set, second, 4), [3, 2, 1, 4]);
    assert.equal(set.size, 5);
    assert.equal(set.indexOf(set.digests, 3), 3);
  });

  test('says what a map would, at its fullest', async () => {
    const random = randomOf(1, 1);
    const rows = 50_000;
    const keys = Array.from({ length: rows }, (_, i) => (i % 3 === 0 ? BigInt(i) : BigInt(random(20_000)) << 40n));
    const digests = await hasher.digest({ columns: [integerColumn(keys)], rows });
    const expected = new Map<bigint, number>();
    for (const key of keys) if (!expected.has(key)) expected.set(key, expected.size);
    const set = new KeySet(2, expected.size);
    assert.deepEqual(
      numbersOf(set, digests, rows),
      keys.map((key) => expected.get(key)),
    );
    assert.equal(set.size, expected.size);
  });

  test('tells digests apart by each of their words, though they meet in one slot', () => {
    for (const wordsPerKey of [2, 4] as const) {
      const words = new Uint32Array(wordsPerKey * (wordsPerKey + 1));
      for (let word = 0; word < wordsPerKey; word++) words[(word + 1) * wordsPerKey + word] = 1 << 31;
      const digests = { wordsPerKey, words };
      const set = new KeySet(wordsPerKey, wordsPerKey + 1);
      const numbers = [...Array(wordsPerKey + 1).keys()];
      assert.deepEqual(numbersOf(set, digests, wordsPerKey + 1), numbers);
      assert.deepEqual(
        numbers.map((key) => set.indexOf(digests, key)),
        numbers,
      );
    }
  });

  test('of no keys holds none', () => {
    const set = new KeySet(2, 0);
    assert.equal(set.indexOf({ wordsPerKey: 2, words: new Uint32Array(2) }, 0), -1);
    assert.equal(set.size, 0);
  });
});
