import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import type { KeyedAnswer, RequestOwner } from '#src/catalog/port.ts';
import { openSqliteCatalog } from '#src/catalog/sqlite/open-sqlite-catalog.ts';
import type { Clock } from '#src/kernel/clock.ts';
import type { IdempotencyKey } from '#src/kernel/ids.ts';
import { keepForgetting } from '#src/operations/forget-old-records.ts';
import { transactionOf } from '#test/contract/catalog/fixtures.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

/** Time passes when a test says so; then what is due runs. */
class ManualClock implements Clock {
  #nowMs = 1_000_000_000;
  #due: { readonly atMs: number; readonly run: () => void }[] = [];

  nowMs(): number {
    return this.#nowMs;
  }

  get scheduled(): number {
    return this.#due.length;
  }

  schedule(afterMs: number, run: () => void): () => void {
    const timer = { atMs: this.#nowMs + afterMs, run };
    this.#due.push(timer);
    return () => {
      this.#due = this.#due.filter((other) => other !== timer);
    };
  }

  pass(ms: number): void {
    this.#nowMs += ms;
    const due = this.#due.filter(({ atMs }) => atMs <= this.#nowMs);
    this.#due = this.#due.filter((timer) => !due.includes(timer));
    for (const { run } of due) run();
  }
}

const minuteMs = 60_000;
const owner = 'somebody' as RequestOwner;
const answered = (key: string, expiresAtMs: number): KeyedAnswer => ({
  owner,
  key: key as IdempotencyKey,
  requestDigest: '',
  bodyDigest: '',
  expiresAtMs,
  attempt: key,
  askedAtMs: 0,
  answer: '{}',
});

async function start(after: (clean: () => void | Promise<void>) => void) {
  const clock = new ManualClock();
  const file = join(temporaryFolder(after), 'catalog.sqlite');
  const catalog = await openSqliteCatalog(file, { holder: { command: 'a test' }, clock });
  const warnings: unknown[] = [];
  const logger = { debug: () => {}, info: () => {}, error: () => {}, warn: (fields: unknown) => warnings.push(fields) };
  const stop = keepForgetting({ catalog, clock, logger: logger as never, transactionsKeptMs: 10 * minuteMs });
  after(() => stop());
  after(() => catalog.close());
  const has = async (key: string) => (await catalog.findKeyed(owner, key as IdempotencyKey)) !== undefined;
  /** Until the next round is planned, which is when the last one is over. */
  const roundIsOver = async () => {
    while (clock.scheduled === 0) await new Promise(setImmediate);
  };
  return { clock, catalog, warnings, stop, has, roundIsOver };
}

test('expired keys and old transactions are forgotten, the others kept', async (t) => {
  const { clock, catalog, has, roundIsOver } = await start((clean) => t.after(clean));
  const now = clock.nowMs();
  await catalog.recordTransactions(
    [
      transactionOf('old', { committedAtMs: now - 10 * minuteMs }),
      transactionOf('young', { committedAtMs: now - 5 * minuteMs }),
    ],
    [answered('short', now + minuteMs), answered('long', now + 2 * minuteMs)],
  );
  clock.pass(minuteMs);
  await roundIsOver();
  assert.deepEqual([await has('short'), await has('long')], [false, true]);
  assert.equal(await catalog.findTransaction(transactionOf('old').id), undefined);
  assert.ok(await catalog.findTransaction(transactionOf('young').id));
  clock.pass(minuteMs);
  await roundIsOver();
  assert.equal(await has('long'), false);
});

test('a round is bounded, and the next one comes soon where there is more', async (t) => {
  const { clock, catalog, roundIsOver } = await start((clean) => t.after(clean));
  const many = Array.from({ length: 1_500 }, (_, i) => answered(`${i}`, 1));
  await catalog.recordTransactions([], many);
  clock.pass(minuteMs);
  await roundIsOver();
  clock.pass(1_000);
  await roundIsOver();
  const left = await catalog.forgetRecords({ committedBeforeMs: 0, expiredAtMs: clock.nowMs() }, 10_000);
  assert.deepEqual(left, { transactions: 0, keys: 0 });
});

test('a failing database is logged, and asked again later; after a stop nothing runs', async (t) => {
  const { clock, catalog, warnings, stop, roundIsOver } = await start((clean) => t.after(clean));
  await catalog.close();
  clock.pass(minuteMs);
  await roundIsOver();
  assert.equal(warnings.length, 1);
  await stop();
  assert.equal(clock.scheduled, 0);
});
