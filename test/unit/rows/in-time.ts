import assert from 'node:assert/strict';

/** Work in proportion to a text meets the bound many times over, and work in proportion to its square misses it. */
export async function inTime(what: Promise<unknown>, mostMs: number): Promise<void> {
  const start = performance.now();
  await what;
  const ms = performance.now() - start;
  assert.ok(ms < mostMs, `${ms} ms`);
}
