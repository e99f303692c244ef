import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Clock } from '#src/kernel/clock.ts';
import { ResidentLimit, ServiceMemory } from '#src/memory/resident-limit.ts';

/** A process of 1,600 units of memory: nearly full from 1,400 on, with room again below 1,300. */
class Surroundings {
  residentBytes = 1_000;
  /** What is found when the limit reads it. */
  garbageBytes = 0;
  samples = 0;
  collections = 0;
  nowMs = 0;
  readonly changes: (readonly [isFull: boolean, residentBytes: number])[] = [];
  readonly limit = new ResidentLimit({
    limitBytes: 1_600,
    memory: {
      residentBytes: () => {
        this.samples += 1;
        return this.residentBytes;
      },
      collect: () => {
        this.collections += 1;
        this.residentBytes -= this.garbageBytes;
        this.garbageBytes = 0;
      },
    },
    clock: { nowMs: () => this.nowMs } as Clock,
    onChange: (isFull, residentBytes) => this.changes.push([isFull, residentBytes]),
  });

  /** Whether a write that comes `afterMs` later is let in together with others. */
  letsIn(residentBytes: number, afterMs = 10): boolean {
    this.residentBytes = residentBytes;
    this.nowMs += afterMs;
    try {
      this.limit.requireRoom(false);
      return true;
    } catch (error) {
      assert.equal((error as { kind: string }).kind, 'SlowDown');
      return false;
    }
  }
}

describe('the limit on resident memory', () => {
  it('turns writes away from a mark below the limit on, and lets them in again below a lower one (P7)', () => {
    const process = new Surroundings();
    assert.equal(process.letsIn(1_399), true);
    assert.equal(process.letsIn(1_400), false);
    assert.equal(process.letsIn(1_300), false, 'not for every sample that is a little lower');
    assert.equal(process.letsIn(1_299), true);
    assert.equal(process.letsIn(1_399), true);
    assert.deepEqual(process.changes, [
      [true, 1_400],
      [false, 1_299],
    ]);
  });

  it('lets a write in that is alone, whatever is resident: memory that never comes down must not end the service', () => {
    const process = new Surroundings();
    for (let i = 0; i < 1_000; i++) {
      assert.equal(process.letsIn(5_000), false);
      process.limit.requireRoom(true);
    }
    assert.equal(process.changes.length, 1);
  });

  it('looks for garbage before it turns a request away, and not again and again', () => {
    const process = new Surroundings();
    process.garbageBytes = 500;
    assert.equal(process.letsIn(1_500), true);
    assert.deepEqual([process.collections, process.changes.length], [1, 0]);
    for (let i = 0; i < 199; i++) assert.equal(process.letsIn(1_500), false);
    assert.equal(process.collections, 1);
    process.garbageBytes = 500;
    assert.equal(process.letsIn(1_500), true);
    assert.equal(process.collections, 2);
  });

  it('does not look for garbage so soon again where there was none: all clients wait for it (P10)', () => {
    const process = new Surroundings();
    process.garbageBytes = 49;
    assert.equal(process.letsIn(1_500), false);
    for (let i = 0; i < 2_999; i++) assert.equal(process.letsIn(1_500), false);
    assert.equal(process.collections, 1);
    process.garbageBytes = 50;
    process.letsIn(1_500);
    assert.equal(process.collections, 2);
    process.letsIn(1_500, 1_990);
    assert.equal(process.collections, 2);
    process.letsIn(1_500);
    assert.equal(process.collections, 3, 'the one before was worth it');
  });

  it('is sampled now and then, however many ask', () => {
    const process = new Surroundings();
    for (let i = 0; i < 100; i++) assert.equal(process.letsIn(1_000, 1), true);
    assert.equal(process.samples, 10);
  });

  it('goes on being sampled when the clock is set back', () => {
    const process = new Surroundings();
    assert.equal(process.letsIn(1_000), true);
    assert.equal(process.letsIn(1_500, -3_600_000), false);
    assert.equal(process.letsIn(1_000, 10), true);
  });
});

describe('the memory of the service', { skip: process.platform !== 'linux' }, () => {
  it('has that of a reader with a merge, beyond what the reader has anyway (P7)', () => {
    const memory = new ServiceMemory();
    const alone = memory.residentBytes();
    // This process stands for the reader.
    memory.countReader(process.pid, 0);
    assert.ok(memory.residentBytes() > 1.5 * alone);
    memory.countReader(process.pid, 2 ** 40);
    assert.ok(memory.residentBytes() < 1.5 * alone);
    memory.countReader(process.pid, 0);
    memory.forgetReader(process.pid);
    assert.ok(memory.residentBytes() < 1.5 * alone);
  });
});
