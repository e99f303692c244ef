import assert from 'node:assert/strict';
import { dirname } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import { Int32, Table, vectorFromArray } from 'apache-arrow';
import type { Dataset, Engine, OpenRequest, OptimizeRequest } from '#src/engine/port/engine.ts';
import type { PreparedMove } from '#src/engine/port/row-address.ts';
import { Upkeep } from '#src/maintenance/act/upkeep.ts';
import type { OptimizeReason } from '#src/maintenance/decide/policy.ts';
import { RecoveryMarks } from '#src/table/recovery-marks.ts';
import { TableLocks } from '#src/table/table-locks.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { holdBranch } from '#test/fixtures/hold-branch.ts';
import { publishTable } from '#test/fixtures/published-table.ts';
import { replacing } from '#test/fixtures/replacing.ts';

const inAnHour = (): number => Date.now() + 3_600_000;
const nextTurnOfTheLoop = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const rows = (...ids: readonly number[]): Table => new Table({ id: vectorFromArray(ids, new Int32()) });

interface Job {
  /** Fragments of one row beside the first one. */
  readonly appends: number;
  readonly isIndexed?: boolean;
  readonly pruneBeforeMs?: number;
  readonly reason?: OptimizeReason;
}

/** What is old is told in milliseconds: of two commits in the same one, neither is older than the other. */
async function nextMillisecond(): Promise<void> {
  for (const now = Date.now(); Date.now() === now; ) await nextTurnOfTheLoop();
}

/** Tidies a table that has old versions, with a writer that comes when the engine is called. */
async function tidy(
  t: TestContext,
  { appends, isIndexed = false, pruneBeforeMs = inAnHour(), reason = 'old versions' }: Job,
) {
  const { catalog, engine, dataset, ref, tableId, location } = await publishTable(t, rows(0));
  await dataset.addNullColumn('more');
  await nextMillisecond();
  await dataset.dropColumn('more');
  if (isIndexed) await dataset.createScalarIndex('id');
  for (let id = 1; id <= appends; id += 1) {
    await nextMillisecond();
    await dataset.append(ipcFile(rows(id)));
  }
  const locks = new TableLocks(10);
  let isIn = false;
  let wasLetIn = false;
  const events: string[] = [];
  const writing: Promise<void>[] = [];
  const write = async (): Promise<void> => {
    const leave = await holdBranch(locks, ref, undefined);
    isIn = true;
    events.push('a writer has its turn');
    for (let i = 0; i < 5; i += 1) (await engine.open({ location })).close(); // longer than it takes to begin an index
    events.push('and ends it');
    leave();
  };
  const optimize = async (opened: Dataset, request: OptimizeRequest) => {
    writing.push(write());
    await nextTurnOfTheLoop();
    wasLetIn = isIn;
    return opened.optimize(request);
  };
  const open = async (request: OpenRequest): Promise<Dataset> => {
    const opened = await engine.open(request);
    return replacing(opened, {
      optimize: (asked: OptimizeRequest) => optimize(opened, asked),
      createScalarIndex: (column: string) => {
        events.push(`the index on ${column} is begun`);
        return opened.createScalarIndex(column);
      },
    });
  };
  const recoveryMarks = new RecoveryMarks({ catalog, engine });
  const upkeep = new Upkeep({ catalog, engine: replacing<Engine>(engine, { open }), locks, recoveryMarks });
  let rewritten = 0;
  const report = await upkeep.optimize({
    target: { table: ref, tableId, branch: undefined, location },
    reason,
    extent: 'all',
    pruneBeforeMs,
    onRewritten: () => rewritten++,
    onOnlyPruning: () => undefined,
  });
  await Promise.all(writing);
  await dataset.refresh();
  const { fragments, indexes } = await dataset.layout();
  const versions = (await dataset.versions()).length;
  const removedVersions = report?.removedVersions;
  return {
    writers: writing.length,
    wasLetIn,
    rewritten,
    fragments: fragments.length,
    indexes,
    versions,
    removedVersions,
    events,
  };
}

describe('while the engine removes old versions (P8)', () => {
  test('writers go on where there is nothing to put together', async (t) => {
    const { wasLetIn, rewritten, fragments, versions, removedVersions } = await tidy(t, { appends: 0 });
    const found = { wasLetIn, rewritten, fragments, versions, removedVersions };
    assert.deepEqual(found, { wasLetIn: true, rewritten: 0, fragments: 1, versions: 1, removedVersions: 2 });
  });

  test('writers wait where there is, until it is done', async (t) => {
    const { wasLetIn, rewritten, fragments } = await tidy(t, { appends: 2 });
    assert.deepEqual({ wasLetIn, rewritten, fragments }, { wasLetIn: false, rewritten: 1, fragments: 1 });
  });
});

