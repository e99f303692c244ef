/** What a create that failed leaves while the service runs: the maker of tables on real parts, which can fail. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Int32, vectorFromArray } from 'apache-arrow';
import type { Catalog } from '#src/catalog/port.ts';
import { openSqliteCatalog } from '#src/catalog/sqlite/open-sqlite-catalog.ts';
import { TableMaker, type WrittenTable } from '#src/create/table-maker.ts';
import { LanceEngine } from '#src/engine/lance/adapter/lance-engine.ts';
import type { Engine } from '#src/engine/port/engine.ts';
import { systemClock } from '#src/kernel/clock.ts';
import { type ErrorName, LancegateError } from '#src/kernel/errors.ts';
import type { ObjectName } from '#src/kernel/ids.ts';
import { createLogger } from '#src/telemetry/logger.ts';
import { Metrics } from '#src/telemetry/metrics.ts';
import { replacing } from '#test/fixtures/replacing.ts';
import { inChunks, sourceFrom } from '#test/fixtures/streams.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { stream } from './rows.ts';

interface Faults {
  catalog: Partial<Catalog>;
  engine: Partial<Engine>;
}

interface Maker {
  readonly catalog: Catalog;
  readonly engine: Engine;
  readonly faults: Faults;
  make(name: string): Promise<WrittenTable>;
}

async function newMaker(t: TestContext): Promise<Maker> {
  const folder = temporaryFolder((clean) => t.after(clean));
  const faults: Faults = { catalog: {}, engine: {} };
  const catalog = await openSqliteCatalog(join(folder, 'catalog.sqlite'), { holder: { command: 'a test' } });
  t.after(() => catalog.close());
  const engine = new LanceEngine({
    root: join(folder, 'tables'),
    rootOptions: {},
    scratchFolder: join(folder, 'scratch'),
    indexCacheBytes: 1 << 20,
    metadataCacheBytes: 1 << 20,
  });
  const maker = new TableMaker({
    catalog: replacingNow(catalog, () => faults.catalog),
    engine: replacingNow<Engine>(engine, () => faults.engine),
    clock: systemClock,
    newId: randomUUID,
    logger: createLogger({ level: 'error', format: 'json', destination: { write: () => undefined } }),
    metrics: new Metrics(),
  });
  const make = async (name: string): Promise<WrittenTable> => {
    const table = { namespace: [], name: name as ObjectName };
    await using creation = await maker.begin({ table, existing: undefined, properties: undefined, storageOptions: {} });
    const source = sourceFrom(inChunks(stream({ id: vectorFromArray([1, 2], new Int32()) })));
    const written = await creation.write(source.chunks(), new AbortController().signal);
    await creation.publish(written, { operation: 'create_table', outcome: {}, answer: undefined });
    return written;
  };
  return { catalog, engine, faults, make };
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
  const published = await catalog.findTable({ namespace: [], name: 't' as ObjectName });
  assert.ok(published !== undefined);
  const dataset = await engine.open({ location: published.location });
  assert.equal(await dataset.countRows(), 2);
  dataset.close();
});
