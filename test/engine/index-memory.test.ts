import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { Int32, Table, vectorFromArray } from 'apache-arrow';
import { EngineCaches } from '#src/engine/lance/adapter/engine-caches.ts';
import { LanceEngine } from '#src/engine/lance/adapter/lance-engine.ts';
import type { Dataset } from '#src/engine/port/dataset.ts';
import type { Location } from '#src/kernel/ids.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { createIndex, dropIndex } from '#test/fixtures/create-index.ts';
import { hideIndex } from '#test/fixtures/hide-index.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { upsertOn } from '#test/fixtures/upsert.ts';

const MiB = 2 ** 20;
const location = 't.lance' as Location;
const upsert = upsertOn('id');
const rows = (ids: readonly number[]) => ipcFile(new Table({ id: vectorFromArray(ids, new Int32()) }));

const numbers = (count: number): number[] => Array.from({ length: count }, (_, i) => i);

/** A table whose index lies in several pages, of 4,096 rows each, and `hideIndex` so that no page of it can be read. */
async function indexedTable(t: TestContext, { count = 20_000, indexCacheBytes = 64 * MiB } = {}) {
  const folder = temporaryFolder((clean) => t.after(clean));
  const caches = { indexCacheBytes, metadataCacheBytes: MiB };
  const engine = new LanceEngine({ root: folder, rootOptions: {}, scratchFolder: join(folder, 'scratch'), ...caches });
  const dataset = await createDataset(engine, location, rows(numbers(count)), {});
  t.after(() => dataset.close());
  await createIndex(dataset, 'id');
  return { engine, dataset, folder, hideIndex: () => hideIndex(join(folder, location)) };
}

/** Of keys in every page, and one new one. */
async function mergeEverywhere(dataset: Dataset): Promise<readonly [updated: number, inserted: number]> {
  const shadow = await dataset.shadow();
  try {
    const totals = await shadow.merge(upsert, rows([1, 5_000, 9_000, 13_000, 17_000, -1]), undefined);
    assert.notEqual(await shadow.commit(), 'overtaken');
    return [totals.numUpdatedRows, totals.numInsertedRows];
  } finally {
    shadow.discard();
  }
}

describe('an index in memory (P8)', () => {
  test('is not read again by merges', async (t) => {
    const { dataset, hideIndex } = await indexedTable(t);
    assert.equal(await dataset.warmIndex('id'), true);
    hideIndex();
    assert.deepEqual(await mergeEverywhere(dataset), [5, 1]);
  });

  test('has to be read by them where it was not before', async (t) => {
    const { dataset, hideIndex } = await indexedTable(t);
    hideIndex();
    await assert.rejects(mergeEverywhere(dataset));
  });

  test('is not read where there is no room for all of it', async (t) => {
    const { dataset, hideIndex } = await indexedTable(t, { indexCacheBytes: 0.25 * MiB });
    assert.equal(await dataset.warmIndex('id'), false);
    assert.equal(dataset.isOutgrown, false);
    hideIndex();
    await assert.rejects(mergeEverywhere(dataset));
  });

  test('is not asked for where there is none', async (t) => {
    const { dataset, folder } = await indexedTable(t);
    await dropIndex(folder, dataset, 'id');
    assert.equal(await dataset.warmIndex('id'), true);
    assert.equal(await dataset.warmIndex('other'), true);
    assert.deepEqual(await mergeEverywhere(dataset), [5, 1]);
  });

  test('has room as it grows, for datasets that are opened then; those before go on as they were', async (t) => {
    const { engine, dataset, hideIndex } = await indexedTable(t, { count: 700_000 });
    assert.equal(dataset.isOutgrown, false);
    await dataset.warmIndex('id');
    assert.equal(dataset.isOutgrown, true);
    assert.deepEqual(await mergeEverywhere(dataset), [5, 1]);
    hideIndex();
    const later = await engine.open({ location });
    assert.equal(later.isOutgrown, false);
    assert.deepEqual(await mergeEverywhere(later), [6, 0]);
  });

  test('leaves its room to others when its table is removed', async (t) => {
    const { engine, dataset } = await indexedTable(t, { count: 400_000 });
    await dataset.warmIndex('id');
    await engine.remove(location);
    const other = await createDataset(engine, 'other.lance' as Location, rows(numbers(400_000)), {});
    await createIndex(other, 'id');
    await other.warmIndex('id');
    assert.equal(other.isOutgrown, false, 'there is room for one');
    const third = await createDataset(engine, 'third.lance' as Location, rows(numbers(400_000)), {});
    await createIndex(third, 'id');
    await third.warmIndex('id');
    assert.equal(third.isOutgrown, true, 'and not for two');
  });
});

describe('the room for indexes (P7)', () => {
  const limits = { indexCacheBytes: 100 * MiB, metadataCacheBytes: MiB };
  const other = 'other.lance' as Location;

  test('is made when they need it, and twice as much as before at least', () => {
    const caches = new EngineCaches(limits);
    const { session } = caches;
    assert.ok(caches.makeRoom(location, 'id', 8 * MiB));
    assert.equal(caches.session, session);
    assert.ok(caches.makeRoom(location, 'id', 12 * MiB));
    const second = caches.session;
    assert.notEqual(second, session);
    assert.ok(caches.makeRoom(location, 'id', 21 * MiB));
    assert.equal(caches.session, second, '32 MiB hold it');
    assert.ok(caches.makeRoom(other, 'id', 21 * MiB));
    assert.notEqual(caches.session, second, 'and not both');
  });

  test('counts no index twice, and none of a dataset that is gone', () => {
    const caches = new EngineCaches(limits);
    const { session } = caches;
    for (let i = 0; i < 100; i += 1) caches.makeRoom(location, 'id', 6 * MiB);
    assert.equal(caches.session, session);
    caches.forget(location);
    caches.makeRoom(other, 'id', 6 * MiB);
    assert.equal(caches.session, session);
    caches.makeRoom(location, 'id', 6 * MiB);
    assert.notEqual(caches.session, session);
  });

  test('has an end', () => {
    const caches = new EngineCaches(limits);
    assert.ok(caches.makeRoom(location, 'id', 90 * MiB));
    const { session } = caches;
    assert.ok(caches.makeRoom(other, 'id', 90 * MiB));
    assert.equal(caches.makeRoom(other, 'id', 101 * MiB), false);
    assert.equal(caches.session, session);
  });
});
