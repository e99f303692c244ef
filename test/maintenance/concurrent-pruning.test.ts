import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Dataset } from '#src/engine/port/dataset.ts';
import type { PruneRequest } from '#src/engine/port/upkeep.ts';
import { neverAborts } from '#src/kernel/read-write-lock.ts';
import { eventually } from '#test/http/eventually.ts';
import { retentionMs, watchedTable } from './watched-table.ts';

/** A watched table, with removals of versions that end when they are allowed to. */
async function slowlyPruned(t: TestContext, end: () => Promise<void>) {
  let prunings = 0;
  let atOnce = 0;
  let mostAtOnce = 0;
  const prune = async (opened: Dataset, request: PruneRequest) => {
    atOnce += 1;
    mostAtOnce = Math.max(mostAtOnce, atOnce);
    const result = await opened.prune(request);
    prunings += 1;
    await end();
    atOnce -= 1;
    return result;
  };
  const replaced = (opened: Dataset) => ({ prune: (request: PruneRequest) => prune(opened, request) });
  const watched = await watchedTable(t, { ids: [0], indexFromRows: 1_000_000, replaced });
  const commits = async (count: number): Promise<void> => {
    for (let i = 0; i < count; i += 1) await watched.commit();
  };
  /** Longer than it takes to begin a job. */
  const aWhile = async (): Promise<void> => {
    for (let i = 0; i < 50; i += 1) await watched.dataset.layout();
  };
  const growOld = (): void => {
    for (let i = 0; i < 2; i += 1) watched.clock.advance(retentionMs + 10_000);
  };
  const prunedVersions = (): number =>
    watched.lines().reduce((sum, { removedVersions = 0 }) => sum + removedVersions, 0);
  return {
    ...watched,
    commits,
    aWhile,
    growOld,
    prunedVersions,
    prunings: () => prunings,
    mostAtOnce: () => mostAtOnce,
  };
}

/** Five commits grew old, and a removal of their versions is under way, which ends when `ended` is resolved. */
async function whileVersionsGo(t: TestContext) {
  const ended = Promise.withResolvers<void>();
  const watched = await slowlyPruned(t, () => ended.promise);
  t.after(() => {
    ended.resolve();
    return watched.scheduler.close();
  });
  await watched.commits(5);
  watched.growOld();
  await eventually('versions are being removed', () => watched.prunings() === 1);
  return { ended, ...watched };
}

test('while versions are removed other jobs go on, but no second removal, and closing waits for it (P8)', async (t) => {
  const { ended, scheduler, growOld, commits, lines, prunedVersions, prunings } = await whileVersionsGo(t);
  const compactions = () => lines().filter(({ job }) => job === 'compact').length;
  const before = compactions(); // a table that grew old is put in order, too
  await commits(40);
  await eventually('a compaction meanwhile', () => compactions() > before);
  growOld();
  await commits(5);
  assert.deepEqual([prunings(), prunedVersions()], [1, 0]);
  let isClosed = false;
  const closing = scheduler.close().then(() => {
    isClosed = true;
  });
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(isClosed, false);
  ended.resolve();
  await closing;
  assert.ok(prunedVersions() > 0);
});

test('maintenance by hand waits for a removal under way (P8)', async (t) => {
  const { ended, scheduler, target, commits, aWhile, mostAtOnce } = await whileVersionsGo(t);
  await commits(5);
  const byHand = scheduler.maintainByHand(target);
  await aWhile();
  assert.equal(mostAtOnce(), 1);
  ended.resolve();
  assert.ok((await byHand).length > 0);
  assert.equal(mostAtOnce(), 1);
});

test('versions that a client deletes wait for a removal under way, and are not waited for past a deadline', async (t) => {
  const { ended, scheduler, target, commits, aWhile, mostAtOnce } = await whileVersionsGo(t);
  await commits(5);
  const all = [{ from: 0, before: Number.POSITIVE_INFINITY }];
  const deleted = scheduler.removeVersions(target, all, neverAborts);
  const late = new AbortController();
  const tooLate = scheduler.removeVersions(target, all, late.signal);
  late.abort(new Error('the deadline has passed'));
  await assert.rejects(tooLate, /deadline/);
  await aWhile();
  assert.equal(mostAtOnce(), 1);
  ended.resolve();
  assert.ok(Number((await deleted)?.removedVersions) >= 5);
  assert.equal(mostAtOnce(), 1);
});

test('when versions have been removed, the next that grew old are removed, too (P8)', async (t) => {
  const { ended, growOld, commits, aWhile, prunings, mostAtOnce } = await whileVersionsGo(t);
  await commits(5);
  growOld();
  await aWhile();
  ended.resolve();
  await eventually('the next ones', () => prunings() === 2);
  assert.equal(mostAtOnce(), 1);
});

test('a removal that fails while other jobs run is logged, and tried again later (P8)', async (t) => {
  const { ended, lines } = await whileVersionsGo(t);
  ended.promise.catch(() => undefined); // it may be asked for later than it is settled
  ended.reject(new Error('the disk is gone'));
  await eventually('the failure is logged', () => JSON.stringify(lines()).includes('maintenance of a table failed'));
});
