import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findUnallowedNulls } from '#src/arrow/column/unallowed-nulls.ts';
import type { DataType, Field } from '#src/arrow/schema/schema.ts';
import { field, schemaOf } from '#test/fixtures/ipc-writer.ts';
import { chunkOf, int64 } from './concat-parts.ts';

/** The column `c`, with a child that may be NULL in the source and not in the table. */
async function rowsFound(type: DataType, batches: readonly (readonly unknown[])[], name = 'item'): Promise<number[]> {
  const column = (nullable: boolean): Field =>
    field('c', type, { nullable: true, children: [field(name, int64, { nullable })] });
  const chunk = await chunkOf(
    schemaOf([column(true)]),
    batches.map((c) => ({ c })),
  );
  const found: number[] = [];
  findUnallowedNulls(chunk, schemaOf([column(false)]), (row) => found.push(row));
  return found;
}

test('a row with NULL where the table allows none is found by its number, in each batch', async () => {
  const struct = { kind: 'struct' } as const;
  const batches = [[{ k: 1n }, { k: null }], [null, { k: 2n }], [{ k: null }]];
  assert.deepEqual(await rowsFound(struct, batches, 'k'), [1, 4]);
});

test('a NULL inside a list or a vector is found in the row whose value it is', async () => {
  const lists = [[[1n, 2n, 3n], [4n, null], [], null, [5n]], [[null]]];
  assert.deepEqual(await rowsFound({ kind: 'list' }, lists), [1, 5]);
  assert.deepEqual(await rowsFound({ kind: 'large_list' }, lists), [1, 5]);
  const vectors = [
    [
      [1n, 2n],
      [3n, 4n],
      [5n, null],
    ],
    [[6n, 7n]],
  ];
  assert.deepEqual(await rowsFound({ kind: 'fixed_size_list', listSize: 2 }, vectors), [2]);
});