describe('where nobody brings new fragments meanwhile, they are put together beside the writers (P8)', () => {
  test('and then old versions are removed beside them', async (t) => {
    const found = await tidy(t, { appends: 2, isIndexed: true, reason: 'by hand' });
    const { wasLetIn, rewritten, fragments, removedVersions, versions } = found;
    const expected = { wasLetIn: true, rewritten: 1, fragments: 1, removedVersions: 7, versions: 1 };
    assert.deepEqual({ wasLetIn, rewritten, fragments, removedVersions, versions }, expected);
    assert.deepEqual(found.indexes, [{ columns: ['id'], unindexedRows: 0, isPlain: true }]);
  });

  test('where none are to be removed, the engine is not called for it', async (t) => {
    const { writers, fragments, indexes } = await tidy(t, {
      appends: 2,
      isIndexed: true,
      reason: 'quiet',
      pruneBeforeMs: 0,
    });
    assert.deepEqual({ writers, fragments }, { writers: 0, fragments: 1 });
    assert.deepEqual(indexes, [{ columns: ['id'], unindexedRows: 0, isPlain: true }]);
  });
});

describe('an index that a tidying dropped is built again (P8)', () => {
  for (const [title, pruneBeforeMs] of [
    ['', 0],
    [', and where old versions are removed', inAnHour()],
  ] as const) {
    test(`beside the writers, but not before who waited has had a turn${title}`, async (t) => {
      const { events, indexes, fragments } = await tidy(t, { appends: 2, isIndexed: true, pruneBeforeMs });
      assert.deepEqual(events, ['a writer has its turn', 'and ends it', 'the index on id is begun']);
      assert.deepEqual(indexes, [{ columns: ['id'], unindexedRows: 0, isPlain: true }]);
      assert.equal(fragments, 1);
    });
  }
});

test('writers go on while chosen fragments are put together, and wait until that is committed (P8)', {
  timeout: 20_000,
}, async (t) => {
  const { catalog, engine, dataset, ref, tableId, location } = await publishTable(t, rows(0));
  for (const id of [1, 2, 3]) await dataset.append(ipcFile(rows(id)));
  const locks = new TableLocks(10);
  const events: string[] = [];
  let writing: Promise<void> | undefined;
  const write = async (): Promise<void> => {
    const leave = await holdBranch(locks, ref, undefined);
    events.push('a writer has its turn');
    leave();
  };
  const open = async (request: OpenRequest): Promise<Dataset> => {
    const opened = await engine.open(request);
    return replacing(opened, {
      prepareMove: async (ids: readonly number[]) => {
        const move = await opened.prepareMove(ids);
        await write();
        const commit = async () => {
          assert.equal((await catalog.recoveryMarks()).length, 1, 'a crash from here on is recovered from');
          writing = write();
          await nextTurnOfTheLoop();
          const removed = await move?.commit();
          events.push('committed');
          return removed;
        };
        return { commit, discard: () => move?.discard() };
      },
      sync: async (after?: number) => {
        if (writing !== undefined) {
          await writing;
          events.push('made durable');
        }
        return opened.sync(after);
      },
    });
  };
  const recoveryMarks = new RecoveryMarks({ catalog, engine });
  const upkeep = new Upkeep({ catalog, engine: replacing<Engine>(engine, { open }), locks, recoveryMarks });
  const report = await upkeep.optimize({
    target: { table: ref, tableId, branch: undefined, location },
    reason: 'slower',
    extent: 'small',
    fragments: [1, 3],
    pruneBeforeMs: 0,
    onRewritten: () => events.push('told'),
    onOnlyPruning: () => undefined,
  });
  await writing;
  assert.deepEqual(events, ['a writer has its turn', 'committed', 'told', 'a writer has its turn', 'made durable']);
  assert.deepEqual([report?.extent, report?.removedFragments, report?.removedVersions], ['small', 1, 0]);
  await dataset.refresh();
  assert.deepEqual(
    (await dataset.layout()).fragments.map(({ id }) => id),
    [0, 2, 4],
  );
});

test('small fragments that could not be put together are a failure, after which all are the choice (P8)', async (t) => {
  const { catalog, engine, ref, tableId, location } = await publishTable(t, rows(0));
  const prepared: readonly (PreparedMove | undefined)[] = [
    undefined,
    { commit: () => Promise.resolve(undefined), discard: () => undefined },
  ];
  for (const move of prepared) {
    const open = async (request: OpenRequest): Promise<Dataset> =>
      replacing(await engine.open(request), { prepareMove: () => Promise.resolve(move) });
    const recoveryMarks = new RecoveryMarks({ catalog, engine });
    const locks = new TableLocks(10);
    const upkeep = new Upkeep({ catalog, engine: replacing<Engine>(engine, { open }), locks, recoveryMarks });
    const job = {
      target: { table: ref, tableId, branch: undefined, location },
      reason: 'slower',
      extent: 'small',
      fragments: [0],
      pruneBeforeMs: 0,
      onRewritten: () => assert.fail('nothing was put together'),
      onOnlyPruning: () => undefined,
    } as const;
    await assert.rejects(upkeep.optimize(job), { kind: 'ConcurrentModification' });
    (await holdBranch(locks, ref, undefined))();
  }
});

