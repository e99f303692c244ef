import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { historyRules } from '#src/config/value-types.ts';
import { keptByRules, type VersionInHistory, withinBytes } from '#src/engine/lance/durability/kept-history.ts';
import type { HistoryRules } from '#src/kernel/history.ts';

const [minuteMs, hourMs, dayMs] = [60_000, 3_600_000, 86_400_000];
const rules: HistoryRules = historyRules.parse('1m:all,1d:1h,7d:1d', '') ?? assert.fail();
const mostBytes = (bytes: number): number => bytes;

/** As pruning does: what is older than the first rule goes, but for what the rules keep. */
function thinned(versions: readonly VersionInHistory[], nowMs: number): readonly VersionInHistory[] {
  const kept = keptByRules(versions, { rules, nowMs, mostBytes });
  return versions.filter(({ version }, index) => {
    const next = versions[index + 1];
    return next === undefined || nowMs - next.madeAtMs < minuteMs || kept.has(version);
  });
}

const at = (version: number, madeAtMs: number, takesAway = false): VersionInHistory => ({
  version,
  madeAtMs,
  takesAway,
});

describe('history is thinned (P8, P13)', () => {
  test('of a week of upserts a bounded number stays, whenever it was looked at: hours of a day, days of a week', () => {
    let versions: readonly VersionInHistory[] = [];
    const endMs = 20 * dayMs;
    for (let version = 1; version * 7 * minuteMs <= endMs; version += 1) {
      const nowMs = version * 7 * minuteMs;
      versions = thinned([...versions, at(version, nowMs)], nowMs + 5_000);
      assert.ok(versions.length <= 24 + 7 + 4, `${versions.length} after ${nowMs / hourMs} h`);
    }
    const ages = versions.map(({ madeAtMs }) => endMs - madeAtMs);
    for (let hour = 1; hour <= 23; hour += 1)
      assert.ok(
        ages.some((age) => age >= (hour - 1) * hourMs && age <= hour * hourMs),
        `${hour} h`,
      );
    for (let day = 1; day <= 6; day += 1)
      assert.ok(
        ages.some((age) => age >= (day - 1) * dayMs && age <= day * dayMs),
        `${day} d`,
      );
    assert.ok(Math.max(...ages) <= 8 * dayMs);
  });

  test('the state before a commit that takes away stays for a week, however many looks there are, and then goes', () => {
    let versions = [at(1, 0), at(2, 10_000), at(3, 20_000, true), ...[4, 5, 6].map((each) => at(each, each * 10_000))];
    for (const nowMs of [5 * minuteMs, 6 * hourMs, 3 * dayMs, 6.9 * dayMs]) {
      versions = [...thinned(versions, nowMs)];
      assert.ok(
        versions.some(({ version }) => version === 2),
        `after ${nowMs / hourMs} h`,
      );
      assert.ok(!versions.some(({ version }) => version === 1 || version === 4));
    }
    assert.deepEqual(
      thinned(versions, 7.1 * dayMs).map(({ version }) => version),
      [6],
    );
  });

  test('a version that a later one than the next took the place of is not the state before it', () => {
    const versions = [at(2, 0), at(4, 10_000, true), at(5, 20_000)];
    assert.deepEqual(
      thinned(versions, 5 * minuteMs).map(({ version }) => version),
      [5],
    );
  });

  test('at the bound the oldest goes first', () => {
    const kept = [1, 4, 9].map((version) => ({ version, bytes: 100 }));
    assert.deepEqual(withinBytes(kept, 250), { versions: [4, 9], bytes: 200 });
    assert.deepEqual(withinBytes(kept, 99), { versions: [], bytes: 0 });
    const many = Array.from({ length: 30_000 }, (_, version) => ({ version, bytes: 0 }));
    assert.equal(withinBytes(many, 1).versions.length, 10_000);
  });
});

test('--history is one line of ages and steps that grow', () => {
  for (const text of ['1m:all', '1m:all,1d:1h,7d:1d', '10s:all,1h:5m'])
    assert.equal(historyRules.show(historyRules.parse(text, '') ?? assert.fail()), text);
  for (const text of ['', 'all', '1d:1h', '1m:all,1h', '1d:all,1h:1h', '1m:all,1d:all', '1m:all,1d:1d,7d:1h', '1m:1h'])
    assert.equal(historyRules.parse(text, ''), undefined, text);
});
