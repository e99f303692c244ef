import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Tombstones, tombstoneDays } from '#src/merge/tombstones.ts';

const dayMs = 86_400_000;
const name = (number: number): string => String(number).padStart(22, 'k');
const deletions = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, index) => [name(from + index), BigInt(from + index)] as const);

test('a branch remembers at least 15,000 deletions in 1 MiB, and past that the oldest go first', () => {
  let kept = Tombstones.of({});
  for (let at = 0; at < 40_000; at += 1_000) kept = kept.with(deletions(at, at + 1_000), at);
  assert.ok(kept.text.length <= 2 ** 20);
  assert.ok(kept.size >= 15_000, `${kept.size} are kept`);
  assert.equal(kept.at(name(0), 40_000), undefined);
  for (let number = 40_000 - kept.size; number < 40_000; number += 1)
    assert.equal(kept.at(name(number), 40_000)?.version, BigInt(number));
  assert.equal(kept.at(name(40_000 - kept.size - 1), 40_000), undefined);
  const reread = Tombstones.of(kept.settings);
  assert.deepEqual([reread.size, reread.text], [kept.size, kept.text]);
});

test('a key that is deleted again is among the youngest, with its newer version and a time of its own', () => {
  let kept = Tombstones.of({}).with(deletions(0, 15_000), 0);
  kept = kept.with([[name(0), 7n]], dayMs).with(deletions(50_000, 65_000), dayMs);
  assert.equal(kept.at(name(1), dayMs), undefined);
  assert.equal(kept.at(name(0), dayMs)?.version, 7n);
  assert.equal(kept.at(name(0), (tombstoneDays + 0.9) * dayMs)?.version, 7n);
  assert.equal(kept.at(name(0), (tombstoneDays + 1) * dayMs + 1_000), undefined);
});
