/** How long writers wait when a replica goes. The figures depend on the machine; what is required is far above them. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { outcomeOf, type Target } from './history/attempts.ts';
import { HttpTarget } from './history/http-target.ts';
import { makeTable, registerRows } from './history/register-clients.ts';
import { type Cluster, startReplicas, withoutReplicas } from './nemesis/cluster.ts';

const writers = 8;
const table = 'pulse';

/** Writers that never stop; each request is sent again under its key until it is answered with 200. */
class Pulse {
  readonly #target: Target;
  readonly #answeredMs: number[] = [];
  readonly #latenciesMs: number[] = [];
  readonly #refusals: string[] = [];
  #repeats = 0;
  #isOver = false;
  #running: Promise<unknown> = Promise.resolve();

  constructor(target: Target) {
    this.#target = target;
  }

  start(): void {
    this.#running = Promise.all(Array.from({ length: writers }, (_, writer) => this.#run(writer)));
  }

  /** Resolves when as many more writes are answered. */
  async beats(count: number): Promise<void> {
    for (const wanted = this.#answeredMs.length + count; this.#answeredMs.length < wanted; ) await pause(20);
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#running;
  }

  /** What no replica that goes explains. */
  get refusals(): readonly string[] {
    return this.#refusals;
  }

  /** How many requests have been sent again. */
  get repeats(): number {
    return this.#repeats;
  }

  /** The longest time without an answer since then. */
  longestGapMs(sinceMs: number): number {
    const moments = [sinceMs, ...this.#answeredMs.filter((ms) => ms >= sinceMs)];
    return Math.max(...moments.slice(1).map((ms, index) => ms - (moments[index] as number)));
  }

  percentileMs(percent: number): number {
    const sorted = this.#latenciesMs.toSorted((a, b) => a - b);
    return sorted[Math.floor((sorted.length * percent) / 100)] ?? 0;
  }

  async #run(writer: number): Promise<void> {
    for (let beat = 0; !this.#isOver; beat++) {
      const beganMs = performance.now();
      await this.#write(writer, `${writer}-${beat}`);
      this.#answeredMs.push(performance.now());
      this.#latenciesMs.push(performance.now() - beganMs);
    }
  }

  async #write(writer: number, value: string): Promise<void> {
    const headers = { 'idempotency-key': randomUUID() };
    for (;;) {
      const sent = await this.#target.post(
        `/v1/table/${table}/merge_insert?on=id`,
        registerRows([writer], value),
        headers,
      );
      const outcome = outcomeOf(sent, 'num_inserted_rows');
      if (outcome.kind === 'done') return;
      if (outcome.kind === 'surprise') this.#refusals.push(outcome.text);
      this.#repeats += 1;
      await pause(50);
    }
  }
}

describe('three replicas under load', { skip: withoutReplicas ?? false }, () => {
  const after = afterSuite();
  let cluster: Cluster;
  let target: Target;
  before(async () => {
    cluster = await startReplicas(after, 3);
    const urls = cluster.members.map(({ replica }) => replica.url);
    target = new HttpTarget(urls, cluster.authorization);
    await makeTable(target, table);
  });

  const withPulse = async (work: (pulse: Pulse) => Promise<void>): Promise<void> => {
    const pulse = new Pulse(target);
    pulse.start();
    try {
      await pulse.beats(20);
      await work(pulse);
      await pulse.beats(20);
    } finally {
      await pulse.stop();
    }
    assert.deepEqual(pulse.refusals, []);
  };

  for (const [how, boundMs] of [
    ['kill', 30_000],
    ['stop', 5_000],
  ] as const) {
    test(`go on writing soon after a ${how} of any of them`, (t) =>
      withPulse(async (pulse) => {
        for (const { replica } of cluster.members) {
          const sinceMs = performance.now();
          await replica[how]();
          await pulse.beats(20);
          const gapMs = pulse.longestGapMs(sinceMs);
          t.diagnostic(`${how} of ${replica.name}: ${gapMs.toFixed(0)} ms without an answer`);
          assert.ok(gapMs < boundMs, `${gapMs} ms`);
          await replica.start();
          await pulse.beats(20);
        }
      }));
  }

  test('go on writing soon after any of them loses the store', (t) =>
    withPulse(async (pulse) => {
      for (const { replica, toStore } of cluster.members) {
        const mended = Promise.withResolvers<void>();
        const sinceMs = performance.now();
        toStore!.faults = () => ({ kind: 'stalled', until: mended.promise });
        await pulse.beats(20);
        const gapMs = pulse.longestGapMs(sinceMs);
        t.diagnostic(`store of ${replica.name} lost: ${gapMs.toFixed(0)} ms without an answer`);
        toStore!.faults = () => undefined;
        mended.resolve();
        assert.ok(gapMs < 30_000, `${gapMs} ms`);
        await pulse.beats(20);
      }
    }));

  test('lose no write of a rolling restart', (t) =>
    withPulse(async (pulse) => {
      for (const { replica } of cluster.members) {
        await replica.stop();
        await replica.start();
        await pulse.beats(20);
      }
      const [p50, p99] = [50, 99].map((percent) => `p${percent} ${pulse.percentileMs(percent).toFixed(0)} ms`);
      t.diagnostic(`latency ${p50}, ${p99}; ${pulse.repeats} requests sent again`);
      assert.ok(pulse.percentileMs(99) < 5_000);
    }));
});
