/** Commits by row address to a table on an object store: what they ask of it, and what becomes of them where it fails (P1, P6). */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, describe, test } from 'node:test';
import { Int32, Table, Utf8, vectorFromArray } from 'apache-arrow';
import { fenceProperty } from '#src/engine/port/change.ts';
import type { Dataset } from '#src/engine/port/dataset.ts';
import type { LiveRows } from '#src/engine/port/row-address.ts';
import type { Location, Properties } from '#src/kernel/ids.ts';
import type { RowAddress } from '#src/keys/address-remap.ts';
import { ipcFile, rowsOf } from '#test/fixtures/arrow-files.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { engineOn } from '#test/fixtures/engine-on.ts';
import { mergeInto } from '#test/fixtures/engine-writes.ts';
import { externalWriterOn } from '#test/fixtures/external-writer.ts';
import { isCommit, onNth, type StoreProxy, startStoreProxy } from '#test/fixtures/store-proxy.ts';
import { azure, google, type StoreUnderTest, s3 } from '#test/fixtures/stores-under-test.ts';
import { upsertOn } from '#test/fixtures/upsert.ts';

const location = 't.lance' as Location;
const table = (...ids: number[]): Table =>
  new Table({
    id: vectorFromArray(ids, new Int32()),
    name: vectorFromArray(
      ids.map((id) => `n${id}`),
      new Utf8(),
    ),
  });
const rows = (...ids: number[]) => ({ file: ipcFile(table(...ids)), rows: ids.length });

async function idsOf(dataset: Dataset): Promise<unknown[]> {
  const files = await Array.fromAsync(dataset.select([{ name: 'id', expression: 'id' }], undefined));
  return files.flatMap((file) => rowsOf(file).map(({ id }) => id)).sort((a, b) => Number(a) - Number(b));
}

interface Opened {
  readonly proxy: StoreProxy;
  readonly root: string;
  readonly storageOptions: Properties;
  readonly dataset: Dataset;
  readonly tracked: LiveRows;
  reopen(): Promise<Dataset>;
}

for (const { name, without, start } of [s3, azure, google]) {
  describe(`a commit to ${name}`, { skip: without ?? false }, () =>
    commitsTo(without === undefined ? start : undefined),
  );
}

