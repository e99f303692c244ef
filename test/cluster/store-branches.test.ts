/** A branch of a branch on an object store, whose process ends or stands still while it is made (P1). */
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import { Int32, Table, vectorFromArray } from 'apache-arrow';
import type { LanceEngine } from '#src/engine/lance/adapter/lance-engine.ts';
import { ownSql } from '#src/kernel/checked-sql.ts';
import { LancegateError } from '#src/kernel/errors.ts';
import type { BranchName, Location } from '#src/kernel/ids.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { createIndex } from '#test/fixtures/create-index.ts';
import { engineOn } from '#test/fixtures/engine-on.ts';
import { onNth, type StoreRequest, startStoreProxy } from '#test/fixtures/store-proxy.ts';
import { azure, google, type StoreUnderTest, s3 } from '#test/fixtures/stores-under-test.ts';

const location = 't.lance' as Location;
const [parent, branch] = ['a' as BranchName, 'b/ü' as BranchName];
const fromParent = { branch: parent, version: undefined };
const rows = (...ids: number[]): Table => new Table({ id: vectorFromArray(ids, new Int32()) });

/** The last request of the making of a branch. */
const isPlacing = ({ method, kind, isConditional }: StoreRequest): boolean =>
  method === 'PUT' && kind === 'manifest' && !isConditional;
/** The one before. */
const isRecord = ({ method, path }: StoreRequest): boolean =>
  method === 'PUT' && path.replaceAll(/%5f/gi, '_').includes('_refs');

for (const { name, without, start } of [s3, azure, google]) {
  describe(`a branch on ${name}`, { skip: without ?? false }, () =>
    branchesOn(without === undefined ? start : undefined),
  );
}

async function branchesOn(start: StoreUnderTest['start'] | undefined): Promise<void> {
  const started = await start?.(after);

  /** A table whose index its branch `a` inherits, and of which a branch inherits it from there. */
  const opened = async (t: { after(clean: () => void): void }) => {
    const { storageOptions, newRoot } = started ?? assert.fail();
    const [proxy, root] = [await startStoreProxy((clean) => t.after(clean), storageOptions), newRoot()];
    const newEngine = async (options = storageOptions): Promise<LanceEngine> => {
      const engine = await engineOn(t, root, options);
      t.after(() => void engine.close());
      return engine;
    };
    const dataset = await createDataset(await newEngine(proxy.storageOptions), location, ipcFile(rows(1, 2, 3)), {});
    await createIndex(dataset, 'id');
    await dataset.branches.create(parent, { branch: undefined, version: undefined });
    return { proxy, root, storageOptions, newEngine, dataset };
  };

  const recovery = (engine: LanceEngine) =>
    engine.recover({ location, branch, acknowledgedVersion: 0, storageSession: engine.storageSession });
  const branchesIn = async (engine: LanceEngine) =>
    (await (await engine.open({ location })).branches.list()).map(({ name }) => name).toSorted();
  const foundByIndex = async (engine: LanceEngine): Promise<number> =>
    (await engine.open({ location, branch })).countRows(ownSql('id = 2'));

  /** The process that makes the branch stands still at the first such request, until it is woken: it may as well have ended. */
  const standingStillAt = async (
    { proxy, dataset }: Awaited<ReturnType<typeof opened>>,
    isLast: (request: StoreRequest) => boolean,
  ) => {
    const [reached, woken] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const choose = onNth(1, isLast, { kind: 'held', until: woken.promise });
    proxy.faults = (asked) => {
      const fault = choose(asked);
      if (fault !== undefined) reached.resolve();
      return fault;
    };
    const made = dataset.branches.create(branch, fromParent);
    await reached.promise;
    return { made, wake: woken.resolve };
  };

  test('with misplaced indexes is completed by recovery, which finds no more to do then (P1)', async (t) => {
    const on = await opened(t);
    const { made, wake } = await standingStillAt(on, isPlacing);
    await assert.rejects(foundByIndex(await on.newEngine()), 'Lance looks for the index where it is not');
    const next = await on.newEngine(on.proxy.storageOptions);
    assert.deepEqual((await recovery(next)).kept, [2]);
    assert.deepEqual([await branchesIn(next), await foundByIndex(next)], [[parent, branch], 1]);
    on.proxy.reset();
    assert.deepEqual((await recovery(next)).kept, [2]);
    assert.ok([...on.proxy.counts.keys()].every((kind) => /^(GET|HEAD) /.test(kind)));
    wake();
    await made;
    assert.equal(await foundByIndex(await on.newEngine()), 1);
  });

  test('is completed with what another program has committed to it before recovery (P1)', async (t) => {
    const on = await opened(t);
    const { made, wake } = await standingStillAt(on, isPlacing);
    const table = await (await connect(on.root, { storageOptions: { ...on.storageOptions } })).openTable('t');
    await (await (await table.branches()).checkout(branch)).add(rows(7));
    const next = await on.newEngine();
    assert.deepEqual((await recovery(next)).kept, [2, 3]);
    assert.equal(await foundByIndex(next), 1);
    assert.equal(await (await next.open({ location, branch })).countRows(), 4);
    wake();
    await made;
  });

  test('without a record is none, and can be made anew, also if the record was on its way (P1)', async (t) => {
    const on = await opened(t);
    const { made, wake } = await standingStillAt(on, isRecord);
    const next = await on.newEngine();
    assert.deepEqual((await recovery(next)).kept, []);
    assert.deepEqual(await branchesIn(next), [parent]);
    await (await next.open({ location })).branches.create(branch, fromParent);
    wake();
    await assert.rejects(made, { kind: 'TableBranchAlreadyExists' });
    assert.deepEqual([await branchesIn(next), await foundByIndex(next)], [[parent, branch], 1]);
  });

  test('is whole if its process writes the record after the next one has recovered it (P1)', async (t) => {
    const on = await opened(t);
    const { made, wake } = await standingStillAt(on, isRecord);
    const next = await on.newEngine();
    assert.deepEqual((await recovery(next)).kept, []);
    wake();
    await made;
    assert.deepEqual([await branchesIn(next), await foundByIndex(next)], [[parent, branch], 1]);
  });

  test('is left by a process that cannot place its indexes, which says so, only if another one owns the table by then (P1, P6)', async (t) => {
    const { proxy, newEngine, dataset } = await opened(t);
    proxy.faults = (asked) => (isPlacing(asked) ? { kind: 'error before' } : undefined);
    await assert.rejects(dataset.branches.create(branch, fromParent), { kind: 'StorageUnavailable' });
    const other = await newEngine();
    assert.deepEqual(await branchesIn(other), [parent]);
    const moved = new LancegateError('WriterMoved', 'another replica owns the table');
    await assert.rejects(
      dataset.branches.create(branch, fromParent, () => Promise.reject(moved)),
      moved,
    );
    assert.deepEqual(await branchesIn(other), [parent, branch]);
  });

  test('of the next owner is not overwritten by a process that stood still before it placed indexes (P1)', async (t) => {
    const { proxy, newEngine, dataset } = await opened(t);
    const moved = new LancegateError('WriterMoved', 'another replica owns the table');
    let placed = 0;
    proxy.faults = (asked) => {
      if (isPlacing(asked)) placed += 1;
      return undefined;
    };
    await assert.rejects(
      dataset.branches.create(branch, fromParent, () => Promise.reject(moved)),
      moved,
    );
    assert.equal(placed, 0);
    const next = await newEngine();
    await recovery(next);
    assert.equal(await foundByIndex(next), 1);
  });
}
