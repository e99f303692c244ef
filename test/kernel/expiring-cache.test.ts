import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ExpiringCache } from '#src/kernel/clock.ts';
import { StoppedClock } from '#test/auth/stopped-clock.ts';

describe('a cache of what expires', () => {
  it('drops what was unused for longest, and keeps what is in use (P7)', () => {
    const clock = new StoppedClock();
    const cache = new ExpiringCache<number>(2, clock);
    const later = clock.nowMs() + 10;
    cache.set('a', 1, later);
    cache.set('b', 2, later);
    assert.equal(cache.get('a'), 1);
    cache.set('c', 3, later);
    assert.deepEqual([cache.get('a'), cache.get('b'), cache.get('c')], [1, undefined, 3]);
  });

  it('has nothing that had expired when it was set', () => {
    const clock = new StoppedClock();
    const cache = new ExpiringCache<number>(2, clock);
    cache.set('now', 1, clock.nowMs());
    cache.set('before', 1, clock.nowMs() - 1);
    assert.deepEqual([cache.get('now'), cache.get('before')], [undefined, undefined]);
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
