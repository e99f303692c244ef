/** Handovers of names whose work does not end, or ends late: with the real work on tables, and clocks that the test moves. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { type TestContext, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { Int32, Table, vectorFromArray } from 'apache-arrow';
import type { OpenRequest } from '#src/engine/port/engine.ts';
import { btreeOn } from '#src/engine/port/index-spec.ts';
import type { PreparedCommit } from '#src/engine/port/upkeep.ts';
import type { IndexJob } from '#src/indexing/index-jobs.ts';
import { neverAborts } from '#src/kernel/read-write-lock.ts';
import { KeyHasher } from '#src/keys/key-hasher.ts';
import { startOperations } from '#src/operations/operations.ts';
import { TableAccess } from '#src/table/table-access.ts';
import { TableLocks } from '#src/table/table-locks.ts';
import { Metrics } from '#src/telemetry/metrics.ts';
import { place, publicationOf, table } from '#test/contract/catalog/fixtures.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { engineIn } from '#test/fixtures/engine-in.ts';
import { replacing } from '#test/fixtures/replacing.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { ManualClock } from '#test/http-unit/manual-clock.ts';
import { silentLogger } from '#test/http-unit/silent-logger.ts';
import { cluster, forwarded, type Joined, ownerOf, refusalOf, turns } from './joined-replicas.ts';

const scope = { requestId: 'r', principal: { subject: 'a', scopes: [], groups: [], issuer: 'test' } };

/** What a replica does with table `t`, which it owns. An index is built until `finish` is called, whatever its signal says. */
async function operationsOf(t: TestContext, replica: Joined) {
  const engine = engineIn(temporaryFolder((clean) => t.after(clean)));
  t.after(() => engine.close());
  const [built, begun] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const late = replacing(engine, {
    open: async (request: OpenRequest) => {
      const dataset = await engine.open(request);
      const prepareIndex = async (...args: Parameters<typeof dataset.prepareIndex>): Promise<PreparedCommit> => {
        begun.resolve();
        await built.promise;
        return dataset.prepareIndex(...args);
      };
      return replacing(dataset, { prepareIndex });
    },
  });
  const operations = await startOperations({
    audit: { requestEnded: () => undefined },
    ...{ catalog: replica.catalog, engine: late, owners: replica.owners, whileStorageAnswers: (read) => read() },
    ...{ clock: new ManualClock(), newId: randomUUID, logger: silentLogger as never, metrics: new Metrics() },
    ...{
      queries: undefined as never,
      keyHasher: new KeyHasher(new Uint32Array(8)),
      keyMemoryBytes: 1 << 20,
      consumerRetentionMs: 60_000,
      dropRetentionMs: 0,
      principalShare: 0.5,
    },
    ...{ maxWaitingPerTable: 10, maxOpenDatasets: 10, idempotencyKeptMs: 1_000, managesVersions: false },
    maintenanceLimits: { isAutomatic: false, retentionMs: 1_000, indexFromRows: 1_000 },
  });
  const creation = await replica.catalog.reserveCreation(table('t'), undefined, place('t.lance'));
  const rows = ipcFile(new Table({ id: vectorFromArray([1, 2], new Int32()) }));
  (await createDataset(engine, place('t.lance'), rows, {})).close();
  const record = await replica.catalog.publishCreation(creation, publicationOf('made', { transaction: transaction() }));
  const build = async (): Promise<IndexJob> => {
    const order = { table: record, branch: undefined, spec: btreeOn('id'), isReplacing: true, keyed: undefined };
    const job = operations.deps.indexJobs.start({ ...order, scope });
    await begun.promise;
    return job;
  };
  return { ...operations, build, finish: built.resolve };
}

const transaction = () => {
  const { tableId: _, ref: __, ...rest } = publicationOf('made').transaction as never as Record<string, unknown>;
  return { ...rest, version: 1, branch: undefined } as never;
};

async function owned(t: TestContext) {
  const { join, pass, until } = await cluster(t);
  const [a, b] = [await join('a'), await join('b')];
  await ownerOf(a, table('t'), forwarded);
  return { a, b, pass, until };
}

