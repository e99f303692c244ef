import assert from 'node:assert/strict';
import { dirname } from 'node:path';
import { type TestContext, test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import { Int32, Table, vectorFromArray } from 'apache-arrow';
import type { Dataset } from '#src/engine/port/dataset.ts';
import type { Engine, OpenRequest } from '#src/engine/port/engine.ts';
import { btreeOn } from '#src/engine/port/index-spec.ts';
import type { Layout, PreparedCommit } from '#src/engine/port/upkeep.ts';
import { systemClock } from '#src/kernel/clock.ts';
import { LancegateError } from '#src/kernel/errors.ts';
import { MaintenanceActions } from '#src/maintenance/act/maintenance-actions.ts';
import { Consumers } from '#src/table/consumers.ts';
import { RecoveryMarks } from '#src/table/recovery-marks.ts';
import { TableLocks } from '#src/table/table-locks.ts';
import type { TableOwners } from '#src/table/table-owners.ts';
import { VersionPins } from '#src/table/version-pins.ts';
import { Metrics } from '#src/telemetry/metrics.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { allVersions } from '#test/fixtures/create-dataset.ts';
import { appendTo } from '#test/fixtures/engine-writes.ts';
import { publishTable } from '#test/fixtures/published-table.ts';
import { replacing } from '#test/fixtures/replacing.ts';

const inAnHour = (): number => Date.now() + 3_600_000;
const nextTurnOfTheLoop = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const never = new AbortController().signal;
const rows = (...ids: readonly number[]): Table => new Table({ id: vectorFromArray(ids, new Int32()) });

/** A table of four fragments of one row each, with some of the methods of its datasets replaced. */
async function maintained(
  t: TestContext,
  replaced: (opened: Dataset) => Partial<Dataset> = () => ({}),
  owners?: Pick<TableOwners, 'confirm'>,
) {
  const table = await publishTable(t, rows(0));
  const { catalog, engine, dataset, ref, tableId, location } = table;
  for (const id of [1, 2, 3]) await appendTo(dataset, ipcFile(rows(id)));
  const open = async (request: OpenRequest): Promise<Dataset> => {
    const opened = await engine.open(request);
    return replacing(opened, replaced(opened));
  };
  const locks = new TableLocks(10);
  const recoveryMarks = new RecoveryMarks({ catalog, engine, ...(owners && { owners }) });
  const pins = new VersionPins();
  const actions = new MaintenanceActions({
    pins,
    consumers: new Consumers({ clock: systemClock, metrics: new Metrics(), consumerRetentionMs: 60_000 }),
    catalog,
    engine: replacing<Engine>(engine, { open }),
    locks,
    recoveryMarks,
  });
  const target = { table: ref, tableId, branch: undefined, location };
  const layout = async () => {
    await dataset.refresh();
    return dataset.layout();
  };
  return { ...table, actions, locks, pins, target, layout };
}

for (const [title, prepare] of [
  ['are compacted', (opened: Dataset) => opened.prepareCompaction([1, 3])],
  ['get an index', (opened: Dataset) => opened.prepareIndex(btreeOn('id'))],
] as const) {
  test(`writers go on while rows ${title}, wait for its commit, and go on while it is made durable (P3, P8)`, {
    timeout: 20_000,
  }, async (t) => {
    const events: string[] = [];
    let writing: Promise<void> | undefined;
    const write = async (): Promise<void> => {
      const release = await locks.lockExclusively();
      events.push('a writer has the lock');
      release();
    };
    const prepared = async (opened: Dataset): Promise<PreparedCommit> => {
      const real = await prepare(opened);
      await write();
      const commit = async () => {
        assert.equal((await table.catalog.recoveryMarks()).length, 1, 'a crash from here on is recovered from');
        writing = write();
        await nextTurnOfTheLoop();
        const outcome = (await real?.commit()) ?? 'overtaken';
        events.push('committed');
        return outcome;
      };
      return { commit, discard: () => real?.discard() };
    };
    const table = await maintained(t, (opened) => ({
      prepareCompaction: () => prepared(opened),
      prepareIndex: () => prepared(opened),
      sync: async (after?: number) => {
        if (writing !== undefined) {
          await writing;
          events.push('made durable');
        }
        return opened.sync(after);
      },
    }));
    const { actions, target, ref } = table;
    const locks = { lockExclusively: () => lockBranch(table.locks, ref) };
    if (title === 'get an index') await actions.buildIndex(target, btreeOn('id'), 'merges on the column', never);
    else await actions.compact(target, { reason: 'small fragments', fragments: [1, 3] }, never);
    await writing;
    assert.deepEqual(events, ['a writer has the lock', 'committed', 'a writer has the lock', 'made durable']);
    const { fragments, indexes } = await table.layout();
    if (title === 'get an index')
      assert.deepEqual(
        indexes.map(({ spec, unindexedRows }) => [spec, unindexedRows]),
        [[btreeOn('id'), 0]],
      );
    else
      assert.deepEqual(
        fragments.map(({ id }) => id),
        [0, 2, 4],
      );
  });
}

async function lockBranch(locks: TableLocks, table: Parameters<TableLocks['lockShared']>[0]) {
  const releaseTable = await locks.lockShared(table, never);
  const releaseBranch = await locks.lockBranch(table, undefined, never);
  return () => {
    releaseBranch();
    releaseTable();
  };
}

test('a compaction that commits meanwhile rule out fails, and lets writers in (P8)', async (t) => {
  const move = { commit: async () => 'overtaken' as const, discard: () => undefined };
  const { actions, target, locks, ref } = await maintained(t, () => ({ prepareCompaction: async () => move }));
  const compaction = actions.compact(target, { reason: 'small fragments', fragments: [0] }, never);
  await assert.rejects(compaction, { kind: 'ConcurrentModification' });
  (await lockBranch(locks, ref))();
});

const uncovered = ({ indexes }: Layout) => indexes.map(({ name, unindexedRows }) => [name, unindexedRows]);

for (const work of ['prepareCompaction', 'prepareIndex'] as const) {
  test(`what a crash leaves of ${work} is looked for, also where this process has committed nothing (P1)`, async (t) => {
    const cut = new Error('the process was killed');
    let marks = 0;
    const table = await maintained(t, () => ({
      [work]: async () => {
        marks = (await table.catalog.recoveryMarks()).length;
        throw cut;
      },
    }));
    await assert.rejects(
      work === 'prepareIndex'
        ? table.actions.buildIndex(table.target, btreeOn('id'), 'by hand', never)
        : table.actions.compact(table.target, { reason: 'by hand', fragments: 'all' }, never),
      cut,
    );
    assert.equal(marks, 1);
  });
}

test('a compaction makes a version only where there is something to compact (P8)', async (t) => {
  const { actions, target, dataset, layout } = await maintained(t);
  const first = await actions.compact(target, { reason: 'quiet', fragments: 'all' }, never);
  assert.deepEqual([first?.isMade, first?.removedFragments], [true, 3]);
  await layout();
  const before = await dataset.version();
  const second = await actions.compact(target, { reason: 'quiet', fragments: 'all' }, never);
  assert.deepEqual([second?.isMade, second?.removedFragments], [false, 0]);
  await layout();
  assert.equal(await dataset.version(), before, 'nothing was to be done');
});

/** The engine drops the index while it is being built again. */
const droppedMeanwhile = (folder: () => string, name: string) => (opened: Dataset) => ({
  prepareIndex: async (...build: Parameters<Dataset['prepareIndex']>) => {
    const prepared = await opened.prepareIndex(...build);
    await (await (await connect(dirname(folder()))).openTable('t')).dropIndex(name);
    return prepared;
  },
});

test('an index that a client drops while it is built again stays dropped (P5)', async (t) => {
  const table = await maintained(
    t,
    droppedMeanwhile(() => table.folder, 'own'),
  );
  const spec = { ...btreeOn('id'), name: 'own' };
  await (await (await connect(dirname(table.folder))).openTable('t')).createIndex('id', { name: 'own' });
  assert.deepEqual(uncovered(await table.layout()), [['own', 0]]);
  assert.equal(await table.actions.buildIndex(table.target, spec, 'by hand', never), undefined);
  assert.deepEqual(uncovered(await table.layout()), []);
});

test('an index that merges ask for is not built beside one that a client builds meanwhile (P5)', async (t) => {
  const table = await maintained(t, (opened) => ({
    prepareIndex: async (...build: Parameters<Dataset['prepareIndex']>) => {
      const prepared = await opened.prepareIndex(...build);
      await (await (await connect(dirname(table.folder))).openTable('t')).createIndex('id', { name: 'own' });
      return prepared;
    },
  }));
  const report = await table.actions.buildIndex(table.target, btreeOn('id'), 'merges on the column', never);
  assert.equal(report, undefined);
  assert.deepEqual(uncovered(await table.layout()), [['own', 0]]);
});

/** As of indexes that this service cannot build. */
const withoutSpecs = (layout: Layout): Layout => ({
  ...layout,
  indexes: layout.indexes.map((index) => ({ ...index, spec: undefined })),
});

test('a table with an index that we cannot build again is compacted by the engine, which keeps that complete (P8)', async (t) => {
  const { actions, target, dataset, folder, layout } = await maintained(t, (opened) => ({
    layout: async () => withoutSpecs(await opened.layout()),
  }));
  await (await (await connect(dirname(folder))).openTable('t')).createIndex('id', { name: 'other' });
  await dataset.refresh();
  await appendTo(dataset, ipcFile(rows(4)));
  const report = await actions.compact(target, { reason: 'by hand', fragments: 'all' }, never);
  assert.ok(Number(report?.lockedMs) > 0);
  assert.deepEqual(uncovered(await layout()), [['other', 0]]);
});

test('old versions are removed up to the one that a power cut goes back to (P3, P8)', async (t) => {
  const { actions, target, dataset, layout } = await maintained(t);
  const report = await actions.prune(target, 'old versions', inAnHour());
  assert.deepEqual([report?.removedVersions, report?.isHeldByTag], [3, false]);
  await layout();
  assert.equal((await dataset.versionPage(allVersions)).length, 1);
});

test('versions that a client deletes stay from the one on that an index is built from', async (t) => {
  const { actions, pins, target, dataset, layout } = await maintained(t);
  const all = [{ from: 0, before: Number.POSITIVE_INFINITY }];
  const unpin = pins.pin(target, 3, await layout());
  assert.equal((await actions.prune(target, 'by hand', inAnHour(), all))?.removedVersions, 2);
  unpin();
  assert.equal((await actions.prune(target, 'by hand', inAnHour(), [{ from: 0, before: 3 }]))?.removedVersions, 0);
  assert.equal((await actions.prune(target, 'by hand', inAnHour(), all))?.removedVersions, 1);
  await layout();
  assert.equal((await dataset.versionPage(allVersions)).length, 1);
});

test('a compaction leaves the fragments that an index is built from, and compacts those that came since', async (t) => {
  const { actions, pins, target, dataset, layout } = await maintained(t);
  const idsOf = async () => (await layout()).fragments.map(({ id }) => id);
  const unpin = pins.pin(target, 4, await layout());
  for (const id of [4, 5]) await appendTo(dataset, ipcFile(rows(id)));
  await actions.compact(target, { reason: 'by hand', fragments: 'all' }, never);
  assert.deepEqual((await idsOf()).slice(0, -1), [0, 1, 2, 3]);
  assert.equal((await layout()).fragments.length, 5);
  unpin();
  await actions.compact(target, { reason: 'by hand', fragments: 'all' }, never);
  assert.equal((await layout()).fragments.length, 1);
});

test('a replica that has lost the table removes no version of it, neither by itself nor for a client (P3)', async (t) => {
  const confirm = () => Promise.reject(new LancegateError('WriterMoved', 'moved'));
  const { actions, target, dataset } = await maintained(t, undefined, { confirm });
  const all = [{ from: 0, before: Number.POSITIVE_INFINITY }];
  await assert.rejects(actions.prune(target, 'old versions', inAnHour()), { kind: 'WriterMoved' });
  await assert.rejects(actions.prune(target, 'by hand', inAnHour(), all), { kind: 'WriterMoved' });
  assert.equal((await dataset.versionPage(allVersions)).length, 4);
});

test('a table that is not there any more is left alone', async (t) => {
  const { actions, target, catalog, ref } = await maintained(t);
  const record = await catalog.findTable(ref);
  assert.ok(record !== undefined);
  const gone = { ...target, tableId: 'other' as typeof target.tableId };
  assert.equal(await actions.compact(gone, { reason: 'quiet', fragments: 'all' }, never), undefined);
  assert.equal(await actions.buildIndex(gone, btreeOn('id'), 'many rows', never), undefined);
  assert.equal(await actions.prune(gone, 'old versions', inAnHour()), undefined);
  assert.equal(await actions.prune(gone, 'by hand', inAnHour(), []), undefined);
});

test('a consumer of changes keeps the version that it has, and those after it only where there is room (P7)', async (t) => {
  const { actions, dataset, target } = await maintained(t);
  const [version, newest] = [2, await dataset.version()];
  const tag = {
    name: 'consumer-copy',
    branch: undefined,
    version,
    manifestBytes: 0,
    requestId: 'r',
    nowMs: Date.now(),
  };
  await dataset.tags.create(tag);
  const left = async () =>
    (await dataset.versionPage({ after: undefined, limit: 10, order: 'ascending' })).map((each) => each.version);
  await actions.prune(target, 'old versions', Date.now() + 60_000);
  assert.deepEqual(await left(), [2, 3, newest]);
  await actions.prune(target, 'little room', Date.now() + 60_000);
  assert.deepEqual(await left(), [2, newest]);
});
