/** A service on an object store that fails in every way that stores do. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import {
  type FaultRates,
  isCommit,
  randomFaults,
  type StoreProxy,
  startStoreProxy,
} from '#test/fixtures/store-proxy.ts';
import { google, type StoreUnderTest, s3 } from '#test/fixtures/stores-under-test.ts';
import { Random } from '#test/model/random.ts';
import { violationsOf } from './history/check-history.ts';
import { HttpTarget } from './history/http-target.ts';
import { LosingTarget } from './history/losing-target.ts';
import { appendedRow, emptyTable, RegisterClients } from './history/register-clients.ts';
import { TableMakers } from './history/table-makers.ts';

/** More by hand: `LANCEGATE_TEST_FAULTS=2000`. */
const faultsWanted = Number(process.env.LANCEGATE_TEST_FAULTS ?? 100);
const firstSeed = Number(process.env.LANCEGATE_TEST_SEED ?? 1);

const rates: FaultRates = {
  percent: Number(process.env.LANCEGATE_TEST_FAULT_PERCENT ?? 15),
  weights: [
    [4, 'lost answer'],
    [3, 'error after'],
    [2, 'error before'],
    [2, 'slow down'],
    [2, 'cut before'],
    [2, 'cut amid upload'],
    [2, 'cut amid answer'],
    [1, 'held'],
    [2, 'stalled'],
    [2, 'late'],
  ],
  longestMs: 300,
};

for (const { name, without, start } of [s3, google]) {
  describe(`a service on ${name} that fails`, { skip: without ?? false }, () => keepsItsPromises(start));
}

function keepsItsPromises(start: StoreUnderTest['start']): void {
  const after = afterSuite();
  let proxy: StoreProxy;
  let service: TestService;
  before(async () => {
    const { newRoot, storageOptions } = await start(after);
    proxy = await startStoreProxy(after, storageOptions);
    service = await startTestService(after, {
      STORAGE_ROOT: newRoot(),
      STORAGE_OPTIONS: JSON.stringify(proxy.storageOptions),
      chunkBytes: 32 * 2 ** 10,
    });
  });

  test('a commit that arrives when another has its number changes nothing (P3, P6)', async () => {
    const table = '/v1/table/overtaken';
    assert.equal((await service.post(`${table}/create`, emptyTable())).status, 200);
    const late = Promise.withResolvers<void>();
    let commits = 0;
    proxy.faults = (request) => {
      if (!isCommit(request)) return undefined;
      commits += 1;
      return commits === 1 ? { kind: 'late', until: late.promise } : { kind: 'cut before' };
    };
    const first = await service.post(`${table}/insert`, appendedRow('of the zombie'));
    assert.deepEqual([first.status, first.body.code], [500, 18], JSON.stringify(first.body));
    proxy.faults = () => undefined;
    const second = await service.post(`${table}/insert`, appendedRow('of the next'));
    assert.equal(second.status, 200, JSON.stringify(second.body));
    late.resolve();
    await proxy.delivered();
    const count = async (value: string) =>
      (await service.post<number>(`${table}/count_rows`, { predicate: `value = '${value}'` })).body;
    assert.deepEqual([await count('of the next'), await count('of the zombie')], [1, 0]);
  });

  test('a retry of a write whose commit is still on its way is not applied beside it (P6)', async () => {
    const table = '/v1/table/zombie';
    assert.equal((await service.post(`${table}/create`, emptyTable())).status, 200);
    const late = Promise.withResolvers<void>();
    const retried = Promise.withResolvers<void>();
    let commits = 0;
    proxy.faults = (request) => {
      if (!isCommit(request)) return undefined;
      commits += 1;
      return commits === 1 ? { kind: 'late', until: late.promise } : { kind: 'cut before' };
    };
    const headers = { 'idempotency-key': 'of-the-zombie' };
    const append = () => service.post(`${table}/insert`, appendedRow('once'), headers);
    const first = await append();
    assert.equal(first.status, 500, JSON.stringify(first.body));
    assert.equal(first.body.code, 18);
    proxy.faults = (request) => {
      if (!isCommit(request)) return undefined;
      retried.resolve();
      return { kind: 'held', until: proxy.delivered() };
    };
    const retry = append();
    await Promise.race([retried.promise, retry]);
    late.resolve();
    await retry;
    proxy.faults = () => undefined;
    await proxy.delivered();
    const { body: rows } = await service.post(`${table}/count_rows`);
    assert.equal(rows, 1, JSON.stringify((await retry).body));
  });

  test(`keeps its promises through ${faultsWanted} random faults (P1 to P6, P11)`, async (t) => {
    let faults = 0;
    for (let seed = firstSeed; faults < faultsWanted; seed++) {
      const table = `registers_${seed}`;
      assert.equal((await service.post(`/v1/table/${table}/create`, emptyTable())).status, 200);
      const direct = new HttpTarget([service.url], `Bearer ${await service.mint('lancegate:admin')}`);
      const target = new LosingTarget(direct, new Random(seed), { percent: 10, longestMs: 500 });
      const makers = new TableMakers(target);
      const clients = new RegisterClients({
        target,
        table,
        registers: 12,
        clients: 6,
        operations: 12,
        randomOf: (client) => new Random(seed * 1_000 + client),
      });
      proxy.reset();
      proxy.faults = randomFaults(new Random(seed), rates);
      await Promise.all([clients.run(), makers.run(`made_${seed}`, 3, new Random(seed))]);
      proxy.faults = () => undefined;
      await proxy.delivered();
      await clients.readAll(direct);
      const injected = [...proxy.injected.values()].reduce((sum, each) => sum + each, 0);
      faults += injected;
      const all = [...clients.history.writes.map(({ outcome }) => outcome), ...makers.outcomes];
      const outcomes = Map.groupBy(all, ({ kind }) => kind);
      t.diagnostic(
        `seed ${seed}: ${injected} faults, ${[...outcomes].map(([kind, { length }]) => `${length} ${kind}`).join(', ')}, ${clients.history.reads.length} reads`,
      );
      const found = [...clients.surprises, ...violationsOf(clients.history), ...(await makers.violations(direct))];
      assert.deepEqual(found, [], `seed ${seed}`);
    }
  });
}
