import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { BodyMemory, type Holder } from '#src/memory/body-memory.ts';

const KiB = 1 << 10;
const ann: Holder = { kind: 'principal', name: 'ann', share: 0.5 };
const ben: Holder = { kind: 'principal', name: 'ben', share: 0.5 };
const orders: Holder = { kind: 'table', name: 'orders', share: 0.25 };

describe('the memory for bodies', () => {
  it('is one quota: what does not fit gets 503, and fits again when something was released (P7)', () => {
    const memory = new BodyMemory({ maxBytes: 256 * KiB, maxIdleBytes: 0 });
    const [one, other] = [memory.open(), memory.open()];
    const first = one.take(100 * KiB);
    other.take(64 * KiB);
    assert.equal(memory.heldBytes, (104 + 64) * KiB);
    assert.throws(() => other.take(89 * KiB), { kind: 'SlowDown' });
    assert.equal(memory.heldBytes, (104 + 64) * KiB);
    one.giveBack(first);
    assert.equal(other.take(89 * KiB).length, 96 * KiB);
  });

  it('is used again for bodies of about the same size, up to what may lie idle', () => {
    const memory = new BodyMemory({ maxBytes: 1024 * KiB, maxIdleBytes: 128 * KiB });
    const account = memory.open();
    const [first, second] = [account.take(100 * KiB), account.take(100 * KiB)];
    account.giveBack(first);
    account.giveBack(second);
    assert.equal(second.length, 0, 'the second would be more than may lie idle, so it was freed at once');
    const again = account.take(104 * KiB);
    assert.equal(again, first);
    assert.equal(again.length, 104 * KiB);
    assert.notEqual(account.take(104 * KiB), first);
  });

  it('wastes at most an eighth of a buffer', () => {
    const account = new BodyMemory({ maxBytes: 2 ** 31, maxIdleBytes: 0 }).open();
    for (const wanted of [64 * KiB + 1, 100_000, 128 * KiB, 1_000_001, (16 << 20) + 1]) {
      const { length } = account.take(wanted);
      assert.ok(length >= wanted && length <= wanted * 1.125 + 1, `${length} for ${wanted}`);
    }
  });

  it('keeps what it promised to a body before the body comes', () => {
    const memory = new BodyMemory({ maxBytes: 256 * KiB, maxIdleBytes: 0 });
    const [one, other] = [memory.open(), memory.open()];
    one.promise(192 * KiB);
    assert.throws(() => other.take(96 * KiB), { kind: 'SlowDown' });
    const buffer = one.take(192 * KiB);
    assert.equal(memory.heldBytes, 192 * KiB, 'what was promised is not counted twice');
    one.release();
    assert.equal(memory.heldBytes, 192 * KiB, 'what is in use stays counted');
    one.giveBack(buffer);
    assert.equal(memory.heldBytes, 0);
  });

  it('counts what others will take to decompress a body', () => {
    const memory = new BodyMemory({ maxBytes: 256 * KiB, maxIdleBytes: 0 });
    const [one, other] = [memory.open(), memory.open()];
    one.charge(200 * KiB);
    assert.throws(() => other.charge(57 * KiB), { kind: 'SlowDown' });
    one.discharge(200 * KiB);
    assert.equal(memory.heldBytes, 0);
  });

  it('tells a body that would not fit alone that it is too large, since waiting would not help', () => {
    const memory = new BodyMemory({ maxBytes: 256 * KiB, maxIdleBytes: 0 });
    assert.throws(() => memory.open().take(257 * KiB), { kind: 'BodyTooLarge' });
    assert.throws(() => memory.open([ann]).requireRoom(129 * KiB), { kind: 'BodyTooLarge' });
    assert.throws(() => memory.open([ann, orders]).promise(65 * KiB), { kind: 'BodyTooLarge' });
    assert.equal(memory.heldBytes, 0);
  });

  it('leaves the others room, however much one principal or one table asks for (P10)', () => {
    const memory = new BodyMemory({ maxBytes: 256 * KiB, maxIdleBytes: 0 });
    memory.open([ann, orders]).charge(64 * KiB);
    assert.throws(() => memory.open([ben, orders]).charge(1), { kind: 'SlowDown', message: /of this table/ });
    memory.open([ann]).charge(64 * KiB);
    assert.throws(() => memory.open([ann]).charge(1), { kind: 'SlowDown', message: /of this principal/ });
    memory.open([ben]).charge(128 * KiB);
    assert.throws(() => memory.open().charge(1), { kind: 'SlowDown', message: /at the same time/ });
  });
});
