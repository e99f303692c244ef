import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { BoundedCache, ExpiringCache } from '#src/auth/bounded-cache.ts';
import { StoppedClock } from './stopped-clock.ts';

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

  it('ends each entry at its own time', () => {
    const clock = new StoppedClock();
    const cache = new ExpiringCache<string>(2, clock);
    cache.set('short', 'x', clock.nowMs() + 10);
    cache.set('long', 'y', clock.nowMs() + 20);
    clock.advance(10);
    assert.deepEqual([cache.get('short'), cache.get('long')], [undefined, 'y']);
  });
});
