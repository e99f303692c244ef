import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';

/** Yields to the event loop until it holds; gives up after what only a failure can take. */
export async function until(holds: () => boolean): Promise<void> {
  const giveUpAtMs = performance.now() + 60_000;
  while (!holds()) {
    assert.ok(performance.now() < giveUpAtMs, `never came true: ${holds}`);
    await turn();
  }
}
