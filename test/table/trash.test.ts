/** The trash beside others that change what is in it: on the real engine and catalog. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { type TestContext, test } from 'node:test';
import { Int32, Table, vectorFromArray } from 'apache-arrow';
import { writerMoved } from '#src/catalog/refusals.ts';
import { TableMaker } from '#src/create/table-maker.ts';
import { systemClock } from '#src/kernel/clock.ts';
import { neverAborts } from '#src/kernel/read-write-lock.ts';
import { purgeOldest } from '#src/operations/tables/purge-dropped-tables.ts';
import { TableLocks } from '#src/table/table-locks.ts';
import { EmbeddedOwners } from '#src/table/table-owners.ts';
import { Trash } from '#src/table/trash.ts';
import { createLogger } from '#src/telemetry/logger.ts';
import { Metrics } from '#src/telemetry/metrics.ts';
import { publishTable } from '#test/fixtures/published-table.ts';

async function droppedTable(t: TestContext) {
  const published = await publishTable(t, new Table({ id: vectorFromArray([1, 2], new Int32()) }));
  const { catalog, engine, ref, tableId: id, folder, location } = published;
  published.dataset.close();
  const logger = createLogger({ level: 'error', format: 'json', destination: { write: () => undefined } });
  const parts = { catalog, engine, clock: systemClock, newId: randomUUID, logger, metrics: new Metrics() };
  const trash = new Trash({ ...parts, dropRetentionMs: 60_000 });
  const maker = new TableMaker({ ...parts, trash });
  const locks = new TableLocks(10);
  await catalog.dropTable(ref, undefined, trash.keeps());
  const undrop = async (): Promise<void> => {
    await trash.bringBack({ id, ref, location });
    await catalog.undropTable(ref, id, ref);
  };
  const files = { id, ref, location };
  return { ...parts, trash, maker, locks, ref, folder, files, undrop };
}

test('a purge that waited while the table came back leaves its files alone (P1)', async (t) => {
  const dropped = await droppedTable(t);
  const { trash, locks, ref, folder, files, undrop } = dropped;
  await trash.putAside(files);
  assert.equal(existsSync(folder), false);
  const leave = await locks.lockExclusive(ref, neverAborts);
  const purged = purgeOldest({ ...dropped, owners: new EmbeddedOwners() })();
  while (locks.waitingExclusive === 0) await new Promise(setImmediate);
  await undrop();
  leave();
  assert.equal(await purged, true);
  assert.equal(existsSync(folder), true);
});

test('the files of a table that came back are not put aside by who dropped it before (P1)', async (t) => {
  const { trash, folder, files, undrop } = await droppedTable(t);
  await undrop();
  await trash.putAside(files);
  assert.equal(existsSync(folder), true);
});

test('a replica that lost the name moves no files, and the next owner does (P1)', async (t) => {
  const { trash: next, folder, files, ref, ...parts } = await droppedTable(t);
  const owners = { confirm: () => Promise.reject(writerMoved(ref)) };
  await new Trash({ ...parts, owners, dropRetentionMs: 60_000 }).putAside(files);
  assert.equal(existsSync(folder), true);
  await next.sweep(ref);
  assert.equal(existsSync(folder), false);
});