async function commitsTo(start: StoreUnderTest['start'] | undefined): Promise<void> {
  const started = await start?.(after);

  const opened = async (t: { after(clean: () => void): void }): Promise<Opened> => {
    const { storageOptions, newRoot } = started ?? assert.fail();
    const proxy = await startStoreProxy((clean) => t.after(clean), storageOptions);
    const root = newRoot();
    const newEngine = () => engineOn(t, root, proxy.storageOptions);
    const engine = await newEngine();
    t.after(() => void engine.close());
    const dataset = await createDataset(engine, location, ipcFile(table(1, 2, 3)), {});
    await dataset.refresh('to write');
    const tracked = dataset.liveRows() ?? assert.fail();
    tracked.advance(1);
    proxy.reset();
    return {
      proxy,
      root,
      storageOptions,
      dataset,
      tracked,
      reopen: async () => (await newEngine()).open({ location }),
    };
  };
  const row = (offset: number): RowAddress => ({ fragment: 0, offset });

  test('takes two rounds of writes, and reads nothing, also after others of this process (P1)', async (t) => {
    const { proxy, dataset, tracked, reopen } = await opened(t);
    for (const offset of [0, 1]) {
      await dataset.refresh('to write');
      const made = await dataset.replaceRows(tracked, [row(offset)], rows(10 + offset));
      assert.equal(typeof made === 'object' && made.version, 2 + offset);
    }
    assert.deepEqual(Object.fromEntries(proxy.counts), {
      'PUT data': 2,
      'PUT deletion': 2,
      'PUT transaction': 2,
      'PUT manifest': 2,
    });
    assert.deepEqual(await idsOf(await reopen()), [3, 10, 11]);
  });

  for (const kind of ['lost answer', 'cut amid answer', 'error after'] as const) {
    test(`counts as made if the store made it: ${kind} (P6)`, async (t) => {
      const { proxy, dataset, tracked, reopen } = await opened(t);
      proxy.faults = onNth(1, isCommit, { kind });
      const made = await dataset.replaceRows(tracked, [row(0)], rows(9));
      assert.equal(typeof made === 'object' && made.version, 2);
      assert.equal(proxy.injected.get(kind), 1);
      const other = await reopen();
      assert.deepEqual([await other.version(), await idsOf(other)], [2, [2, 3, 9]]);
    });
  }

  for (const kind of ['cut before', 'error before', 'slow down', 'cut amid upload'] as const) {
    test(`is made once where its manifest did not arrive at first: ${kind} (P1)`, async (t) => {
      const { proxy, dataset, tracked, reopen } = await opened(t);
      proxy.faults = onNth(1, isCommit, { kind });
      const made = await dataset.replaceRows(tracked, [row(0)], rows(9));
      assert.equal(typeof made === 'object' && made.version, 2);
      assert.deepEqual(await idsOf(await reopen()), [2, 3, 9]);
    });
  }

  test('that arrives late, after it was sent again, is made once (P1)', async (t) => {
    const { proxy, dataset, tracked, reopen } = await opened(t);
    const { promise, resolve } = Promise.withResolvers<void>();
    proxy.faults = onNth(1, isCommit, { kind: 'late', until: promise });
    await dataset.replaceRows(tracked, [row(0)], rows(9));
    await dataset.refresh('to write');
    await dataset.replaceRows(tracked, [row(1)], rows(8));
    resolve();
    await proxy.delivered();
    const other = await reopen();
    assert.deepEqual([await other.version(), await idsOf(other)], [3, [3, 8, 9]]);
  });

  test('of a process that another one has fenced off is not made, whenever it arrives (P1, P2)', async (t) => {
    const { proxy, root, storageOptions } = await opened(t);
    const engine = await engineOn(t, root, proxy.storageOptions);
    t.after(() => void engine.close());
    const zombie = await engine.open({ location });
    await zombie.refresh('to write');
    const tracked = zombie.liveRows() ?? assert.fail();
    tracked.advance(1);
    const owner = await (await engineOn(t, root, storageOptions)).open({ location });
    const { promise: fenced, resolve } = Promise.withResolvers<void>();
    proxy.faults = (request) => (isCommit(request) ? { kind: 'late', until: fenced } : undefined);
    const late = zombie.replaceRows(tracked, [row(0)], rows(9));
    const transactionId = randomUUID();
    await owner.commitManifest({ kind: 'fence', transactionId, properties: { epoch: '2' } });
    resolve();
    assert.equal(await late, 'overtaken');
    await proxy.delivered();
    const other = await (await engineOn(t, root, storageOptions)).open({ location });
    assert.deepEqual(
      [await other.version(), (await other.transactionOf(2))?.id, await idsOf(other)],
      [2, transactionId, [1, 2, 3]],
    );
  });

  test('whose outcome is not known keeps its number from everyone else, and from itself later on (P1, P6)', async (t) => {
    const { proxy, dataset, tracked, reopen } = await opened(t);
    const { promise, resolve } = Promise.withResolvers<void>();
    let commits = 0;
    proxy.faults = (request) => {
      if (!isCommit(request)) return undefined;
      commits += 1;
      return commits === 1 ? { kind: 'late', until: promise } : { kind: 'cut before' };
    };
    await assert.rejects(dataset.replaceRows(tracked, [row(0)], rows(9)), { kind: 'Internal' });
    proxy.faults = () => undefined;
    await dataset.refresh('to write');
    assert.equal(await dataset.version(), 2);
    assert.equal((await dataset.transactionOf(2))?.properties[fenceProperty], 'true');
    tracked.advance(2);
    assert.equal(typeof (await dataset.replaceRows(tracked, [row(1)], rows(8))), 'object');
    resolve();
    await proxy.delivered();
    const other = await reopen();
    assert.deepEqual([await other.version(), await idsOf(other)], [3, [1, 3, 8]]);
  });

  test('of a process that ended cannot be made after the next one has recovered the branch (P1, P6)', async (t) => {
    const { proxy, root, storageOptions, dataset, tracked } = await opened(t);
    const { promise, resolve } = Promise.withResolvers<void>();
    proxy.faults = (request) => (isCommit(request) ? { kind: 'late', until: promise } : undefined);
    const dying = dataset.replaceRows(tracked, [row(0)], rows(9));
    const next = await engineOn(t, root, storageOptions);
    t.after(() => void next.close());
    const mark = { location, branch: undefined, acknowledgedVersion: 1, storageSession: 'object store' };
    const recovered = await next.recover(mark);
    resolve();
    await proxy.delivered();
    await dying;
    assert.deepEqual([recovered.version, recovered.kept], [2, []]);
    const now = await next.open({ location });
    assert.equal((await now.transactionOf(2))?.properties[fenceProperty], 'true');
  });

  test('is not made after one of another program that changed rows, and the next look sees that one (P2)', async (t) => {
    const { root, storageOptions, dataset, tracked } = await opened(t);
    await (await externalWriterOn(root, location, storageOptions)).add(table(7));
    await dataset.refresh('to write');
    assert.equal(await dataset.version(), 1);
    const pending = await dataset.replaceRows(tracked, [row(0)], rows(1));
    assert.equal(pending, 'overtaken');
    await dataset.refresh('to write');
    assert.deepEqual([await dataset.version(), await idsOf(dataset)], [2, [1, 2, 3, 7]]);
    assert.equal(tracked.advance(2).isKnown, true);
    const made = await dataset.replaceRows(tracked, [row(0)], rows(1));
    assert.equal(typeof made === 'object' && made.version, 3);
  });

  test('leaves nothing and says so where its files cannot be stored (P1, P6)', async (t) => {
    const { proxy, dataset, tracked, reopen } = await opened(t);
    proxy.faults = ({ method, kind }) => (method === 'PUT' && kind === 'data' ? { kind: 'error before' } : undefined);
    await assert.rejects(dataset.replaceRows(tracked, [row(0)], rows(9)), { kind: 'StorageUnavailable' });
    proxy.faults = () => undefined;
    const other = await reopen();
    assert.deepEqual([await other.version(), await idsOf(other)], [1, [1, 2, 3]]);
    await dataset.refresh('to write');
    const made = await dataset.replaceRows(tracked, [row(0)], rows(9));
    assert.equal(typeof made === 'object' && made.version, 2);
  });

  test('of a merge by the engine, in a shadow, reads no version of the table again (P1)', async (t) => {
    const { proxy, dataset, reopen } = await opened(t);
    for (const id of [2, 4]) {
      await dataset.refresh('to write');
      const shadow = await dataset.shadow();
      assert.equal(shadow.isPrivate, true);
      await mergeInto(shadow, upsertOn('id'), ipcFile(table(id)));
      proxy.reset();
      assert.deepEqual(await shadow.commit(), { version: id === 2 ? 2 : 3 });
      assert.equal(
        [...proxy.counts.keys()].every((kind) => kind.startsWith('PUT')),
        true,
        [...proxy.counts.keys()].join(),
      );
    }
    assert.deepEqual(await idsOf(await reopen()), [1, 2, 3, 4]);
  });

  test('of a new table is one version of any number of parts, in one round of uploads and one manifest (P1)', async (t) => {
    const { proxy, root } = await opened(t);
    const engine = await engineOn(t, root, proxy.storageOptions);
    t.after(() => void engine.close());
    const other = 'new.lance' as Location;
    const staged = await engine.newTable(other, {});
    for (const id of [1, 2, 3]) await staged.append(ipcFile(table(id)));
    assert.equal(await engine.isVacant(other), true);
    assert.equal(await staged.commit(), 1);
    assert.deepEqual(await idsOf(await engine.open({ location: other })), [1, 2, 3]);
  });
}
