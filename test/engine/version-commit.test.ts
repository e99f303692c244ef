import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { newTransaction } from '#src/engine/lance/commit/version-commit.ts';

test('a version is dated before whatever time is noted after its commit, in whole milliseconds', () => {
  const nowMs = 1_800_000_000_000;
  assert.equal(newTransaction({ nowMs: () => nowMs, uuid: randomUUID }).committedAtMs, nowMs - 1);
});
