import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CompactionRemap, type Tracked } from '#src/engine/lance/live-rows/live-rows.ts';
import { DeletionVector } from '#src/lance-format/deletion/deletion-vector.ts';

const fragmentOf = (rows: number, deletedOffsets: readonly number[] = []): Tracked => ({
  rows,
  deleted: DeletionVector.of(rows, deletedOffsets),
  deletionsId: undefined,
});

/** From fragment 1 to fragment 2. */
function moveOf(before: Tracked, after: Tracked): CompactionRemap {
  const group = {
    before: [{ id: 1, rows: before.rows, deletionsId: undefined }],
    after: [{ id: 2, rows: after.rows, deletionsId: undefined }],
  };
  return new CompactionRemap(new Map([[1, before]]), new Map([[2, after]]), [group]);
}

test('the memory of a move is what was deleted where its rows were, and an offset for each where some are deleted now (P7)', () => {
  const before = fragmentOf(1_000, [7]);
  const untouched = moveOf(before, fragmentOf(999));
  const touched = moveOf(before, fragmentOf(1_001, [3, 4]));
  assert.deepEqual([untouched.rows, touched.rows], [999, 999]);
  assert.equal(untouched.bytes, before.deleted.bytes);
  assert.equal(touched.bytes, before.deleted.bytes + 999 * Uint32Array.BYTES_PER_ELEMENT);
});

test('rows that do not add up have not moved, and take nothing', () => {
  const moves = moveOf(fragmentOf(1_000), fragmentOf(999));
  assert.deepEqual([moves.isEmpty, moves.rows, moves.bytes], [true, 0, 0]);
});