/** Work with files takes real time, of which the owners' clocks know nothing. */
async function ended(job: IndexJob): Promise<IndexJob> {
  await Promise.race([job.ended.catch(() => undefined), pause(10_000, undefined, { ref: false })]);
  return job;
}

test('an index that is built when its table is handed over does not wait for the name, nor the name for it', async (t) => {
  const { a, b, pass, until } = await owned(t);
  const { build, finish } = await operationsOf(t, a);
  const job = await build();
  const acquired = b.owners.acquire([table('t')], neverAborts);
  await pass(1_500); // `a` is handing over
  finish();
  const { state, failure } = await ended(job);
  assert.deepEqual([state, failure?.kind, failure?.entry.status], ['FAILED', 'WriterMoved', 503]);
  (await until(acquired))[Symbol.dispose]();
  assert.deepEqual([a.owners.isOwn(table('t')), b.owners.isOwn(table('t'))], [false, true]);
});

test('a handover that waits in vain is given up: its table is written to here, and other names are handed over', async (t) => {
  const { a, b, pass, until } = await owned(t);
  await ownerOf(a, table('free'), forwarded);
  a.handOver.how = ({ name }) => (name === 't' ? new Promise(() => {}) : Promise.resolve('settled'));
  await b.catalog.wantNames([table('t'), table('free')], 'b');
  await pass(2_000);
  assert.deepEqual([a.owners.isOwn(table('t')), a.did.length], [false, 2]);
  const holding = a.owners.hold(table('t'));
  await pass(2_500);
  assert.equal(await Promise.race([holding?.then(() => 'held'), turns()]), 'held');
  assert.equal(a.owners.isOwn(table('free')), false);
  await pass(3_000);
  assert.ok(a.did.filter((each) => each === 'hands over t').length > 1, 'it tries again');
  await until(a.owners.close());
  assert.equal(await ownerOf(b, table('t'), { mustClaim: false, isRepeated: true }), 'b');
  assert.deepEqual(b.did, ['takes over t']);
});

test('who waits for a name that is handed over leaves when its signal aborts', async (t) => {
  const { a, b, pass } = await owned(t);
  const locks = new TableLocks(10, a.owners);
  a.handOver.how = () => new Promise(() => {});
  await b.catalog.wantNames([table('t')], 'b');
  await pass(1_500);
  const [locking, acquiring] = [new AbortController(), new AbortController()];
  const waiting = [
    refusalOf(locks.lockShared(table('t'), locking.signal)),
    refusalOf(a.owners.acquire([table('t')], acquiring.signal)),
  ];
  assert.equal(await Promise.race([...waiting, turns()]), undefined);
  locking.abort('left');
  acquiring.abort('left as well');
  assert.deepEqual(await Promise.race([Promise.all(waiting), turns()]), ['left', 'left as well']);
  assert.equal(await refusalOf(locks.lockShared(table('t'), locking.signal)), 'left');
  await pass(3_000);
});

test('a replica reads what a program wrote for a declared table of another one, and nothing of a create (P1, P11)', async (t) => {
  const { a, b } = await owned(t);
  const declared = await a.catalog.declareTable(table('t'), place('t.lance'), {});
  const engine = engineIn(temporaryFolder((clean) => t.after(clean)));
  t.after(() => engine.close());
  const rows = ipcFile(new Table({ id: vectorFromArray([1, 2], new Int32()) }));
  (await createDataset(engine, place('t.lance'), rows, {})).close();
  const reserved = await a.catalog.reserveCreation(table('t'), declared.id, place('t.lance'));
  const access = new TableAccess(b.catalog, engine, undefined as never, (read) => read());
  assert.equal((await access.find(table('t'))).state, 'declared');
  await a.catalog.abandonCreation(reserved);
  assert.equal((await access.find(table('t'))).state, 'created');
  assert.equal((await b.catalog.findTable(table('t')))?.state, 'declared');
});
