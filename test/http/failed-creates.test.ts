/** What a create that failed leaves while the service runs: the maker of tables on real parts, which can fail. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Int32, vectorFromArray } from 'apache-arrow';
import type { Catalog } from '#src/catalog/port.ts';
import { openPostgresCatalog } from '#src/catalog/postgres/open-postgres-catalog.ts';
import { openSqliteCatalog } from '#src/catalog/sqlite/open-sqlite-catalog.ts';
import { type TableCreation, TableMaker, type WrittenTable } from '#src/create/table-maker.ts';
import { LanceEngine } from '#src/engine/lance/adapter/lance-engine.ts';
import type { Engine } from '#src/engine/port/engine.ts';
import { type Clock, systemClock } from '#src/kernel/clock.ts';
import { type ErrorName, LancegateError } from '#src/kernel/errors.ts';
import type { Location, ObjectName, TableRef } from '#src/kernel/ids.ts';
import { Trash } from '#src/table/trash.ts';
import { createLogger } from '#src/telemetry/logger.ts';
import { Metrics } from '#src/telemetry/metrics.ts';
import { sharedPostgres, withoutPostgres } from '#test/fixtures/postgres.ts';
import { PostgresProxy } from '#test/fixtures/postgres-proxy.ts';
import { replacing } from '#test/fixtures/replacing.ts';
import { inChunks, sourceFrom } from '#test/fixtures/streams.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { stream } from './rows.ts';

interface Faults {
  catalog: Partial<Catalog>;
  engine: Partial<Engine>;
}

interface Maker {
  readonly maker: TableMaker;
  readonly catalog: Catalog;
  readonly engine: Engine;
  readonly faults: Faults;
  make(name: string): Promise<WrittenTable>;
}

const openInFile = (folder: string) =>
  openSqliteCatalog(join(folder, 'catalog.sqlite'), { holder: { command: 'a test' } });

function makerOn(catalog: Catalog, engine: Engine): TableMaker {
  const logger = createLogger({ level: 'error', format: 'json', destination: { write: () => undefined } });
  const parts = { catalog, engine, clock: systemClock, newId: randomUUID, logger, metrics: new Metrics() };
  return new TableMaker({ ...parts, trash: new Trash({ ...parts, dropRetentionMs: 0 }) });
}

const fill = (creation: TableCreation): Promise<WrittenTable> => {
  const source = sourceFrom(inChunks(stream({ id: vectorFromArray([1, 2], new Int32()) })));
  return creation.write(source.chunks(), new AbortController().signal);
};
const published = { operation: 'create_table', outcome: {}, answer: undefined } as const;

/** The catalog is closed at the end. */
async function newMaker(
  t: TestContext,
  openCatalog: (folder: string) => Promise<Catalog> = openInFile,
): Promise<Maker> {
  const folder = temporaryFolder((clean) => t.after(clean));
  const faults: Faults = { catalog: {}, engine: {} };
  const catalog = await openCatalog(folder);
  t.after(() => catalog.close());
  const engine = new LanceEngine({
    root: join(folder, 'tables'),
    rootOptions: {},
    scratchFolder: join(folder, 'scratch'),
    indexCacheBytes: 1 << 20,
    metadataCacheBytes: 1 << 20,
  });
  const maker = makerOn(
    replacingNow(catalog, () => faults.catalog),
    replacingNow<Engine>(engine, () => faults.engine),
  );
  const make = async (name: string): Promise<WrittenTable> => {
    const table = { namespace: [], name: name as ObjectName };
    await using creation = await maker.begin({ table, existing: undefined, properties: undefined, storageOptions: {} });
    const written = await fill(creation);
    await creation.publish(written, published);
    return written;
  };
  return { maker, catalog, engine, faults, make };
}

/** As `replacing`, with methods that change. */
const replacingNow = <Target extends object>(target: Target, methods: () => Partial<Target>): Target =>
  new Proxy(target, { get: (_, name) => replacing(target, methods())[name as keyof Target] });

const fullDisk = () => Promise.reject(new LancegateError('Internal', 'a full disk'));
const refusedAs = (kind: ErrorName) => (error: unknown) => error instanceof LancegateError && error.kind === kind;

