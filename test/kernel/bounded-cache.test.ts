import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { BoundedCache, ExpiringCache } from '#src/kernel/bounded-cache.ts';
import { StoppedClock } from '#test/auth/stopped-clock.ts';

describe('a bounded cache (P7)', () => {
  it('drops what was unused for longest, and keeps what is in use', () => {
    const cache = new BoundedCache<number>(2);
    cache.set('a', 1);
    cache.set('b', 2);
    assert.equal(cache.get('a'), 1);
    cache.set('c', 3);
    assert.deepEqual([cache.get('a'), cache.get('b'), cache.get('c')], [1, undefined, 3]);
  });

  it('counts an entry that is set again once', () => {
    const cache = new BoundedCache<boolean>(2);
    for (const key of ['a', 'b', 'b', 'b']) cache.set(key, false);
    assert.deepEqual([cache.get('a'), cache.get('b')], [false, false]);
  });

  it('hands over what it evicts and what is deleted, so that it can be closed', () => {
    const removed: string[] = [];
    const cache = new BoundedCache<string>(2, (value) => removed.push(value));
    for (const key of ['a', 'b', 'c']) cache.set(key, key.toUpperCase());
    cache.delete('c');
    cache.delete('c');
    assert.deepEqual([removed, cache.get('b'), cache.get('c')], [['A', 'C'], 'B', undefined]);
  });

  it('ends each entry at its own time', () => {
    const clock = new StoppedClock();
    const cache = new ExpiringCache<string>(2, clock);
    cache.set('short', 'x', clock.nowMs() + 10);
    cache.set('long', 'y', clock.nowMs() + 20);
    clock.advance(10);
    assert.deepEqual([cache.get('short'), cache.get('long')], [undefined, 'y']);
  });
});
