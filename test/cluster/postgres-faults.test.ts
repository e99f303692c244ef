/** What becomes of the catalog's transactions where connections, answers and the server are lost (P1, P3, P6). */
import assert from 'node:assert/strict';
import { before, describe, type TestContext, test } from 'node:test';
import { sql } from 'kysely';
import type { Catalog } from '#src/catalog/port.ts';
import {
  openPostgresCatalog,
  openPostgresSession,
  type PostgresCatalogOptions,
} from '#src/catalog/postgres/open-postgres-catalog.ts';
import { askAfterMs } from '#src/catalog/postgres/server-watch.ts';
import type { CatalogDb } from '#src/catalog/queries/catalog-db.ts';
import { type Clock, systemClock } from '#src/kernel/clock.ts';
import { leaseTimes } from '#src/ownership/replica-lease.ts';
import { path, place, publicationOf, rejects, table, transactionOf } from '#test/contract/catalog/fixtures.ts';
import { lastFirst } from '#test/fixtures/after-suite.ts';
import { type PostgresServer, sharedPostgres, startPostgres, withoutPostgres } from '#test/fixtures/postgres.ts';
import { PostgresProxy } from '#test/fixtures/postgres-proxy.ts';
import { eventually } from '#test/http/eventually.ts';

/** Limits and pauses pass in a twentieth of their time. */
const hurried: Clock = {
  nowMs: () => systemClock.nowMs() * 20,
  schedule: (afterMs, run) => systemClock.schedule(afterMs / 20, run),
};

