import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { CanonicalKey } from '#src/keys/key-columns.ts';
import { digestWords, exactWords, HalfSipHash, SecretKeyDigest } from '#src/keys/key-digest.ts';

const secretOf = (seed: number): Uint32Array =>
  Uint32Array.from({ length: 8 }, (_, i) => Math.imul(seed * 8 + i + 1, 0x9e37_79b1));

/** Keys of which many are written like another. */
const edges: readonly CanonicalKey[] = [
  ...[0.5, '0.5', -0.5, '-0.5', -0, '-0', 'NaN', Infinity, 'Infinity', -Infinity, 5e-324, 2 ** 53, 2 ** 60, 2 ** 1023],
  ...[
    2n ** 53n,
    2n ** 60n,
    -(2n ** 60n),
    2n ** 63n - 1n,
    -(2n ** 63n),
    2n ** 63n,
    2n ** 64n,
    12n,
    -12n,
    2n ** 255n - 1n,
  ],
  ...['', 'a', 'b', 'ab', 'ba', 'abc', '12', 'c', '1', '1000000000000000', '9007199254740992', 'é', '\ud800', '𝄞'],
  ...['\0', '\0\0', '\0\0\0', '\0\0\0\0', '\u0001', '\u0100', '\u0001\0', '\0\u0001'],
  ...[509, 510, 511, 512, 2_000].flatMap((length) => ['x'.repeat(length), `${'x'.repeat(length - 1)}y`]),
];

function wordsOf(digest: SecretKeyDigest, key: CanonicalKey): string {
  const words = new Uint32Array(4);
  const taken = digest.write(key, words);
  return words.subarray(0, taken).join(' ');
}

describe('the hash of messages', () => {
  // vectors_hsip64 of the reference implementation: of the bytes 0, 1, 2, … under the key 00 01 … 07.
  const published = {
    0: '218d1f59b9b83cc8',
    1: 'be552412f8387315',
    2: '064f39ef7c50eb57',
    3: 'ce0f1a45f7060679',
    4: 'd5e78a175be52ea1',
    5: 'cb9d7c3f2f3db580',
    8: 'edfee820bce4858c',
    63: '2ea63c71bf326087',
  };
  for (const [length, hex] of Object.entries(published)) {
    test(`is the published one for ${length} bytes`, () => {
      const message = new Uint32Array(Uint8Array.from({ length: 64 }, (_, i) => i).buffer);
      const words = new Uint32Array(4);
      new HalfSipHash(0x0302_0100, 0x0706_0504).write(message, Number(length), words, 1);
      assert.equal(Buffer.from(words.buffer, 4, 8).toString('hex'), hex);
      assert.deepEqual([words[0], words[3]], [0, 0]);
    });
  }
});

describe('what keys are known by', () => {
  test('is themselves for safe integers, under any secret', () => {
    const integers = [0, 1, -1, 2 ** 31, -(2 ** 31), 2 ** 32 - 1, 2 ** 32, -(2 ** 32), -(2 ** 32) - 1];
    for (const key of [...integers, Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER]) {
      const words = new Uint32Array(4);
      assert.equal(new SecretKeyDigest(secretOf(key % 7)).write(key, words), exactWords);
      assert.equal((words[1]! | 0) * 2 ** 32 + words[0]!, key);
    }
  });

  test('is four words for others, which differ where they do in type, length or a letter', () => {
    const digest = new SecretKeyDigest(secretOf(1));
    for (const key of edges) assert.equal(digest.write(key, new Uint32Array(4)), digestWords, String(key));
    const known = edges.map((key) => wordsOf(digest, key));
    assert.equal(new Set(known).size, edges.length);
    assert.deepEqual(
      edges.toReversed().map((key) => wordsOf(digest, key)),
      known.toReversed(),
    );
  });

  test('is the same for texts with the same letters, however they came about', () => {
    const digest = new SecretKeyDigest(secretOf(1));
    const ways = ['user-1', `us${'er'}-${1}`, 'a user-1'.slice(2), Buffer.from('user-1').toString('latin1')];
    assert.equal(new Set(ways.map((key) => wordsOf(digest, key))).size, 1);
  });

  test('differs in each word under each word of the secret, and is spread otherwise (P10)', () => {
    const before = new SecretKeyDigest(secretOf(1));
    for (let word = 0; word < 8; word++) {
      const secret = secretOf(1);
      secret[word]! ^= 2;
      const digest = new SecretKeyDigest(secret);
      if (word < 4) for (const key of edges) assert.notEqual(wordsOf(digest, key), wordsOf(before, key));
      else for (let i = 1; i < 9; i++) assert.notEqual(digest.spread(i, i), before.spread(i, i));
    }
  });

  test('is none with a secret that is too short', () => {
    assert.throws(() => new SecretKeyDigest(new Uint32Array(7)), /secret of 7 words/);
  });
});

describe('where keys are looked for', () => {
  const patterns: readonly (readonly [string, (i: number) => CanonicalKey])[] = [
    ['one after the other', (i) => i],
    ['multiples of 2^20', (i) => i * 2 ** 20],
    ['multiples of 2^32', (i) => i * 2 ** 32],
    ['multiples of 2^32 + 1', (i) => i * (2 ** 32 + 1)],
    ['times in nanoseconds', (i) => 1_790_000_000_000_000 + i * 1_000_000],
    ['falling', (i) => -i * 7],
    ['fractions', (i) => (2 * i + 1) / 16],
    ['beyond what numbers hold', (i) => 2n ** 63n + BigInt(i)],
    ['texts of digits', (i) => `user-${i}`],
  ];
  for (const [title, keyOf] of patterns) {
    test(`is spread evenly for those that are ${title}`, () => {
      const count = 65_536;
      const digest = new SecretKeyDigest(secretOf(4));
      const words = new Uint32Array(4);
      const perPart = new Uint32Array(256);
      const slots = new Set<number>();
      for (let i = 0; i < count; i++) {
        digest.write(keyOf(i), words);
        const spread = digest.spread(words[0]!, words[1]!);
        perPart[spread >>> 24]! += 1;
        slots.add((spread >>> 8) & 0xffff);
      }
      assert.ok(Math.max(...perPart) < 2 * (count / 256), `a part of ${Math.max(...perPart)}`);
      assert.ok(Math.min(...perPart) > count / 256 / 2, `a part of ${Math.min(...perPart)}`);
      // 63 % where chance has its way.
      assert.ok(slots.size > 0.6 * count, `${slots.size} slots`);
    });
  }
});
