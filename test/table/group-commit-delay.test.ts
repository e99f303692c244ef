import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Clock } from '#src/kernel/clock.ts';
import { GroupCommitDelay, loopUse } from '#src/write/pending-writes.ts';
import { full } from './rows.ts';
import { Stage } from './stage.ts';

/** Goes ahead when a test says so. */
class SteppedClock implements Clock {
  #nowMs = 0;
  readonly #scheduled = new Map<() => void, number>();

  nowMs(): number {
    return this.#nowMs;
  }

  schedule(afterMs: number, run: () => void): () => void {
    const once = (): void => run();
    this.#scheduled.set(once, this.#nowMs + afterMs);
    return () => this.#scheduled.delete(once);
  }

  get waiting(): number {
    return this.#scheduled.size;
  }

  advance(ms: number): void {
    this.#nowMs += ms;
    for (const [run, atMs] of [...this.#scheduled]) {
      if (atMs > this.#nowMs) continue;
      this.#scheduled.delete(run);
      run();
    }
  }
}

/** After a commit of `commitMs` for `missing` merges; says whether the wait has ended. */
async function waitFor(missing: number, commitMs: number, loopUse = 0.5) {
  const clock = new SteppedClock();
  const gathering = new GroupCommitDelay(clock, () => loopUse);
  let isOver = false;
  gathering.answered(missing);
  const wait = gathering.wait(commitMs).then(() => {
    isOver = true;
  });
  const hasEnded = async (): Promise<boolean> => {
    await new Promise(setImmediate);
    return isOver;
  };
  return { clock, gathering, wait, hasEnded };
}

test('a writer that is to end waits for no client to come back, then or later', async (t) => {
  const stage = await Stage.open(t, full([1, 'old']), { clock: new SteppedClock() });
  await stage.merge(await stage.request(full([2, 'a'])));
  await stage.writer.whenIdle();
  await stage.merge(await stage.request(full([3, 'b'])));
  await stage.writer.whenIdle();
});

describe('after a commit, its clients are waited for (P10)', () => {
  test('until all are back, and not a moment longer', async () => {
    const { clock, gathering, hasEnded } = await waitFor(3, 40);
    gathering.arrived();
    gathering.arrived();
    assert.equal(await hasEnded(), false);
    gathering.arrived();
    assert.equal(await hasEnded(), true);
    assert.equal(clock.waiting, 0, 'no timer is left');
  });

  test('no longer than a gap that is short compared with the commit', async () => {
    const { clock, hasEnded } = await waitFor(3, 40);
    clock.advance(3);
    clock.advance(2);
    assert.equal(await hasEnded(), false);
    clock.advance(1);
    assert.equal(await hasEnded(), true);
  });

  test('a little longer where the event loop was too busy to see what has come', async () => {
    const { clock, gathering, hasEnded } = await waitFor(3, 40);
    clock.advance(12);
    assert.equal(await hasEnded(), false);
    gathering.arrived();
    clock.advance(5);
    assert.equal(await hasEnded(), false);
    clock.advance(3);
    assert.equal(await hasEnded(), true);
    assert.equal(clock.waiting, 0, 'no timer is left');
  });

  test('each that comes keeps the others welcome, for half a commit at most', async () => {
    const { clock, gathering, hasEnded } = await waitFor(1_000, 40);
    for (let ms = 5; ms < 20; ms += 5) {
      clock.advance(5);
      gathering.arrived();
      assert.equal(await hasEnded(), false);
    }
    clock.advance(5);
    assert.equal(await hasEnded(), true);
  });

  test('for 8 ms without an arrival and for 30 ms in all, however long the commit took', async () => {
    const alone = await waitFor(2, 10_000);
    alone.clock.advance(4);
    alone.clock.advance(4);
    assert.equal(await alone.hasEnded(), true);
    const busy = await waitFor(1_000, 10_000);
    for (let ms = 0; ms < 28; ms += 7) {
      busy.clock.advance(7);
      busy.gathering.arrived();
    }
    assert.equal(await busy.hasEnded(), false);
    busy.clock.advance(2);
    assert.equal(await busy.hasEnded(), true);
  });

  test('for longer where the event loop has no time left, but half a second at the most', async () => {
    for (const [commitMs, gapMs, wholeMs] of [
      [200, 100, 200],
      [10_000, 250, 500],
    ] as const) {
      const alone = await waitFor(2, commitMs, 0.95);
      alone.clock.advance(gapMs / 2);
      alone.clock.advance(gapMs / 2 - 1);
      assert.equal(await alone.hasEnded(), false);
      alone.clock.advance(1);
      assert.equal(await alone.hasEnded(), true);
      const busy = await waitFor(1_000, commitMs, 0.95);
      for (let ms = 0; ms < wholeMs - 50; ms += 50) {
        busy.clock.advance(50);
        busy.gathering.arrived();
      }
      assert.equal(await busy.hasEnded(), false);
      busy.clock.advance(50);
      assert.equal(await busy.hasEnded(), true);
    }
  });

  test('not at all after a batch that committed nothing', async () => {
    const { clock, hasEnded } = await waitFor(0, 40);
    assert.equal(await hasEnded(), true);
    assert.equal(clock.waiting, 0);
  });

  test('not when the service ends: its clock keeps no process alive', async () => {
    const { clock, gathering, hasEnded } = await waitFor(3, 40);
    gathering.stop();
    assert.equal(await hasEnded(), true);
    assert.equal(clock.waiting, 0);
    gathering.answered(3);
    await gathering.wait(40);
    assert.equal(clock.waiting, 0);
  });

  test('a merge that comes while there is no wait is no concern of it', () => {
    new GroupCommitDelay(new SteppedClock(), () => 1).arrived();
  });
});

test('the use of the event loop is that since the last call', async () => {
  const use = loopUse();
  const untilMs = performance.now() + 30;
  while (performance.now() < untilMs);
  assert.ok(use() > 0.9, 'it has not waited for anything');
  await new Promise((resolve) => setTimeout(resolve, 200));
  assert.ok(use() < 0.9, 'it has waited for a timer');
});