describe('a PostgreSQL catalog', { skip: withoutPostgres ?? false }, () => {
  let server: PostgresServer;
  before(async () => {
    server = await sharedPostgres();
  });

  const nameOf = (url: string): string => new URL(url).pathname.slice(1);

  async function behindProxy(t: TestContext): Promise<{ catalog: Catalog; proxy: PostgresProxy; direct: Catalog }> {
    const after = lastFirst((clean) => t.after(clean));
    const url = await server.newDatabase();
    const proxy = await PostgresProxy.open(server.port);
    after(() => proxy[Symbol.asyncDispose]());
    const direct = await openPostgresCatalog({ url });
    after(() => direct.close());
    const limits = { acquireWithinMs: 1_000, statementWithinMs: 2_000 };
    const catalog = await openPostgresCatalog(
      { url: server.urlOf(nameOf(url), proxy.port) },
      { clock: hurried, limits },
    );
    after(() => catalog.close());
    return { catalog, proxy, direct };
  }

  async function openSession(t: TestContext, options: PostgresCatalogOptions = {}) {
    const after = lastFirst((clean) => t.after(clean));
    const session = await openPostgresSession({ url: await server.newDatabase() }, options);
    after(() => session.close());
    return session;
  }

  test('reports what was committed as done, though the answer of COMMIT was lost', async (t) => {
    const { catalog, proxy, direct } = await behindProxy(t);
    proxy.failCommit({ kind: 'answer lost' });
    assert.deepEqual(await catalog.createNamespace(path('a'), { b: 'c' }), { path: ['a'], properties: { b: 'c' } });
    assert.equal(proxy.faultsLeft, 0);
    assert.deepEqual((await direct.findNamespace(path('a')))?.properties, { b: 'c' });
    proxy.failCommit({ kind: 'answer lost' });
    await rejects(catalog.createNamespace(path('a'), {}), 'NamespaceAlreadyExists');
  });

  test('does once what a COMMIT asked for that never arrived', async (t) => {
    const { catalog, proxy, direct } = await behindProxy(t);
    proxy.failCommit({ kind: 'never sent' });
    await catalog.createNamespace(path('a'), {});
    assert.equal(proxy.faultsLeft, 0);
    assert.deepEqual(await direct.namespacesUnder([]), [['a'], []]);
  });

  test('records and publishes once, whichever COMMIT is lost', async (t) => {
    const { catalog, proxy, direct } = await behindProxy(t);
    for (const kind of ['answer lost', 'never sent'] as const) {
      const creation = await direct.reserveCreation(table(kind), undefined, place(kind));
      for (const _ of [1, 2]) proxy.failCommit({ kind });
      const made = await catalog.publishCreation(creation, publicationOf(`create ${kind}`));
      assert.deepEqual(await direct.findTable(table(kind)), made);
      for (const _ of [1, 2]) proxy.failCommit({ kind });
      const record = transactionOf(`merge ${kind}`, { tableId: made.id, ref: made.ref });
      await catalog.recordTransactions([record]);
      assert.deepEqual(await direct.findTransaction(record.id), record);
      assert.equal(proxy.faultsLeft, 0);
    }
    assert.deepEqual(await direct.unfinished(), { creations: [], discarded: [] });
  });

  test('repeats a transaction whose backend was terminated half-way', async (t) => {
    const session = await openSession(t);
    let attempts = 0;
    await session.transact(async (db: CatalogDb) => {
      attempts += 1;
      await sql`insert into locations (location, state) values (${`attempt ${attempts}`}, 'live')`.execute(db);
      if (attempts === 1) await sql`select pg_terminate_backend(pg_backend_pid())`.execute(db);
    });
    const rows = await session.read((db) => db.selectFrom('locations').select('location').execute());
    assert.deepEqual(rows, [{ location: 'attempt 2' }]);
  });

  test('says that it is not available, with nothing written, where every backend is terminated', async (t) => {
    const session = await openSession(t);
    const dies = (db: CatalogDb) => sql`select pg_terminate_backend(pg_backend_pid())`.execute(db);
    await assert.rejects(session.transact(dies), { kind: 'CatalogUnavailable', retryAfterSeconds: 2 });
    await assert.rejects(session.read(dies), { kind: 'CatalogUnavailable' });
    assert.equal((await session.read((db) => db.selectFrom('namespaces').select('path').execute())).length, 1);
  });

  for (const { state, kind } of [
    { state: '53100', kind: 'StorageFull' },
    { state: '53200', kind: 'CatalogUnavailable' },
    { state: '25006', kind: 'CatalogUnavailable' },
    { state: '40001', kind: 'SlowDown' },
    { state: '40P01', kind: 'SlowDown' },
    { state: '58030', kind: 'Internal' },
  ]) {
    test(`answers ${kind} where the server keeps failing with ${state}`, async (t) => {
      const session = await openSession(t, { clock: hurried });
      const raise = sql.raw(`do $$ begin raise exception using errcode = '${state}'; end $$`);
      await assert.rejects(
        session.transact((db) => raise.execute(db)),
        (error) => {
          assert.deepEqual((error as { kind?: unknown }).kind, kind);
          assert.equal((error as { internal?: { sqlState?: unknown } }).internal?.sqlState, state);
          return true;
        },
      );
    });
  }

  test('ends a statement that takes too long', async (t) => {
    const session = await openSession(t, { limits: { statementWithinMs: 200 } });
    const slow = (db: CatalogDb) => sql`select pg_sleep(60)`.execute(db);
    await assert.rejects(session.transact(slow), { kind: 'CatalogUnavailable' });
  });

  test('waits for no process that stands still in a transaction: its locks end before its lease', async (t) => {
    const after = lastFirst((clean) => t.after(clean));
    const url = await server.newDatabase();
    const open = async () => {
      const session = await openPostgresSession({ url });
      after(() => session.close());
      return session;
    };
    const [frozen, other] = [await open(), await open()];
    const idle = await other.transact((db) =>
      sql<{ ms: number }>`select setting::int as ms from pg_settings
        where name = 'idle_in_transaction_session_timeout'`.execute(db),
    );
    assert.ok(idle.rows[0]!.ms < leaseTimes.durationMs, `${idle.rows[0]!.ms} ms`);
    const name = 'a' as never;
    await other.transact((db) =>
      db.insertInto('table_owners').values({ path: name, replica: 'frozen', epoch: 1, is_settled: 0 }).execute(),
    );
    const [locked, thawed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const standing = frozen.transact(async (db) => {
      await db.selectFrom('table_owners').select('epoch').where('path', '=', name).forShare().execute();
      locked.resolve();
      await thawed.promise;
    });
    await locked.promise;
    await other
      .transact((db) => db.updateTable('table_owners').set({ epoch: 2 }).where('path', '=', name).execute())
      .finally(thawed.resolve);
    await standing;
  });

  test('does not wait longer for a connection than it may (P7)', async (t) => {
    const session = await openSession(t, { limits: { maxConnections: 1, acquireWithinMs: 1_000 } });
    const refused = Promise.withResolvers<void>();
    const holding = session.transact(() => refused.promise);
    await assert.rejects(
      session.read((db) => sql`select 1`.execute(db)),
      { kind: 'CatalogUnavailable' },
    );
    refused.resolve();
    await holding;
  });

  test('waits for a lock as long as the server answers others', async (t) => {
    const after = lastFirst((clean) => t.after(clean));
    const url = await server.newDatabase();
    let questions = 0;
    const impatient: Clock = {
      nowMs: systemClock.nowMs,
      schedule: (afterMs, run) => {
        if (afterMs === askAfterMs) questions += 1;
        return systemClock.schedule(afterMs === askAfterMs ? 50 : afterMs, run);
      },
    };
    const session = await openPostgresSession({ url }, { clock: impatient });
    after(() => session.close());
    const reading = await server.asAdmin(async (client) => {
      await client.query('begin; lock table namespaces in access exclusive mode');
      const before = questions;
      const waiting = session.read((db) => db.selectFrom('namespaces').select('path').execute());
      await eventually('the server was asked again and again', () => questions > before + 3);
      return { waiting };
    }, nameOf(url));
    assert.equal((await reading.waiting).length, 1);
  });

  test('says that the outcome is not known, where the server falls silent when it is to commit (P6)', async (t) => {
    const { catalog, proxy } = await behindProxy(t);
    const fallSilent = async () => {
      proxy.isSilent = true;
    };
    proxy.failCommit({ kind: 'answer lost', hook: fallSilent });
    await rejects(catalog.createNamespace(path('a'), {}), 'Internal');
    proxy.isSilent = false;
  });

  test('gives up a server that falls silent, and works again when it speaks', async (t) => {
    const { catalog, proxy } = await behindProxy(t);
    await catalog.createNamespace(path('a'), {});
    proxy.isSilent = true;
    await rejects(catalog.findNamespace(path('a')), 'CatalogUnavailable');
    await rejects(catalog.createNamespace(path('b'), {}), 'CatalogUnavailable');
    proxy.isSilent = false;
    const isThere = () =>
      catalog.findNamespace(path('a')).then(
        (found) => found !== undefined,
        () => false,
      );
    await eventually('the catalog works again', isThere);
    await catalog.createNamespace(path('b'), {});
  });
});

describe('a PostgreSQL server that is stopped', { skip: withoutPostgres ?? false }, () => {
  test('is missed with 503, and the catalog works when it is back, with what was under way recorded', async (t) => {
    const after = lastFirst((clean) => t.after(clean));
    const server = await startPostgres(after);
    const url = await server.newDatabase();
    await using proxy = await PostgresProxy.open(server.port);
    const catalog = await openPostgresCatalog({ url: server.urlOf(new URL(url).pathname.slice(1), proxy.port) });
    await catalog.createNamespace(path('a'), {});
    const stopped = Promise.withResolvers<void>();
    const stop = async () => {
      await server.stop('immediate');
      stopped.resolve();
    };
    proxy.failCommit({ kind: 'answer lost', hook: stop });
    const recording = catalog.recordTransactions([transactionOf('1')]);
    await stopped.promise;
    await rejects(catalog.createNamespace(path('b'), {}), 'CatalogUnavailable');
    await rejects(catalog.findNamespace(path('a')), 'CatalogUnavailable');
    await server.start();
    await recording;
    assert.deepEqual(await catalog.findTransaction(transactionOf('1').id), transactionOf('1'));
    await catalog.createNamespace(path('b'), {});
    const restart = async () => {
      await stop();
      await server.start();
    };
    proxy.failCommit({ kind: 'answer lost', hook: restart });
    await rejects(catalog.createNamespace(path('c'), {}), 'Internal');
    assert.notEqual(await catalog.findNamespace(path('c')), undefined, 'it was done, and nobody said that it was not');
    await catalog.close();
  });
});
