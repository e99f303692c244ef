import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { RowAddress } from '#src/engine/port/row-address.ts';
import type { CanonicalKey } from '#src/keys/key-columns.ts';
import { type KeyDigest, SecretKeyDigest } from '#src/keys/key-digest.ts';
import { KeyTable, mostBytesPerDigestPlace, mostBytesPerPlace } from '#src/keys/key-table.ts';
import { type Random, randomOf } from '#test/fuzz/mutations.ts';

const edges: readonly CanonicalKey[] = [
  ...[0, '-0', '0', 1, '1', -1, '-1', 0.5, '0.5', -0.5, 1.5, 'NaN', '', 'a', 'b', '12', 12, Infinity, -Infinity],
  ...[2 ** 31, -(2 ** 31), 2 ** 32, 2 ** 32 + 1, Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER, 2 ** 60, 5e-324],
  ...[2n ** 60n, 2n ** 63n - 1n, -(2n ** 63n), 2n ** 63n, 2n ** 64n, String(2n ** 64n)],
];
const places: readonly RowAddress[] = [
  { fragment: 0, offset: 0 },
  { fragment: 0, offset: 2 ** 32 - 1 },
  { fragment: 2 ** 32 - 2, offset: 0 },
  { fragment: 2 ** 32 - 2, offset: 2 ** 32 - 1 },
];

const digestOf = (seed: number): KeyDigest => new SecretKeyDigest(new Uint32Array(8).fill(seed));

function randomKey(random: Random): CanonicalKey {
  switch (random(4)) {
    case 0:
      return `k${random(5_000)}`;
    case 1:
      return random(2) === 0 ? random(5_000) / 8 : 2n ** 63n + BigInt(random(5_000));
    default:
      return (random(20_000) - 10_000) * 2 ** random(4);
  }
}

function agree(rows: KeyTable, map: ReadonlyMap<CanonicalKey, RowAddress>): void {
  assert.equal(rows.size, map.size);
  for (const [key, place] of map) assert.deepEqual(rows.find(key), place, String(key));
}

const everyFragment = { hasMoved: () => true };

function moveAll(rows: KeyTable, placeOf: (place: RowAddress) => RowAddress | undefined): number {
  return [...rows.moveAll({ ...everyFragment, placeOf })].length;
}

