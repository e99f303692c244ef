/** What passes is waited for, longer each time; what stays is thrown. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { untilAnswered } from '#src/cli/remote/until-answered.ts';

class Busy extends Error {
  readonly afterMs: number;
  constructor(afterMs: number) {
    super('busy');
    this.afterMs = afterMs;
  }
}

function waits() {
  const pauses: number[] = [];
  let nowMs = 0;
  return {
    pauses,
    clock: { nowMs: () => nowMs, schedule: () => () => undefined },
    pause: async (forMs: number) => {
      pauses.push(forMs);
      nowMs += forMs;
    },
    mayPass: (error: unknown) => (error instanceof Busy ? error.afterMs : undefined),
  };
}

test('a service that is busy is asked again, not sooner than it says, until it answers', async () => {
  const given = waits();
  const answers = [new Busy(0), new Busy(0), new Busy(3_000), 'done'];
  const attempt = async (): Promise<string> => {
    const next = answers.shift()!;
    if (next instanceof Error) throw next;
    return next as string;
  };
  assert.equal(await untilAnswered(attempt, given), 'done');
  assert.deepEqual(given.pauses, [250, 500, 3_000]);
});

test('what does not pass is thrown at once, and what does not end after minutes', async () => {
  const given = waits();
  await assert.rejects(
    untilAnswered(() => Promise.reject(new Error('refused')), given),
    /refused/,
  );
  assert.deepEqual(given.pauses, []);
  await assert.rejects(
    untilAnswered(() => Promise.reject(new Busy(60_000)), given),
    /busy/,
  );
  assert.ok(Math.max(...given.pauses) <= 15_000);
  assert.equal(Math.round(given.pauses.reduce((sum, each) => sum + each, 0) / 60_000), 5);
});
