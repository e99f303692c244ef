import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Clock } from '#src/kernel/clock.ts';
import { KeyBudget, type KeyHold } from '#src/table/key-budget.ts';

/** Ten numbers. */
const maxBytes = 10 * 24;

class Stage {
  nowMs = 0;
  readonly forgotten: string[] = [];
  readonly budget = new KeyBudget(maxBytes, { nowMs: () => this.nowMs } as Clock);

  open(name: string, keys = 0): KeyHold {
    const hold = this.budget.open(() => this.forgotten.push(name));
    for (let key = 0; key < keys; key++) assert.ok(hold.take(key));
    return hold;
  }
}

describe('the memory for the keys of tables', () => {
  it('is one for all tables, and who finds no room holds nothing (P7)', () => {
    const stage = new Stage();
    stage.open('a', 6);
    const b = stage.open('b', 4);
    assert.equal(stage.budget.heldBytes, maxBytes);
    assert.equal(b.take(11), false);
    assert.equal(stage.budget.heldBytes, 6 * 24);
    assert.equal(b.take(12), false, 'it is not asked for a part of the keys');
  });

  it('counts texts by their length: long keys are many in few rows', () => {
    const stage = new Stage();
    const hold = stage.open('a');
    assert.ok(hold.take('short'));
    assert.equal(hold.take('x'.repeat(300)), false);
    assert.equal(stage.budget.heldBytes, 0);
  });

  it('is given back once', () => {
    const stage = new Stage();
    stage.open('a', 3);
    const b = stage.open('b', 5);
    b.release();
    b.release();
    assert.equal(stage.budget.heldBytes, 3 * 24);
  });

  it('forgets the keys of tables that were not used lately, the longest unused first, and no more than it must', () => {
    const stage = new Stage();
    const a = stage.open('a', 4);
    stage.nowMs = 1_000;
    stage.open('b', 3);
    stage.open('c', 3);
    stage.nowMs = 5_000;
    a.touch();
    stage.nowMs = 15_000;
    stage.open('d', 2);
    assert.deepEqual(stage.forgotten, ['b']);
    assert.equal(stage.budget.heldBytes, (4 + 3 + 2) * 24);
  });

  it('does not take the keys of busy tables from each other', () => {
    const stage = new Stage();
    stage.open('a', 10);
    stage.nowMs = 9_999;
    assert.equal(stage.open('b').take(1), false);
    assert.deepEqual(stage.forgotten, []);
    stage.nowMs = 10_000;
    assert.equal(stage.open('c').take(1), true);
    assert.deepEqual(stage.forgotten, ['a']);
  });
});