describe('the places of keys', () => {
  test('are found for each key, whatever its type, and wherever its row is', () => {
    const rows = new KeyTable(digestOf(1));
    for (const key of edges) assert.equal(rows.find(key), undefined, String(key));
    for (let round = 0; round < places.length; round++) {
      const placeOf = (index: number): RowAddress => places[(index + round) % places.length]!;
      for (const [index, key] of edges.entries()) {
        const { fragment, offset } = placeOf(index);
        const before = rows.set(key, fragment, offset);
        assert.deepEqual(before, round === 0 ? undefined : placeOf(index + places.length - 1), String(key));
      }
      agree(rows, new Map(edges.map((key, index) => [key, placeOf(index)])));
    }
    for (const key of [7, '7', 7.5, 2n ** 65n, 'NaNs']) assert.equal(rows.find(key), undefined, String(key));
  });

  test('are what a map would say, through all growing, moving and forgetting', () => {
    const rows = new KeyTable(digestOf(2));
    const map = new Map<CanonicalKey, RowAddress>();
    const random = randomOf(1, 1);
    for (let round = 0; round < 4; round++) {
      for (let i = 0; i < 60_000; i++) {
        const key = randomKey(random);
        const place = { fragment: random(3), offset: random(2 ** 32) };
        assert.deepEqual(rows.set(key, place.fragment, place.offset), map.get(key));
        map.set(key, place);
      }
      agree(rows, map);
      const moved = ({ fragment, offset }: RowAddress): RowAddress | undefined =>
        fragment === round ? undefined : { fragment: fragment + (offset % 2), offset: offset >>> 1 };
      moveAll(rows, moved);
      for (const [key, place] of map) {
        const now = moved(place);
        if (now !== undefined) map.set(key, now);
        else assert.ok(map.delete(key) && rows.find(key) === undefined);
      }
      agree(rows, map);
    }
  });

  test('are told apart where all are looked for in one slot', () => {
    for (const spread of [0, 1, 0xff_ffff, 2 ** 32 - 1]) {
      const digest = digestOf(3);
      const rows = new KeyTable({ write: (key, words) => digest.write(key, words), spread: () => spread });
      const map = new Map<CanonicalKey, RowAddress>();
      for (const [index, key] of [...edges, ...Array.from({ length: 100 }, (_, i) => i * 3)].entries()) {
        map.set(key, { fragment: index, offset: index });
        rows.set(key, index, index);
        agree(rows, map);
      }
      moveAll(rows, ({ fragment, offset }) => (fragment % 3 === 0 ? undefined : { fragment, offset: offset + 1 }));
      for (const [key, { fragment, offset }] of map) {
        const expected = fragment % 3 === 0 ? undefined : { fragment, offset: offset + 1 };
        assert.deepEqual(rows.find(key), expected, String(key));
      }
    }
  });

  test('are those of another key where a digest does not tell them apart, in any of its words', () => {
    for (let word = 0; word < 4; word++) {
      const write: KeyDigest['write'] = (key, words) => {
        words.fill(0);
        words[word] = String(key).length;
        return 4;
      };
      const rows = new KeyTable({ write, spread: () => 0 });
      rows.set('one', 1, 1);
      assert.deepEqual(rows.find('two'), { fragment: 1, offset: 1 });
      assert.equal(rows.find('three'), undefined);
    }
  });

  test('take 21 to 27 bytes for integers and 32 to 40 for others, in whatever number (P7)', () => {
    const kinds: readonly (readonly [number, (i: number) => CanonicalKey])[] = [
      [mostBytesPerPlace, (i) => i],
      [mostBytesPerDigestPlace, (i) => `a long text, of which there are many: ${i}`],
    ];
    for (const [most, keyOf] of kinds) {
      const rows = new KeyTable(digestOf(4));
      for (let i = 0; i < 200_000; i++) {
        rows.set(keyOf(i), 0, i);
        if (i % 20_000 !== 19_999) continue;
        assert.ok(rows.bytes >= 0.8 * most * (i + 1), `${rows.bytes}`);
        assert.ok(rows.bytes <= most * (i + 1) + 256 * 400, `${rows.bytes}`);
      }
    }
  });

  test('take less once keys are forgotten, and never more', () => {
    const rows = new KeyTable(digestOf(5));
    for (let i = 0; i < 100_000; i++) rows.set(i, 0, i);
    for (let rest = 100_000; rest >= 1; rest = Math.floor(rest / 1.2)) {
      const before = rows.bytes;
      moveAll(rows, (place) => (place.offset < rest ? place : undefined));
      assert.equal(rows.size, rest);
      assert.ok(rows.bytes <= before && rows.bytes <= mostBytesPerPlace * rest + 256 * 500, `${rows.bytes}`);
    }
  });

  test('stay where they are in fragments that have not moved', () => {
    const rows = new KeyTable(digestOf(5));
    for (let i = 0; i < 1_000; i++) rows.set(i, i % 5, i);
    const moved = { ...everyFragment, hasMoved: (id: number) => id === 3, placeOf: () => ({ fragment: 9, offset: 1 }) };
    for (const _ of rows.moveAll(moved));
    for (let i = 0; i < 1_000; i++) {
      const expected = i % 5 === 3 ? { fragment: 9, offset: 1 } : { fragment: i % 5, offset: i };
      assert.deepEqual(rows.find(i), expected);
    }
  });

  test('are moved in steps, of which none has more than a part of the keys (P10)', () => {
    const rows = new KeyTable(digestOf(6));
    assert.equal(
      moveAll(rows, (place) => place),
      0,
    );
    for (let i = 0; i < 50_000; i++) rows.set(i % 2 === 0 ? i : `k${i}`, 0, i);
    const seen = new Set<number>();
    let most = 0;
    let before = 0;
    const placeOf = (place: RowAddress) => seen.add(place.offset) && place;
    for (const _ of rows.moveAll({ ...everyFragment, placeOf })) {
      most = Math.max(most, seen.size - before);
      before = seen.size;
    }
    assert.equal(seen.size, 50_000);
    assert.ok(most < 50_000 / 256, `${most}`);
  });
});
