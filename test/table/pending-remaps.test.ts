import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { AddressRemap, RowAddress } from '#src/keys/address-remap.ts';
import { PendingRemaps } from '#src/merge/key-index/pending-remaps.ts';

const rowsPerFragment = 10;

/** All rows of some fragments, one after the other, into one; those at offset 3 were deleted. */
function moveOf(sources: readonly number[], target: number): AddressRemap {
  return {
    rows: sources.length * (rowsPerFragment - 1),
    bytes: sources.length * 50,
    fragments: () => sources,
    hasMoved: (fragment) => sources.includes(fragment),
    fragmentsOf: () => [target],
    newAddressOf: ({ fragment, offset }) =>
      offset === 3 ? undefined : { fragment: target, offset: sources.indexOf(fragment) * rowsPerFragment + offset },
  };
}

const at = (fragment: number, offset: number): RowAddress => ({ fragment, offset });

describe('remaps that are not applied yet (P2, P8)', () => {
  test('are followed from any of them to where the row is now, and rows that were deleted before are gone', () => {
    const moves = new PendingRemaps();
    moves.add(moveOf([1, 2], 5));
    moves.add(moveOf([3], 6));
    moves.add(moveOf([5, 6], 9));
    assert.deepEqual(moves.newAddressOf(at(2, 4)), at(9, 14));
    assert.deepEqual(moves.newAddressOf(at(6, 4)), at(9, 14));
    assert.deepEqual(moves.newAddressOf(at(5, 14)), at(9, 14));
    assert.deepEqual(moves.newAddressOf(at(9, 14)), at(9, 14));
    assert.deepEqual(moves.newAddressOf(at(4, 1)), at(4, 1));
    assert.equal(moves.newAddressOf(at(2, 3)), undefined);
    assert.deepEqual(
      [1, 2, 3, 4, 5, 6, 9].map((id) => moves.hasMoved(id)),
      [...[true, true, true, false, true, true, false]],
    );
  });

  test('are forgotten from the oldest on, and others stay', () => {
    const moves = new PendingRemaps();
    moves.add(moveOf([1, 2], 5));
    moves.add(moveOf([5], 9));
    assert.deepEqual([moves.count, moves.rows, moves.bytes], [2, 27, 150]);
    moves.forgetOldest(1);
    assert.deepEqual([moves.count, moves.rows, moves.bytes], [1, 9, 50]);
    assert.equal(moves.hasMoved(1), false);
    assert.deepEqual(moves.newAddressOf(at(5, 4)), at(9, 4));
    moves.forgetOldest(1);
    assert.deepEqual([moves.count, moves.rows, moves.hasMoved(5)], [0, 0, false]);
  });

  test('end, also where a fragment seems to come back', () => {
    const moves = new PendingRemaps();
    moves.add(moveOf([1], 2));
    moves.add(moveOf([2], 1));
    assert.deepEqual(moves.newAddressOf(at(1, 4)), at(1, 4));
    assert.deepEqual(moves.newAddressOf(at(2, 4)), at(1, 4));
  });
});
