/** A replica stands still directly before it removes the files of a table; another one makes a table there; the first one wakes up. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Int32, vectorFromArray } from 'apache-arrow';
import { writerMoved } from '#src/catalog/refusals.ts';
import type { SharedCatalog } from '#src/catalog/replica-port.ts';
import { type TableCreation, TableMaker } from '#src/create/table-maker.ts';
import { systemClock } from '#src/kernel/clock.ts';
import type { Location, TableRef } from '#src/kernel/ids.ts';
import { NamesHere } from '#src/ownership/names-here.ts';
import { Trash } from '#src/table/trash.ts';
import { createLogger } from '#src/telemetry/logger.ts';
import { Metrics } from '#src/telemetry/metrics.ts';
import { createTable, register, table } from '#test/contract/catalog/fixtures.ts';
import { engineOn } from '#test/fixtures/engine-on.ts';
import { replacing } from '#test/fixtures/replacing.ts';
import { openMemoryCatalog } from '#test/fixtures/shared-catalog.ts';
import { inChunks, sourceFrom } from '#test/fixtures/streams.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { stream } from '#test/http/rows.ts';

const ref = table('t');
const published = { operation: 'create_table', outcome: {}, answer: undefined } as const;
const logger = createLogger({ level: 'error', format: 'json', destination: { write: () => undefined } });

const fill = (creation: TableCreation) => {
  const source = sourceFrom(inChunks(stream({ id: vectorFromArray([1, 2], new Int32()) })));
  return creation.write(source.chunks(), new AbortController().signal);
};

/** Replicas that make tables in one folder, and a way to stop the first after an answer of the catalog. */
async function replicas(t: TestContext) {
  const root = join(
    temporaryFolder((clean) => t.after(clean)),
    'tables',
  );
  let nowMs = 0;
  const database = await openMemoryCatalog(() => (nowMs += 1), randomUUID);
  t.after(() => database.close());
  const engine = await engineOn(t, root, {});
  t.after(() => void engine.close());

  const lease = (catalog: SharedCatalog, replica: string, durationMs: number) =>
    catalog.renewLease({ replica, address: `http://${replica}`, isLeaving: false, durationMs });
  const claimedBy = async (id: string, stopped: (catalog: SharedCatalog) => Partial<SharedCatalog>) => {
    const names = new NamesHere(id);
    const catalog = await database.catalogOf(names);
    await lease(catalog, id, 60_000);
    const claim = await catalog.claimName(ref, id);
    assert.ok('epoch' in claim);
    names.add({ ref, epoch: claim.epoch });
    const confirm = async (name: TableRef): Promise<void> => {
      if (!(await catalog.isOwner({ ref: name, epoch: claim.epoch }, id))) throw writerMoved(name);
    };
    const owners = { hold: () => undefined, confirm };
    const parts = { engine, owners, clock: systemClock, newId: randomUUID, logger, metrics: new Metrics() };
    const trash = new Trash({ ...parts, catalog, dropRetentionMs: 0 });
    const maker = new TableMaker({ ...parts, trash, catalog: replacing(catalog, stopped(catalog)) });
    return { catalog, maker, expire: () => lease(catalog, id, -1) };
  };
  const rowsAt = async (location: Location): Promise<number> => {
    const dataset = await engine.open({ location });
    try {
      return await dataset.countRows();
    } finally {
      dataset.close();
    }
  };
  return { root, claimedBy, rowsAt };
}

/** `answer` has been read when `reached` resolves, and is acted on after `wake`. */
function standingStill() {
  const [reached, woken] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const after = async <Answer>(answer: Promise<Answer>): Promise<Answer> => {
    const read = await answer;
    reached.resolve();
    await woken.promise;
    return read;
  };
  return { after, reached: reached.promise, wake: woken.resolve };
}

test('a replica that undoes a create leaves the table that the next owner made at the declared location (P1, P3)', async (t) => {
  const { claimedBy, rowsAt } = await replicas(t);
  const still = standingStill();
  const first = await claimedBy('first', (catalog) => ({
    isReserved: (creation) => still.after(catalog.isReserved(creation)),
  }));
  const declared = await first.catalog.declareTable(ref, 't.lance' as Location, {});
  const failed = await first.maker.beginDeclared(declared);
  await fill(failed);
  const undone = failed[Symbol.asyncDispose]();
  await still.reached;
  await first.expire();
  const next = await claimedBy('next', () => ({}));
  await next.maker.sweep(ref);
  await using made = await next.maker.beginDeclared(declared);
  await made.publish(await fill(made), published);
  still.wake();
  await undone;
  assert.equal((await next.catalog.findTable(ref))?.location, declared.location);
  assert.equal(await rowsAt(declared.location), 2);
});

test('a replica that drops a table leaves what the next owner has registered at its location (P1, P3)', async (t) => {
  const { root, claimedBy, rowsAt } = await replicas(t);
  const still = standingStill();
  const first = await claimedBy('first', (catalog) => ({ unfinished: (of) => still.after(catalog.unfinished(of)) }));
  const { location } = await createTable(first.catalog, ref, 't.lance' as Location);
  const removed = first.maker.discard(await first.catalog.dropTable(ref));
  await still.reached;
  await first.expire();
  const next = await claimedBy('next', () => ({}));
  await next.maker.sweep(ref);
  const anew = { table: ref, existing: undefined, properties: undefined, storageOptions: {} };
  const backup = await next.maker.begin(anew);
  const { record } = await fill(backup);
  assert.notEqual(record.location, location, 'the service itself makes no table there again');
  cpSync(join(root, record.location), join(root, location), { recursive: true });
  await backup[Symbol.asyncDispose]();
  await register(next.catalog, ref, location);
  still.wake();
  await removed;
  assert.equal(await rowsAt(location), 2);
});