interface Tidying {
  readonly pruneBeforeMs?: number;
  readonly appends?: number;
  /** Somebody else's, which cannot be dropped and built anew. */
  readonly hasOtherIndex?: boolean;
}

/** Tidies three fragments under an index, with some of the engine's answers replaced. */
async function tidyOver(
  t: TestContext,
  replaced: (opened: Dataset) => Partial<Dataset>,
  { pruneBeforeMs = inAnHour(), appends = 2, hasOtherIndex = false }: Tidying = {},
) {
  const { catalog, engine, dataset, ref, tableId, location, folder } = await publishTable(t, rows(0));
  await dataset.createScalarIndex('id');
  if (hasOtherIndex) {
    const outside = await (await connect(dirname(folder))).openTable('t');
    await outside.createIndex('id', { name: 'other', replace: false });
    await dataset.refresh();
  }
  for (let id = 1; id <= appends; id += 1) await dataset.append(ipcFile(rows(id)));
  const open = async (request: OpenRequest): Promise<Dataset> => {
    const opened = await engine.open(request);
    return replacing(opened, replaced(opened));
  };
  const recoveryMarks = new RecoveryMarks({ catalog, engine });
  const watched = replacing<Engine>(engine, { open });
  const upkeep = new Upkeep({ catalog, engine: watched, locks: new TableLocks(10), recoveryMarks });
  const target = { table: ref, tableId, branch: undefined, location };
  const job = {
    target,
    reason: 'old versions',
    extent: 'all',
    pruneBeforeMs,
    onRewritten: () => undefined,
    onOnlyPruning: () => undefined,
  } as const;
  const layout = async () => {
    await dataset.refresh();
    return dataset.layout();
  };
  return { dataset, optimize: () => upkeep.optimize(job), layout };
}

describe('a tidying that is to remove no version puts fragments together and does nothing else (P8)', () => {
  const remembering = (asked: OptimizeRequest[]) => (opened: Dataset) => ({
    optimize: (request: OptimizeRequest) => {
      asked.push(request);
      return opened.optimize(request);
    },
  });

  test('where all indexes are built anew', async (t) => {
    const asked: OptimizeRequest[] = [];
    const { optimize, layout } = await tidyOver(t, remembering(asked), { pruneBeforeMs: 0 });
    const { removedFragments, removedVersions } = (await optimize()) ?? {};
    assert.deepEqual([removedFragments, removedVersions], [2, 0]);
    assert.deepEqual(
      asked.map(({ leavesIndexes }) => leavesIndexes),
      [true],
    );
    const { fragments, indexes } = await layout();
    assert.equal(fragments.length, 1);
    assert.deepEqual(indexes, [{ columns: ['id'], unindexedRows: 0, isPlain: true }]);
  });

  test('but all of it where the index of somebody else is to cover the new rows', async (t) => {
    const { optimize, layout } = await tidyOver(t, () => ({}), { pruneBeforeMs: 0, hasOtherIndex: true });
    await optimize();
    const { indexes } = await layout();
    assert.deepEqual(indexes.map(({ isPlain, unindexedRows }) => [isPlain, unindexedRows]).sort(), [
      [false, 0],
      [true, 0],
    ]);
  });

  test('without asking for tags, for which all versions are read', async (t) => {
    let asked = 0;
    const counting = (opened: Dataset) => ({
      oldestTaggedAtMs: () => {
        asked += 1;
        return opened.oldestTaggedAtMs();
      },
    });
    await (await tidyOver(t, counting, { pruneBeforeMs: 0 })).optimize();
    assert.equal(asked, 0);
    await (await tidyOver(t, counting)).optimize();
    assert.equal(asked, 1);
  });

  test('and nothing where there is nothing to put together', async (t) => {
    const asked: OptimizeRequest[] = [];
    const { dataset, optimize } = await tidyOver(t, remembering(asked), { pruneBeforeMs: 0, appends: 0 });
    const before = await dataset.version();
    assert.equal((await optimize())?.removedFragments, 0);
    await dataset.refresh();
    assert.equal(await dataset.version(), before);
    assert.deepEqual(asked, []);
  });
});

test('an index that was dropped for a tidying that failed is there again (P8)', async (t) => {
  const { optimize, layout } = await tidyOver(t, () => ({
    optimize: () => Promise.reject(new Error('no space left')),
  }));
  await assert.rejects(optimize(), /no space left/);
  assert.deepEqual((await layout()).indexes, [{ columns: ['id'], unindexedRows: 0, isPlain: true }]);
});

test('the newest version is kept by the date it has under the turn, though one before was younger (P3)', async (t) => {
  const dates = [5_000, 3_000];
  let askedFor: number | undefined;
  const { optimize } = await tidyOver(t, (opened) => ({
    layout: async () => ({ ...(await opened.layout()), committedAtMs: dates.shift() }),
    optimize: (request: OptimizeRequest) => {
      askedFor = request.pruneBeforeMs;
      return opened.optimize({ ...request, pruneBeforeMs: 0 });
    },
  }));
  await optimize();
  assert.equal(askedFor, 3_000);
});
