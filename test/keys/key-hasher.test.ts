import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { inspect } from 'node:util';
import { parseFieldPath } from '#src/arrow/schema/field-path.ts';
import { typeName } from '#src/arrow/schema/schema.ts';
import { readKeys } from '#src/keys/key-columns.ts';
import { type KeyDigests, KeyHasher, SipHash, Speck } from '#src/keys/key-hasher.ts';
import type { KeyColumn } from '#src/keys/key-values.ts';
import { integerColumn, textColumn } from '#test/fixtures/digests.ts';
import { encodeStream, schemaOf } from '#test/fixtures/ipc-writer.ts';
import { keyCases, wholeOf } from '#test/fixtures/streams.ts';

const secretOf = (seed: number): Uint32Array =>
  Uint32Array.from({ length: 8 }, (_, i) => Math.imul(seed * 8 + i + 1, 0x9e37_79b1));
const hasher = new KeyHasher(secretOf(1));

const textOf = ({ words, wordsPerKey }: KeyDigests, key: number): string =>
  words.subarray(key * wordsPerKey, (key + 1) * wordsPerKey).join(' ');

async function digestsOf(columns: readonly KeyColumn[], rows: number, by = hasher): Promise<string[]> {
  const digests = await by.digest({ columns, rows });
  return Array.from({ length: rows }, (_, row) => textOf(digests, row));
}

describe('SipHash-2-4 of 128 bits', () => {
  // vectors_sip128 of the reference implementation: of the bytes 0, 1, 2, … under the key 00 01 … 0f.
  const published = {
    0: 'a3817f04ba25a8e66df67214c7550293',
    1: 'da87c1d86b99af44347659119b22fc45',
    7: 'a1f1ebbed8dbc153c0b84aa61ff08239',
    8: '3b62a9ba6258f5610f83e264f31497b4',
    15: '5493e99933b0a8117e08ec0f97cfc3d9',
    16: '6ee2a4ca67b054bbfd3315bf85230577',
    63: '5150d1772f50834a503e069a973fbd7c',
  };
  const counting = (bytes: number) => new Uint32Array(Uint8Array.from({ length: bytes }, (_, i) => i).buffer);
  for (const [length, hex] of Object.entries(published)) {
    test(`is the published one for ${length} bytes`, () => {
      const words = new Uint32Array(6);
      new SipHash(counting(16)).hash(counting(64), Number(length), words, 1);
      assert.equal(Buffer.from(words.buffer, 4, 16).toString('hex'), hex);
      assert.deepEqual([words[0], words[5]], [0, 0]);
    });
  }
});

test('Speck64/128 is as published', () => {
  const words = new Uint32Array(4);
  new Speck(Uint32Array.of(0x0302_0100, 0x0b0a_0908, 0x1312_1110, 0x1b1a_1918)).encrypt(
    0x7475_432d,
    0x3b72_6574,
    words,
    1,
  );
  assert.deepEqual([...words], [0, 0x454e_028b, 0x8c6f_a548, 0]);
});

