/** Without a key index, or once it is given up: the engine merges, and what it leaves is right. */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import type { Table } from 'apache-arrow';
import { systemClock } from '#src/kernel/clock.ts';
import { directCommits, openKnown, sendRows, sendUntilDirectCommit } from './direct-commits.ts';
import { full, type Row } from './rows.ts';
import { type Interruptions, Stage, type StageOptions } from './stage.ts';

const open = (t: TestContext, rows: Table, options: StageOptions = {}): Promise<Stage> =>
  Stage.open(t, rows, { hasKeyIndex: true, ...options });

const many = (count: number): Row[] => Array.from({ length: count }, (_, id) => [id, 'old']);

describe('there is no key index', () => {
  test('after the first merge, which may be the only one, unless several share its commit (P8)', async (t) => {
    const directCommitAfter = async (...ids: readonly number[]): Promise<number> => {
      const stage = await open(t, full([1, 'old']));
      await sendRows(stage, ...ids.map((id): Row[] => [[id, 'new']]));
      return sendUntilDirectCommit(stage, () => stage.request(full([1, 'newer'])));
    };
    assert.deepEqual([await directCommitAfter(1), await directCommitAfter(1, 2)], [2, 1]);
  });

  test('where there is no room for them (P7)', async (t) => {
    for (const keyMemoryBytes of [0, 300]) {
      const stage = await open(t, full([1, 'old']), { keyMemoryBytes });
      assert.deepEqual(await sendRows(stage, [[1, 'a']]), [[0, 1]]);
      for (const id of [2, 3, 4, 5])
        assert.deepEqual(await sendRows(stage, [[1, 'b']], [[id, 'b']]), [
          [0, 1],
          [1, 0],
        ]);
      assert.deepEqual(stage.replacements, []);
      assert.ok(stage.keyBudget.heldBytes <= keyMemoryBytes);
      assert.deepEqual(stage.warnings, []);
    }
  });

  test('any more once other tables need the room (P7)', async (t) => {
    let passedMs = 0;
    const clock = { ...systemClock, nowMs: () => systemClock.nowMs() + passedMs };
    const { stage } = await openKnown(t, full([1, 'old']), { clock });
    passedMs = 60_000;
    assert.ok(stage.keyBudget.heldBytes > 0);
    const other = stage.keyBudget.open(() => undefined);
    assert.ok(other.resize(1 << 20));
    for (const id of [1, 2, 1]) await sendRows(stage, [[id, 'without']]);
    assert.equal(directCommits(stage), 0);
    other.release();
    await sendUntilDirectCommit(stage, () => stage.request(full([2, 'known'])));
    assert.deepEqual(await stage.rows(), ['1:without', '2:known']);
  });

  test('of a table that replaces another at the same version (P2)', async (t) => {
    const { stage } = await openKnown(t, full([1, 'old'], [2, 'old']));
    await stage.replace(full([7, 'new']), await (await stage.externalWriter()).version());
    assert.deepEqual(await sendRows(stage, [[7, 'a']], [[1, 'a']]), [
      [0, 1],
      [1, 0],
    ]);
    assert.equal(directCommits(stage), 0);
    assert.deepEqual(await stage.rows(), ['1:a', '7:a']);
  });

  test('where reading them fails, and they are read again later', async (t) => {
    for (const rows of [many(5), many(10_001)]) {
      const interruptions: Interruptions = {};
      const stage = await open(t, full(...rows), { interruptions });
      let failures = 0;
      interruptions.readAddresses = () => {
        failures += 1;
        return Promise.reject(new Error('the version has been removed'));
      };
      for (let sent = 0; failures < 2; sent++) {
        assert.ok(sent < 200, 'the key index is never read');
        assert.deepEqual(await sendRows(stage, [[1, 'a']]), [[0, 1]]);
      }
      assert.deepEqual(stage.replacements, []);
      interruptions.readAddresses = undefined;
      await sendUntilDirectCommit(stage, () => stage.request(full([1, 'b'])));
      assert.deepEqual(stage.warnings, []);
    }
  });
});
