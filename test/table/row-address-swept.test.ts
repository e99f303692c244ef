/** What the key index knows while rows move, with the live rows of a branch and no dataset. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Dataset } from '#src/engine/port/dataset.ts';
import type { LiveRows, LiveRowsChange } from '#src/engine/port/row-address.ts';
import type { AddressRemap, RowAddress } from '#src/keys/address-remap.ts';
import { KeyHasher } from '#src/keys/key-hasher.ts';
import { KeySet } from '#src/keys/key-table.ts';
import type { MergeRequest } from '#src/merge/batch.ts';
import { KeyIndex } from '#src/merge/key-index/key-index.ts';
import { integerColumn } from '#test/fixtures/digests.ts';

/** Enough for each part of the index to have some. */
const rows = 5_000;
/** More than all else takes. */
const bytesPerMove = 2 ** 30;
const hasher = new KeyHasher(new Uint32Array(8).fill(3));
const column = integerColumn(Array.from({ length: rows }, (_, key) => BigInt(key)));
const digests = await hasher.digest({ columns: [column], rows });
const allKeys = new KeySet(digests.wordsPerKey, rows);
for (let key = 0; key < rows; key++) allKeys.add(digests, key);

/** A branch on which nothing is deleted: each version puts all rows of the last fragment into the next, in reverse. */
class MovingRows implements LiveRows {
  version = 1;
  readonly bytes = 0;
  #fragment = 1;
  readonly #movedRows: number;

  /** So many count as moved: how many they are says when it is worth looking at all keys. */
  constructor(movedRows: number) {
    this.#movedRows = movedRows;
  }

  has = ({ fragment }: RowAddress): boolean => fragment === this.#fragment;
  hasFragment = (id: number): boolean => id === this.#fragment;
  countRows = (): number => rows;
  rowsOf = (): Iterable<RowAddress> => [];

  advance(version: number): LiveRowsChange {
    const [source, target] = [this.#fragment, this.#fragment + 1];
    const moved: AddressRemap = {
      rows: this.#movedRows,
      bytes: bytesPerMove,
      fragments: () => [source],
      hasMoved: (fragment) => fragment === source,
      fragmentsOf: () => [target],
      newAddressOf: ({ offset }) => ({ fragment: target, offset: rows - 1 - offset }),
    };
    this.#fragment = target;
    this.version = version;
    return { isKnown: true, added: [], moved };
  }
}

const request = { keys: { rows, isNull: () => false }, digests } as unknown as MergeRequest;

/** `resized` gets the memory that the index takes whenever it checks. */
function keyIndexOf(tracked: LiveRows, resized: (bytes: number) => void = () => undefined): KeyIndex {
  const resize = (bytes: number): boolean => {
    resized(bytes);
    return true;
  };
  const hold = { resize, touch: () => undefined, release: () => undefined };
  const index = new KeyIndex({ lineage: 'of the branch' } as Dataset, { on: [], versionColumn: undefined }, tracked, {
    hasher,
    hold,
  });
  assert.equal(index.replaced({ version: 1, fragments: [{ id: 1, rows }] }, [request], []), undefined);
  return index;
}

describe('the addresses of rows that move again and again (P2, P8)', () => {
  for (const turns of [0, 1, 7, 150, 600]) {
    test(`are right with ${turns} turns of the event loop between two moves, whatever is applied by then`, async () => {
      const tracked = new MovingRows(rows);
      const index = keyIndexOf(tracked);
      for (let version = 2; version <= 8; version++) {
        assert.equal(index.follow(version), undefined);
        const found = index.find(allKeys).rows;
        assert.equal(found.size, rows);
        for (let key = 0; key < rows; key++) {
          const offset = version % 2 === 0 ? rows - 1 - key : key;
          assert.deepEqual(found.get(key), { fragment: version, offset });
        }
        for (let turn = 0; turn < turns; turn++) await new Promise(setImmediate);
      }
    });
  }

  /** How many moves are held after each of `count`, with time to apply all of them. */
  async function heldMoves(movedRows: number, count: number): Promise<readonly number[]> {
    let heldBytes = 0;
    const tracked = new MovingRows(movedRows);
    const index = keyIndexOf(tracked, (bytes) => {
      heldBytes = bytes;
    });
    const held: number[] = [];
    for (let version = 2; version <= count + 1; version++) {
      index.follow(version);
      for (let turn = 0; turn < 600; turn++) await new Promise(setImmediate);
      index.replaced({ version, fragments: [{ id: version, rows }] }, [request], []);
      held.push(Math.floor(heldBytes / bytesPerMove));
    }
    return held;
  }

  test('all keys are looked at once moves concern more than half of them, and what they held is given back (P7)', async () => {
    assert.deepEqual(await heldMoves(rows / 4, 6), [1, 2, 0, 1, 2, 0]);
    assert.deepEqual(await heldMoves(rows, 3), [0, 0, 0]);
  });

  test('or there are sixteen of them', async () => {
    const held = await heldMoves(0, 18);
    assert.deepEqual(held.slice(13), [14, 15, 0, 1, 2]);
  });
});
