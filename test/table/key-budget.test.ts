import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Clock } from '#src/kernel/clock.ts';
import { KeyBudget, type KeyHold } from '#src/memory/key-quota.ts';

const maxBytes = 100;

class Stage {
  nowMs = 0;
  readonly forgotten: string[] = [];
  readonly budget = new KeyBudget(maxBytes, { nowMs: () => this.nowMs } as Clock);

  open(name: string, bytes = 0): KeyHold {
    const hold = this.budget.open(() => this.forgotten.push(name));
    assert.ok(hold.resize(bytes));
    return hold;
  }
}

describe('the memory for the keys of tables', () => {
  it('is one for all tables, and a table that finds no room holds what it held (P7)', () => {
    const stage = new Stage();
    stage.open('a', 60);
    const b = stage.open('b', 40);
    assert.equal(stage.budget.heldBytes, maxBytes);
    assert.equal(b.resize(41), false);
    assert.equal(stage.budget.heldBytes, maxBytes);
    b.release();
    assert.equal(stage.budget.heldBytes, 60);
    assert.equal(b.resize(1), false, 'it was given back');
  });

  it('grows and shrinks with the keys', () => {
    const stage = new Stage();
    const hold = stage.open('a', 80);
    assert.ok(hold.resize(30));
    assert.equal(stage.budget.heldBytes, 30);
    assert.ok(stage.open('b').resize(70));
    assert.equal(hold.resize(31), false);
  });

  it('is given back once', () => {
    const stage = new Stage();
    stage.open('a', 30);
    const b = stage.open('b', 50);
    b.release();
    b.release();
    assert.equal(stage.budget.heldBytes, 30);
  });

  it('forgets the keys of tables that were not used lately, the longest unused first, and no more than it must', () => {
    const stage = new Stage();
    const a = stage.open('a', 40);
    stage.nowMs = 1_000;
    stage.open('b', 30);
    stage.open('c', 30);
    stage.nowMs = 5_000;
    a.touch();
    stage.nowMs = 15_000;
    stage.open('d', 20);
    assert.deepEqual(stage.forgotten, ['b']);
    assert.equal(stage.budget.heldBytes, 40 + 30 + 20);
  });

  it('gives up no index for keys that would not fit all the same', () => {
    const stage = new Stage();
    stage.open('a', 40);
    stage.nowMs = 20_000;
    stage.open('b', 30);
    assert.equal(stage.open('c').resize(71), false);
    assert.deepEqual(stage.forgotten, []);
    assert.ok(stage.open('d').resize(70));
    assert.deepEqual(stage.forgotten, ['a']);
  });

  it('does not take the keys of busy tables from each other', () => {
    const stage = new Stage();
    stage.open('a', maxBytes);
    stage.nowMs = 9_999;
    assert.equal(stage.open('b').resize(1), false);
    assert.deepEqual(stage.forgotten, []);
    stage.nowMs = 10_000;
    assert.equal(stage.open('c').resize(1), true);
    assert.deepEqual(stage.forgotten, ['a']);
  });
});
