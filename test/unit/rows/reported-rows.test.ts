import assert from 'node:assert/strict';
import { test } from 'node:test';
import { InvalidRows } from '#src/kernel/invalid-rows.ts';

test('a report of invalid rows has the first hundred, each reason of 300 characters at the most (P7)', () => {
  const invalid = new InvalidRows();
  for (let row = 300; row > 0; row -= 1) invalid.add(row, `${row} ${'🌊'.repeat(500)}`);
  const { count, listed } = invalid.report();
  assert.deepEqual([count, listed.length, listed[0]?.row, listed.at(-1)?.row], [300, 100, 1, 100]);
  for (const { reason } of listed) {
    assert.ok(reason.length <= 300, reason);
    assert.ok(reason.isWellFormed());
  }
});
