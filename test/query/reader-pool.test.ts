/** The pool of real reader processes, over a table of a few rows. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { Int32, Table, vectorFromArray } from 'apache-arrow';
import { ownSql } from '#src/kernel/checked-sql.ts';
import { systemClock } from '#src/kernel/clock.ts';
import { LancegateError } from '#src/kernel/errors.ts';
import type { Location } from '#src/kernel/ids.ts';
import { ServiceMemory } from '#src/memory/resident-limit.ts';
import type { Order } from '#src/query/protocol.ts';
import { ReaderPool, type ReaderPoolParts } from '#src/query/reader-pool.ts';
import { createLogger } from '#src/telemetry/logger.ts';
import { Metrics } from '#src/telemetry/metrics.ts';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { engineIn } from '#test/fixtures/engine-in.ts';
import { readersOf } from '#test/fixtures/reader-processes.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { eventually } from '#test/http/eventually.ts';

const never = new AbortController().signal;
const location = 't.lance' as Location;
const rows = new Table({ id: vectorFromArray([1, 2, 3], new Int32()) });
const MiB = 2 ** 20;
/** For a start, or to be idle. */
const longWait = 10_000;

describe('the readers', () => {
  const later = afterSuite();
  let folder: string;
  before(async () => {
    folder = temporaryFolder(later);
    await createDataset(engineIn(folder, join(folder, 'tables')), location, ipcFile(rows), {});
  });

  /** A pool that ends with the test, and what it logged. */
  function poolFor(t: { after: (clean: () => Promise<void>) => void }, changed: Partial<ReaderPoolParts> = {}) {
    const log: string[] = [];
    const logger = createLogger({ level: 'debug', format: 'json', destination: { write: (line) => log.push(line) } });
    const metrics = new Metrics();
    const pool = new ReaderPool({
      setup: {
        root: join(folder, 'tables'),
        rootOptions: {},
        scratchFolder: join(folder, 'scratch'),
        indexCacheBytes: 16 * MiB,
        metadataCacheBytes: 8 * MiB,
        memoryBytes: 512 * MiB,
        niceness: 5,
      },
      environment: {},
      serviceMemory: new ServiceMemory(),
      logger,
      metrics,
      clock: systemClock,
      mostReaders: 1,
      maxWaiting: 10,
      waiters: 'queries',
      principalShare: 1,
      idleMs: 60_000,
      ...changed,
    });
    t.after(() => pool.close());
    const count = async (predicate = 'id > 1', signal = never, extraBytes = 0) => {
      const at = { store: 'root', location, version: 1, lineage: 'l' } as const;
      const order: Order = { at, work: { kind: 'count', predicate: ownSql(predicate) }, extraBytes };
      const answered = await pool.ask(order, { principal: 'p', signal });
      return answered.kind === 'counted' ? answered.rows : answered.kind;
    };
    const ends = async (reason: string) => {
      const { body } = await metrics.render();
      return Number(new RegExp(`^lancegate_reader_ends_total{reason="${reason}"} (\\d+)$`, 'm').exec(body)?.[1] ?? 0);
    };
    return { pool, count, log, ends };
  }

  const died = (message: RegExp) => (error: unknown) =>
    error instanceof LancegateError && error.kind === 'ReaderDied' && message.test(error.message);

  test('none runs before it is needed, one answers query after query, and it ends when idle (P12)', async (t) => {
    const before = readersOf(process.pid).length;
    const { count, ends } = poolFor(t, { idleMs: 100 });
    assert.equal(readersOf(process.pid).length, before);
    assert.equal(await count(), 2);
    const [first] = readersOf(process.pid).slice(before);
    assert.equal(await count('id = 3'), 1);
    assert.deepEqual(readersOf(process.pid).slice(before), [first]);
    await eventually('the idle reader has ended', async () => (await ends('idle')) === 1);
    assert.equal(readersOf(process.pid).length, before);
    assert.equal(await count(), 2, 'another one is begun when it is needed');
  });

  test('a reader beyond its memory is ended, its query says so, and the next reader is begun (P7, P12)', async (t) => {
    // A reader that does nothing takes more than this already.
    const setup = {
      root: join(folder, 'tables'),
      rootOptions: {},
      scratchFolder: join(folder, 'scratch'),
      indexCacheBytes: 0,
      metadataCacheBytes: 0,
      memoryBytes: 16 * MiB,
      niceness: 5,
    };
    const { count, ends } = poolFor(t, { setup });
    const slow = `id > 0 AND ${Array.from({ length: 200 }, (_, i) => `CAST(id AS STRING) LIKE '%${i}%x'`).join(' OR ')}`;
    let refusal: unknown;
    // A query may be done before the test looks; then its reader is spent, and another one takes the next.
    for (let i = 0; i < 20 && refusal === undefined; i++) {
      refusal = await count(slow).then(
        () => undefined,
        (error: unknown) => error,
      );
    }
    assert.ok(died(/^the query needed more than the 16 MiB that it may have; nothing was written$/)(refusal));
    assert.equal(await ends('memory'), 1);
    assert.equal(await count(slow, never, 1_024 * MiB), 0, 'an order that may have more is carried out');
    assert.equal(await ends('memory'), 1);
  });

  test('what an order with more memory takes counts against the service, until it has its answer (P7)', async (t) => {
    const calls: string[] = [];
    const serviceMemory = {
      countReader: (pid: number, exemptBytes: number) => calls.push(`count ${pid} beyond ${exemptBytes}`),
      forgetReader: (pid: number) => calls.push(`forget ${pid}`),
    };
    const { count } = poolFor(t, { serviceMemory });
    const before = new Set(readersOf(process.pid));
    assert.equal(await count('id > 1', never, MiB), 2);
    const [pid] = readersOf(process.pid).filter((reader) => !before.has(reader));
    assert.deepEqual(calls, [`count ${pid} beyond ${512 * MiB}`, `forget ${pid}`]);
  });

  test('whatever kills a reader, its query is answered with what happened, and the death is logged and counted (P12)', async (t) => {
    const { count, log, ends } = poolFor(t);
    assert.equal(await count(), 2);
    for (const signal of ['SIGSEGV', 'SIGABRT', 'SIGKILL'] as const) {
      const seen = log.length;
      const [pid] = readersOf(process.pid);
      assert.ok(pid !== undefined);
      const asked = count("CAST(id AS STRING) LIKE '%1%'");
      process.kill(pid, signal);
      await Promise.allSettled([asked]);
      await eventually('its death is logged', () =>
        log.slice(seen).some((line) => line.includes(`"signal":"${signal}"`)),
      );
      await eventually('another one is there', () => readersOf(process.pid).some((other) => other !== pid));
      assert.equal(await count(), 2);
    }
    assert.equal(await ends('signal'), 3);
  });

  test('a program that always dies is begun less and less often, and no query waits for it beyond its time (P7, P12)', async (t) => {
    // The engine cannot be opened on it: the reader ends with its first message.
    const setup = { root: 7, scratchFolder: 7, memoryBytes: 512 * MiB } as never;
    const pauses: number[] = [];
    const clock = {
      ...systemClock,
      schedule: (afterMs: number, run: () => void) => {
        if (afterMs >= longWait) return systemClock.schedule(afterMs, run);
        pauses.push(afterMs);
        return systemClock.schedule(0, run);
      },
    };
    const { count, ends } = poolFor(t, { setup, clock });
    for (let i = 0; i < 3; i++) await assert.rejects(count(), died(/^the process that ran the query died/));
    assert.deepEqual(pauses, [100, 200]);
    assert.equal(await ends('signal'), 3, 'none was begun without a query');
  });

  for (const [what, bytes] of [
    ['no message', [0x41, 0x41, 0x41, 0x41, 0x41, 0x41, 0x41, 0x41]],
    ['a message of more bytes than any has', [2, 0, 0, 0, 0, 0, 0, 0x80, 0x7b, 0x7d]],
    ['a header that is no JSON', [2, 0, 0, 0, 0, 0, 0, 0, 0x7b, 0x7b]],
    ['a message of an unknown kind', [2, 0, 0, 0, 0, 0, 0, 0, 0x7b, 0x7d]],
  ] as const) {
    test(`a reader that sends ${what} is ended, and the service goes on (P12)`, async (t) => {
      const wrong = `import { writeSync } from 'node:fs'; writeSync(3, Buffer.from([${bytes}])); setInterval(() => {}, 1e6);`;
      const environment = { NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(wrong)}` };
      const { count, ends } = poolFor(t, { environment });
      await assert.rejects(count(), died(/^the process that ran the query ended unexpectedly/));
      assert.equal(await ends('protocol'), 1);
    });
  }

  test('an order whose time is over before its reader is there is not given', async (t) => {
    const { count } = poolFor(t);
    const leaver = new AbortController();
    const asked = count('id > 1', leaver.signal);
    const reason = new LancegateError('TimedOut', 'over');
    leaver.abort(reason);
    await assert.rejects(asked, reason);
    assert.equal(await count(), 2);
  });

  test('a closed pool has ended its readers, and takes no order', async (t) => {
    const { pool, count } = poolFor(t);
    assert.equal(await count(), 2);
    await pool.close();
    assert.deepEqual(readersOf(process.pid), []);
    await assert.rejects(count(), { kind: 'SlowDown' });
  });
});