test('a create that failed and could not be undone, on a full disk, gives its name free once it can be', async (t) => {
  const { catalog, faults, make } = await newMaker(t);
  faults.catalog = { publishCreation: fullDisk, abandonCreation: fullDisk };
  await assert.rejects(make('t'), refusedAs('Internal'));
  await assert.rejects(make('t'), refusedAs('ConcurrentCreate'));
  faults.catalog = {};
  assert.equal((await make('t')).rows, 2);
  assert.deepEqual(await catalog.unfinished(), { creations: [], discarded: [] });
});

test('so does one whose files could not be removed, when any other table is created', async (t) => {
  const { catalog, faults, make } = await newMaker(t);
  faults.catalog = { publishCreation: fullDisk };
  faults.engine = { remove: fullDisk };
  for (const name of ['a', 'b']) await assert.rejects(make(name), refusedAs('Internal'));
  assert.equal((await catalog.unfinished()).creations.length, 2);
  faults.catalog = {};
  faults.engine = {};
  await make('c');
  assert.deepEqual(await catalog.unfinished(), { creations: [], discarded: [] });
});

test('one that was published, though the catalog failed on the way back, keeps its rows (P1)', async (t) => {
  const { catalog, engine, faults, make } = await newMaker(t);
  faults.catalog = {
    publishCreation: async (...publication) => {
      await catalog.publishCreation(...publication);
      return fullDisk();
    },
  };
  await assert.rejects(make('t'), refusedAs('Internal'));
  assert.equal(await rowsOf({ catalog, engine }), 2);
});

const nameOfTable: TableRef = { namespace: [], name: 't' as ObjectName };

/** Of the files of the table; undefined without a table. */
async function rowsOf({ catalog, engine }: Pick<Maker, 'catalog' | 'engine'>): Promise<number | undefined> {
  const published = await catalog.findTable(nameOfTable);
  if (published === undefined) return undefined;
  const dataset = await engine.open({ location: published.location });
  try {
    return await dataset.countRows();
  } finally {
    dataset.close();
  }
}

/** Limits and pauses pass in a twentieth of their time, and in no less than a second: so long a server may take for an answer on a busy machine. */
const hurried: Clock = {
  nowMs: () => systemClock.nowMs() * 20,
  schedule: (afterMs, run) => systemClock.schedule(Math.max(afterMs / 20, Math.min(afterMs, 1_000)), run),
};

test('so does one that PostgreSQL commits long after its COMMIT was lost (P1)', {
  skip: withoutPostgres ?? false,
}, async (t) => {
  const server = await sharedPostgres();
  const url = new URL(await server.newDatabase());
  const proxy = await PostgresProxy.open(server.port);
  t.after(() => proxy[Symbol.asyncDispose]());
  url.port = String(proxy.port);
  // As long as a statement may take: the transaction is still open when its COMMIT arrives, however slow the machine.
  const limits = { idleWithinMs: 30_000 };
  const { catalog, engine, make, faults } = await newMaker(t, () =>
    openPostgresCatalog({ url: url.href }, { clock: hurried, limits }),
  );
  const [isGivenUp, isCommitted] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  faults.catalog = {
    publishCreation: (...publication) => {
      proxy.failCommit({ kind: 'late', until: isGivenUp.promise.then(isCommitted.resolve) });
      return catalog.publishCreation(...publication);
    },
  };
  await assert.rejects(make('t'), refusedAs('Internal'));
  isGivenUp.resolve();
  await isCommitted.promise;
  faults.catalog = {};
  await make('u');
  assert.equal(await rowsOf({ catalog, engine }), 2);
});

test('one that another replica undid removes nothing of the create that fills the declared location since (P1)', async (t) => {
  const { maker, catalog, engine } = await newMaker(t);
  const other = makerOn(catalog, engine);
  const existing = await catalog.declareTable(nameOfTable, 't.lance' as Location, {});
  const frozen = await maker.beginDeclared(existing);
  await other.sweep(nameOfTable);
  await using next = await other.beginDeclared(existing);
  const written = await fill(next);
  await frozen[Symbol.asyncDispose]();
  await next.publish(written, published);
  assert.equal(await rowsOf({ catalog, engine }), 2);
});
