import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';

/** Longer than any slow machine takes: only a failure waits for so long. */
const patienceMs = 60_000;
const pauseMs = 5;

/** For what the service does after its answer, or without one: asks again until it is so. `state`: what there is instead. */
export async function eventually(
  what: string,
  isSo: () => boolean | Promise<boolean>,
  state: () => unknown = () => '',
): Promise<void> {
  const endMs = Date.now() + patienceMs;
  while (!(await isSo())) {
    if (Date.now() >= endMs) assert.fail(`after ${patienceMs} ms still not: ${what} ${JSON.stringify(state())}`);
    await pause(pauseMs);
  }
}