describe('the digests of keys', () => {
  for (const { field: of, values } of keyCases) {
    test(`of type ${typeName(of)} are equal exactly where the values are (P2)`, async () => {
      const chunk = await wholeOf(encodeStream(schemaOf([of]), [{ k: values }, { k: values }]));
      const digests = await hasher.digest(readKeys(chunk, [parseFieldPath('k')]));
      const digestOf = new Map<string, string>();
      for (const [row, value] of [...values, ...values].entries()) {
        if (value === null) continue;
        const shown = inspect(value === 0 ? 0 : value); // both zeros are one key
        assert.equal(digestOf.get(shown) ?? textOf(digests, row), textOf(digests, row));
        digestOf.set(shown, textOf(digests, row));
      }
      assert.equal(new Set(digestOf.values()).size, digestOf.size);
    });
  }

  test('have two words for keys of up to eight bytes, and four for others', async () => {
    const narrow = integerColumn([5n]);
    assert.equal((await hasher.digest({ columns: [narrow], rows: 1 })).wordsPerKey, 2);
    assert.equal((await hasher.digest({ columns: [narrow, narrow], rows: 1 })).wordsPerKey, 4);
    assert.equal((await hasher.digest({ columns: [textColumn(['5'])], rows: 1 })).wordsPerKey, 4);
  });

  test('of texts differ where they do in a letter or in length', async () => {
    const lengths = [1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 63, 64, 65, 66, 511, 2_000];
    const texts = ['', ...lengths.flatMap((length) => ['\0', 'x'].map((letter) => letter.repeat(length)))];
    assert.equal(new Set(await digestsOf([textColumn(texts)], texts.length)).size, texts.length);
    assert.deepEqual(
      await digestsOf([textColumn(texts)], texts.length),
      (await digestsOf([textColumn(texts.toReversed())], texts.length)).toReversed(),
    );
  });

  test('of composite keys differ where the values only run into each other', async () => {
    const [left, right] = [textColumn(['1', '11', '', '111']), textColumn(['11', '1', '111', ''])];
    assert.equal(new Set(await digestsOf([left, right], 4)).size, 4);
  });

  test('differ under each word of the secret (P10)', async () => {
    for (const column of [integerColumn([0n, 1n, -1n]), textColumn(['', 'a', 'user-1'])]) {
      const before = await digestsOf([column], 3);
      const changed = [...Array(8).keys()].map((word) => {
        const secret = secretOf(1);
        secret[word]! ^= 2;
        return digestsOf([column], 3, new KeyHasher(secret));
      });
      const others = (await Promise.all(changed)).filter((digests) => digests.every((text, i) => text !== before[i]));
      assert.equal(others.length, 4);
    }
  });

  test('are none with a secret that is too short', () => {
    assert.throws(() => new KeyHasher(new Uint32Array(7)), /secret of 7 words/);
  });

  test('of long keys leave others the thread by bytes, also where they are one value of a dictionary (P10)', async () => {
    const longBytes = 1 << 16;
    const rows = 1_024;
    const one = textColumn(['']);
    const values = {
      form: 'variable' as const,
      bytes: new Uint8Array(longBytes),
      starts: new Uint32Array(rows),
      ends: new Uint32Array(rows).fill(longBytes),
    };
    let pauses = 0;
    let isDone = false;
    const counting = (async () => {
      while (!isDone) {
        await setImmediate();
        pauses += 1;
      }
    })();
    await hasher.digest({ columns: [{ ...one, values }], rows });
    isDone = true;
    await counting;
    assert.ok(pauses >= 30, `${pauses} pauses in 64 MiB of keys`);
  });

  const count = 65_536;
  const patterns: readonly (readonly [string, (i: number) => bigint | string])[] = [
    ['one after the other', (i) => BigInt(i)],
    ['multiples of 2^20', (i) => BigInt(i) << 20n],
    ['multiples of 2^32', (i) => BigInt(i) << 32n],
    ['multiples of 2^32 + 1', (i) => BigInt(i) * (2n ** 32n + 1n)],
    ['times in nanoseconds', (i) => 1_790_000_000_000_000n + BigInt(i) * 1_000_000n],
    ['falling', (i) => -7n * BigInt(i)],
    ['texts of digits', (i) => `user-${i}`],
  ];
  for (const [title, keyOf] of patterns) {
    test(`are spread evenly for those that are ${title}`, async () => {
      const keys = Array.from({ length: count }, (_, i) => keyOf(i));
      const column =
        typeof keys[0] === 'string' ? textColumn(keys as string[]) : integerColumn(keys as readonly bigint[]);
      const { words, wordsPerKey } = await hasher.digest({ columns: [column], rows: count });
      const perPartition = new Uint32Array(256);
      const slots = new Set<number>();
      for (let key = 0; key < count; key++) {
        const word = words[key * wordsPerKey]!;
        perPartition[word >>> 24]! += 1;
        slots.add(word & 0xffff);
      }
      assert.ok(Math.max(...perPartition) < 2 * (count / 256), `a partition of ${Math.max(...perPartition)}`);
      assert.ok(Math.min(...perPartition) > count / 256 / 2, `a partition of ${Math.min(...perPartition)}`);
      // 63 % where chance has its way.
      assert.ok(slots.size > 0.6 * count, `${slots.size} slots`);
    });
  }
});
