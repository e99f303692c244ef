import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { BodyMemory } from '#src/arrow/body-memory.ts';

const KiB = 1 << 10;

describe('the memory for bodies', () => {
  it('is one budget: what does not fit is told to slow down, and fits again when something was given back (P7)', () => {
    const memory = new BodyMemory({ maxBytes: 256 * KiB, maxIdleBytes: 0 });
    const first = memory.take(100 * KiB);
    memory.take(64 * KiB);
    assert.equal(memory.heldBytes, 192 * KiB);
    assert.throws(() => memory.take(65 * KiB), { kind: 'SlowDown' });
    assert.equal(memory.heldBytes, 192 * KiB);
    memory.giveBack(first);
    assert.equal(memory.take(65 * KiB).length, 128 * KiB);
    assert.equal(memory.isFull, false);
    memory.take(1);
    assert.equal(memory.isFull, true);
  });

  it('is used again for bodies of about the same size, up to what may lie idle', () => {
    const memory = new BodyMemory({ maxBytes: 1024 * KiB, maxIdleBytes: 128 * KiB });
    const [first, second] = [memory.take(100 * KiB), memory.take(100 * KiB)];
    memory.giveBack(first);
    memory.giveBack(second);
    assert.equal(first.length, 128 * KiB);
    assert.equal(second.length, 0, 'the second would be more than may lie idle, so it was freed at once');
    assert.equal(memory.take(128 * KiB), first);
    assert.notEqual(memory.take(128 * KiB), first);
  });
});
