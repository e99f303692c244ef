import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { RowAddress } from '#src/keys/address-remap.ts';
import { type KeyDigests, KeyHasher } from '#src/keys/key-hasher.ts';
import { KeyTable, mostBytesPerKey } from '#src/keys/key-table.ts';
import { integerColumn, textColumn } from '#test/fixtures/digests.ts';
import { randomOf } from '#test/fuzz/mutations.ts';

const hasher = new KeyHasher(new Uint32Array(8).fill(3));
const integers = (count: number): Promise<KeyDigests> =>
  hasher.digest({ columns: [integerColumn(Array.from({ length: count }, (_, i) => BigInt(i)))], rows: count });
const texts = (count: number): Promise<KeyDigests> =>
  hasher.digest({ columns: [textColumn(Array.from({ length: count }, (_, i) => `a text: ${i}`))], rows: count });

const addresses: readonly RowAddress[] = [
  { fragment: 0, offset: 0 },
  { fragment: 0, offset: 2 ** 32 - 1 },
  { fragment: 2 ** 32 - 2, offset: 0 },
  { fragment: 2 ** 32 - 2, offset: 2 ** 32 - 1 },
];

const everyFragment = { hasMoved: () => true };

function moveAll(table: KeyTable, newAddressOf: (address: RowAddress) => RowAddress | undefined): number {
  return [...table.moveAll({ ...everyFragment, newAddressOf })].length;
}

/** What a map would hold, and the table beside it. */
class Checked {
  readonly table = new KeyTable();
  readonly #map = new Map<number, RowAddress>();
  readonly #digests: KeyDigests;

  constructor(digests: KeyDigests) {
    this.#digests = digests;
  }

