/** Old versions, tags and what commits left behind, of a table on an object store. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, describe, test } from 'node:test';
import { Int32, Table, Utf8, vectorFromArray } from 'apache-arrow';
import { removalsAtOnce } from '#src/engine/lance/durability/confirmed-removals.ts';
import { numberTakenMs } from '#src/engine/lance/durability/prune-versions.ts';
import { knownForMs } from '#src/engine/lance/store/branch-mirror.ts';
import { openStore, type StorePlace } from '#src/engine/lance/store/open-store.ts';
import type { Dataset } from '#src/engine/port/dataset.ts';
import { ownSql } from '#src/kernel/checked-sql.ts';
import { LancegateError } from '#src/kernel/errors.ts';
import type { HistoryRules } from '#src/kernel/history.ts';
import type { Location } from '#src/kernel/ids.ts';
import { ipcFile, rowsOf } from '#test/fixtures/arrow-files.ts';
import { allVersions, createDataset } from '#test/fixtures/create-dataset.ts';
import { engineOn } from '#test/fixtures/engine-on.ts';
import { mergeInto } from '#test/fixtures/engine-writes.ts';
import { azure, google, type StoreUnderTest, s3 } from '#test/fixtures/stores-under-test.ts';
import { upsertOn } from '#test/fixtures/upsert.ts';

const location = 't.lance' as Location;
const table = (...ids: number[]): Table =>
  new Table({ id: vectorFromArray(ids, new Int32()), name: vectorFromArray(ids.map(String), new Utf8()) });
const all = { keptFromVersion: Number.POSITIVE_INFINITY };
const dayMs = 24 * 3_600_000;

async function idsOf(dataset: Dataset): Promise<unknown[]> {
  const files = await Array.fromAsync(dataset.select([{ name: 'id', expression: 'id' }], undefined));
  return files.flatMap((file) => rowsOf(file).map(({ id }) => id)).sort((a, b) => Number(a) - Number(b));
}

async function upsert(dataset: Dataset, ...ids: number[]): Promise<void> {
  await dataset.refresh('to write');
  const shadow = await dataset.shadow();
  await mergeInto(shadow, { ...upsertOn('id'), useIndex: false }, ipcFile(table(...ids)));
  assert.notEqual(await shadow.commit(), 'overtaken');
}

const versionsOf = async (dataset: Dataset) => (await dataset.versionPage(allVersions)).map(({ version }) => version);

for (const { name, without, start } of [s3, azure, google]) {
  describe(`upkeep on ${name}`, { skip: without ?? false }, () => upkeepOn(without === undefined ? start : undefined));
}

async function upkeepOn(start: StoreUnderTest['start'] | undefined): Promise<void> {
  const started = await start?.(after);

  const opened = async (t: { after(clean: () => void): void }) => {
    const { storageOptions, newRoot } = started ?? assert.fail();
    const root = newRoot();
    const place = (await openStore(root, storageOptions)) ?? assert.fail();
    const engine = await engineOn(t, root, storageOptions);
    t.after(() => void engine.close());
    const dataset = await createDataset(engine, location, ipcFile(table(1, 2, 3)), {});
    return { engine, place, dataset };
  };
  const objectsIn = async ({ store, prefix }: StorePlace, folder: string) =>
    (await Array.fromAsync(store.list({ prefix: `${prefix}${location}/${folder}/` }))).map(({ key }) => key);

  test('old versions go with their files, and the newest stays whole (P5)', async (t) => {
    const { engine, place, dataset } = await opened(t);
    for (let round = 0; round < 4; round++) await upsert(dataset, 1, 2, 3);
    const supersededBeforeMs = Date.now() + numberTakenMs(place.store) + 60_000;
    const { removedVersions, removedBytes } = (await dataset.prune({ ...all, supersededBeforeMs })) ?? assert.fail();
    assert.equal(removedVersions, 4);
    assert.equal(await dataset.isWhole(1), false);
    assert.ok(removedBytes > 0);
    assert.deepEqual(await versionsOf(await engine.open({ location })), [5]);
    assert.equal((await objectsIn(place, 'data')).length, 1);
    assert.equal((await objectsIn(place, '_transactions')).length, 1);
    assert.deepEqual(await idsOf(await engine.open({ location })), [1, 2, 3]);
    await upsert(dataset, 4);
    assert.deepEqual(await idsOf(dataset), [1, 2, 3, 4]);
  });

  test('the state before a delete stays for a week with its files (P13)', async (t) => {
    const { engine, dataset } = await opened(t);
    for (const id of [4, 5]) await upsert(dataset, id);
    const before = await dataset.version();
    const shadow = await dataset.shadow();
    await shadow.deleteWhere(ownSql('id > 0'));
    await shadow.commit();
    for (const id of [6, 7, 8]) await upsert(dataset, id);
    const newest = await dataset.version();
    const rules: HistoryRules = [
      { forMs: 60_000, everyMs: 0 },
      { forMs: 7 * dayMs, everyMs: 7 * dayMs },
    ];
    for (const [days, left] of [
      [1, [before, before + 1, newest]],
      [6, [before, before + 1, newest]],
    ] as const) {
      const nowMs = Date.now() + days * dayMs;
      const history = { rules, nowMs, mostBytes: (own: number) => own };
      const next = await engine.open({ location, branch: undefined });
      await next.prune({ ...all, supersededBeforeMs: nowMs - 60_000, history });
      assert.deepEqual(await versionsOf(next), left, `after ${days} days`);
      if (days === 6) {
        assert.notEqual(await next.commitManifest({ kind: 'restore', version: before }), 'overtaken');
        assert.deepEqual(await idsOf(next), [1, 2, 3, 4, 5]);
      }
      next.close();
    }
  });

  test('the number of a young version stays taken, however short the retention is (P1)', async (t) => {
    const { place, dataset } = await opened(t);
    for (let round = 0; round < 3; round++) await upsert(dataset, 1);
    // A write is sent for a minute and a quarter at the most, and clocks differ by a minute.
    const heldMs = knownForMs + place.store.refusedAfterMs + 135_000;
    const pruned = await dataset.prune({ ...all, supersededBeforeMs: Date.now() + heldMs });
    assert.equal(pruned?.removedVersions, 0);
    assert.deepEqual(await versionsOf(dataset), [1, 2, 3, 4]);
  });

  test('a version that a tag names stays, a branch keeps the one that it starts from, and a restored one keeps its files', async (t) => {
    const { engine, place, dataset } = await opened(t);
    await upsert(dataset, 1, 2, 3, 4);
    const tag = { name: 'v/2 ä', branch: undefined, version: 2, manifestBytes: 1, requestId: randomUUID(), nowMs: 5 };
    assert.equal(await dataset.tags.create(tag), true);
    assert.equal(await dataset.tags.create({ ...tag, version: 1 }), false);
    const [stored] = await dataset.tags.list();
    assert.deepEqual([stored?.name, stored?.version, stored?.requestId], [tag.name, 2, tag.requestId]);
    await upsert(dataset, 5);
    await dataset.refresh('to write');
    assert.deepEqual(await dataset.commitManifest({ kind: 'restore', version: 1 }), { version: 4 });
    await upsert(dataset, 9);
    const supersededBeforeMs = Date.now() + numberTakenMs(place.store) + 60_000;
    const pruned = await dataset.prune({ ...all, supersededBeforeMs });
    assert.deepEqual([pruned?.removedVersions, pruned?.isHeldByTag], [3, true]);
    assert.deepEqual(await versionsOf(await engine.open({ location })), [2, 5]);
    assert.deepEqual(await idsOf(await engine.open({ location, version: 2 })), [1, 2, 3, 4]);
    assert.deepEqual(await idsOf(await engine.open({ location })), [1, 2, 3, 9]);
    await dataset.tags.remove(tag.name);
    assert.deepEqual(await dataset.tags.list(), []);
    assert.ok((await objectsIn(place, 'data')).length >= 2);
  });

  test('what a commit left that was cut short goes after a week, and nothing that a version names', async (t) => {
    const { engine, place, dataset } = await opened(t);
    const staged = `_versions/7.manifest-${randomUUID()}`;
    const orphans = ['data/0123.lance', '_deletions/0-1-5.bin', `_indices/${randomUUID()}/page`, staged];
    const keys = orphans.map((each) => `${place.prefix}${location}/${each}`);
    for (const key of keys) await place.store.put(key, Buffer.from('x'));
    const foreign = `${place.prefix}${location}/data/notes.txt`;
    await place.store.put(foreign, Buffer.from('x'));
    await dataset.prune({ ...all, supersededBeforeMs: Date.now() + 6 * dayMs });
    assert.deepEqual((await objectsIn(place, 'data')).length, 3);
    await dataset.prune({ ...all, supersededBeforeMs: Date.now() + 8 * dayMs });
    for (const key of keys) assert.equal(await place.store.get(key), undefined);
    assert.ok((await place.store.get(foreign)) !== undefined);
    assert.deepEqual(await idsOf(await engine.open({ location })), [1, 2, 3]);
  });

  test('a process that lost the table in the middle removes no more than the few that it had confirmed', async (t) => {
    const { place, dataset } = await opened(t);
    for (let number = 0; number < 2 * removalsAtOnce; number++) {
      await place.store.put(`${place.prefix}${location}/data/${number + 1000}.lance`, Buffer.from('x'));
    }
    const before = (await objectsIn(place, 'data')).length;
    let asked = 0;
    const confirm = async () => {
      if (++asked > 1) throw new LancegateError('WriterMoved', 'moved');
    };
    const pruning = dataset.prune({ ...all, supersededBeforeMs: Date.now() + 8 * dayMs, confirm });
    await assert.rejects(pruning, { kind: 'WriterMoved' });
    assert.equal(before - (await objectsIn(place, 'data')).length, removalsAtOnce);
  });

  for (const [confirmed, when, left] of [
    [0, 'before the first version went', { versions: 4, files: 4 }],
    [1, 'before the files of versions went', { versions: 1, files: 4 }],
  ] as const) {
    test(`a process that lost the table ${when} goes no further`, async (t) => {
      const { place, dataset } = await opened(t);
      for (let round = 0; round < 3; round++) await upsert(dataset, 1, 2, 3);
      let asked = 0;
      const confirm = async () => {
        if (++asked > confirmed) throw new LancegateError('WriterMoved', 'moved');
      };
      const supersededBeforeMs = Date.now() + numberTakenMs(place.store) + 60_000;
      await assert.rejects(dataset.prune({ ...all, supersededBeforeMs, confirm }), { kind: 'WriterMoved' });
      const [versions, files] = [await objectsIn(place, '_versions'), await objectsIn(place, 'data')];
      assert.deepEqual({ versions: versions.length, files: files.length }, left);
    });
  }
}