  set(key: number, address: RowAddress): void {
    assert.deepEqual(this.table.set(this.#digests, key, address), this.#map.get(key), String(key));
    this.#map.set(key, address);
  }

  moveAll(moved: (address: RowAddress) => RowAddress | undefined): void {
    moveAll(this.table, moved);
    for (const [key, address] of this.#map) {
      const now = moved(address);
      if (now === undefined) this.#map.delete(key);
      else this.#map.set(key, now);
    }
  }

  check(keys: number): void {
    assert.equal(this.table.size, this.#map.size);
    for (let key = 0; key < keys; key++) {
      assert.deepEqual(this.table.find(this.#digests, key), this.#map.get(key), String(key));
    }
  }
}

const kinds = [
  ['narrow', integers],
  ['wide', texts],
] as const;

describe('the row addresses of keys', () => {
  for (const [kind, digestsOf] of kinds) {
    test(`are found for each ${kind} key, wherever its row is`, async () => {
      const checked = new Checked(await digestsOf(40));
      for (let round = 0; round < addresses.length; round++) {
        for (let key = 0; key < 30; key++) checked.set(key, addresses[(key + round) % addresses.length]!);
        checked.check(40);
      }
    });

    test(`are what a map would say of ${kind} keys, through all growing, moving and forgetting`, async () => {
      const keys = 40_000;
      const checked = new Checked(await digestsOf(keys));
      const random = randomOf(1, 1);
      for (let round = 0; round < 4; round++) {
        for (let i = 0; i < 60_000; i++) {
          checked.set(random(keys), { fragment: random(3), offset: random(2 ** 32) });
        }
        checked.check(keys);
        checked.moveAll(({ fragment, offset }) =>
          fragment === round ? undefined : { fragment: fragment + (offset % 2), offset: offset >>> 1 },
        );
        checked.check(keys);
      }
    });
  }

  const meeting = ([2, 4] as const).flatMap((wordsPerKey) =>
    [0, 0xff_ffff, 0xff00_0000, 0xffff_ffff].map((word) => ({ wordsPerKey, word })),
  );
  for (const { wordsPerKey, word } of meeting) {
    test(`differ by each of ${wordsPerKey} words, though all begin with ${word}`, () => {
      const keys = 64;
      const words = new Uint32Array(keys * wordsPerKey);
      for (let key = 0; key < keys; key++) {
        words[key * wordsPerKey] = word;
        words[key * wordsPerKey + 1 + (key % (wordsPerKey - 1))] = key + 1;
      }
      const checked = new Checked({ wordsPerKey, words });
      for (let key = 0; key < keys; key++) {
        checked.set(key, { fragment: key, offset: key });
        checked.check(keys);
      }
      checked.moveAll(({ fragment, offset }) => (fragment % 3 === 0 ? undefined : { fragment, offset: offset + 1 }));
      checked.check(keys);
    });
  }

  test('take 21 to 27 bytes for keys of eight bytes and 32 to 40 for others, in whatever number (P7)', async () => {
    const count = 200_000;
    for (const digests of [await integers(count), await texts(count)]) {
      const most = mostBytesPerKey(digests.wordsPerKey);
      const table = new KeyTable();
      for (let key = 0; key < count; key++) {
        table.set(digests, key, { fragment: 0, offset: key });
        if (key % 20_000 !== 19_999) continue;
        assert.ok(table.bytes >= 0.8 * most * (key + 1), `${table.bytes}`);
        assert.ok(table.bytes <= most * (key + 1) + 256 * 400, `${table.bytes}`);
      }
    }
    assert.ok(mostBytesPerKey(2) < 27 && mostBytesPerKey(4) <= 40);
  });

  test('take less once keys are forgotten, and never more', async () => {
    const digests = await integers(100_000);
    const table = new KeyTable();
    for (let key = 0; key < 100_000; key++) table.set(digests, key, { fragment: 0, offset: key });
    for (let rest = 100_000; rest >= 1; rest = Math.floor(rest / 1.2)) {
      const before = table.bytes;
      moveAll(table, (address) => (address.offset < rest ? address : undefined));
      assert.equal(table.size, rest);
      assert.ok(table.bytes <= before && table.bytes <= mostBytesPerKey(2) * rest + 256 * 500, `${table.bytes}`);
    }
  });

  test('stay as they are in fragments that have not moved', async () => {
    const digests = await integers(1_000);
    const table = new KeyTable();
    for (let key = 0; key < 1_000; key++) table.set(digests, key, { fragment: key % 5, offset: key });
    const moves = { hasMoved: (id: number) => id === 3, newAddressOf: () => ({ fragment: 9, offset: 1 }) };
    for (const _ of table.moveAll(moves));
    for (let key = 0; key < 1_000; key++) {
      const expected = key % 5 === 3 ? { fragment: 9, offset: 1 } : { fragment: key % 5, offset: key };
      assert.deepEqual(table.find(digests, key), expected);
    }
  });

  test('are moved in steps, of which none has more than a part of the keys (P10)', async () => {
    const digests = await integers(50_000);
    const table = new KeyTable();
    assert.equal(
      moveAll(table, (address) => address),
      0,
    );
    for (let key = 0; key < 50_000; key++) table.set(digests, key, { fragment: 0, offset: key });
    const seen = new Set<number>();
    let most = 0;
    let before = 0;
    const newAddressOf = (address: RowAddress) => seen.add(address.offset) && address;
    for (const _ of table.moveAll({ ...everyFragment, newAddressOf })) {
      most = Math.max(most, seen.size - before);
      before = seen.size;
    }
    assert.equal(seen.size, 50_000);
    assert.ok(most < (2 * 50_000) / 256, `${most}`);
  });
});

describe('the versions of rows beside their addresses', () => {
  const at = (key: number): RowAddress => ({ fragment: 1, offset: key });
  const count = 20_000;
  const keys = Array.from({ length: count }, (_, key) => key);
  const isKnown = (key: number): boolean => key % 3 !== 0 && key % 7 !== 0;
  const isGone = (key: number): boolean => key % 5 === 0 && key % 7 !== 0;
  const movedOf = ({ fragment, offset }: RowAddress): RowAddress | undefined =>
    offset % 5 === 0 ? undefined : { fragment: fragment + 1, offset };
  const expected = (versionOf: (key: number) => number | bigint) => (key: number) =>
    isKnown(key) ? versionOf(key) : undefined;

  for (const [kind, versionOf] of [
    ['numbers', (key: number) => key / 2 - 100],
    ['integers of 64 bits', (key: number) => 2n ** 62n + BigInt(key)],
  ] as const)
    test(`stay as the table grows and rows move, and go with their addresses: ${kind}`, async () => {
      const digests = await integers(count);
      const table = new KeyTable();
      const setEach = (those: readonly number[], version: (key: number) => number | bigint | undefined) =>
        those.forEach((key) => void table.set(digests, key, at(key), version(key)));
      setEach(keys, (key) => (key % 3 === 0 ? undefined : versionOf(key)));
      moveAll(table, movedOf);
      setEach(
        keys.filter((each) => each % 7 === 0),
        () => undefined,
      );
      const left = keys.filter((each) => !isGone(each));
      assert.deepEqual(
        left.map((key) => table.versionOf(digests, key)),
        left.map(expected(versionOf)),
      );
      const { bytes } = table;
      table.forgetVersions();
      assert.equal(table.versionOf(digests, 1), undefined);
      assert.ok(table.bytes < bytes - 8 * table.size);
    });

  test('are not kept where they are texts, take more than 64 bits, or are what stands for none', async () => {
    const digests = await integers(1);
    const table = new KeyTable();
    for (const version of [undefined, 2n ** 63n, -(2n ** 63n), -(2n ** 64n) + 1n, '2026', 7]) {
      table.set(digests, 0, at(0), 1n);
      assert.equal(table.versionOf(digests, 0), 1n);
      table.set(digests, 0, at(0), version);
      assert.equal(table.versionOf(digests, 0), undefined, String(version));
    }
  });
});
