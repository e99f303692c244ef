/** What a merge waits for that is prepared while the one before it is under way on an object store (docs/design/commit.md). */
import assert from 'node:assert/strict';
import { after, describe, type TestContext, test } from 'node:test';
import { LancegateError } from '#src/kernel/errors.ts';
import { type Fault, isCommit, type StoreProxy, startStoreProxy } from '#test/fixtures/store-proxy.ts';
import { s3 } from '#test/fixtures/stores-under-test.ts';
import { directCommits, sendUntilDirectCommit } from '#test/table/direct-commits.ts';
import { full, type Row } from '#test/table/rows.ts';
import { byAppending, type Interruptions, location, never, Stage, table, upsert } from '#test/table/stage.ts';

const turns = async (): Promise<void> => {
  for (let turn = 0; turn < 100; turn++) await new Promise(setImmediate);
};

/** The first manifest is held until `release`; or it is made, and the store does not say so. */
function watched(proxy: StoreProxy, answer: 'held' | 'lost') {
  const [held, underWay, prepared] = [1, 2, 3].map(() => Promise.withResolvers<void>());
  const begun = { manifests: 0, following: 0 };
  /** `until`: those of what follows the first merge wait. */
  const files: { until?: Promise<void>; areManifestsCut?: boolean } = {};
  const beginFollowing = (): Fault | undefined => {
    begun.following += 1;
    prepared!.resolve();
    return begun.following === 1 && files.until ? { kind: 'held', until: files.until } : undefined;
  };
  const beginManifest = (): Fault | undefined => {
    begun.manifests += 1;
    if (begun.manifests > 1) return undefined;
    underWay!.resolve();
    files.areManifestsCut = answer === 'lost';
    return answer === 'lost' ? { kind: 'lost answer' } : { kind: 'held', until: held!.promise };
  };
  proxy.faults = (request) => {
    if (files.areManifestsCut && request.kind === 'manifest') return { kind: 'cut before' };
    if (isCommit(request)) return beginManifest();
    const isOfFollowing = begun.manifests > 0 && request.method === 'PUT' && request.kind === 'transaction';
    return isOfFollowing ? beginFollowing() : undefined;
  };
  return { begun, files, underWay: underWay!.promise, isPrepared: prepared!.promise, release: held!.resolve };
}

describe('a merge that is prepared while the one before it is under way', { skip: s3.without ?? false }, async () => {
  const started = s3.without === undefined ? await s3.start(after) : undefined;

  /** The first merge is under way, and those of `others` share its commit. */
  async function opened(t: TestContext, answer: 'held' | 'lost' = 'held', others: readonly Row[] = []) {
    const { storageOptions, newRoot } = started ?? assert.fail();
    const proxy = await startStoreProxy((clean) => t.after(clean), storageOptions);
    const interruptions: Interruptions = {};
    const ownership: { confirm: () => Promise<void> } = { confirm: async () => {} };
    const stage = await Stage.open(t, full([1, 'old']), {
      interruptions,
      hasKeyIndex: true,
      storage: { root: newRoot(), options: proxy.storageOptions },
      owners: { confirm: () => ownership.confirm() },
    });
    t.after(() => void stage.engine.close());
    await sendUntilDirectCommit(stage, () => stage.request(full([1, 'old'])));
    const versionNow = async () => (await stage.engine.open({ location })).version();
    const version = await versionNow();
    const { begun, files, underWay, isPrepared, release } = watched(proxy, answer);
    /** Long enough for a commit, if one were begun. */
    const meanwhile = async (): Promise<void> => {
      for (let look = 0; look < 30; look++) await versionNow();
    };
    const merge = async (text: string, spec = upsert) => stage.merge(await stage.request(full([1, text]), spec));
    const requests = await Promise.all([[1, 'first'] as const, ...others].map((row) => stage.request(full(row))));
    const [first] = requests.map((request) => stage.merge(request)) as [ReturnType<typeof stage.merge>];
    await underWay;
    const during = { begun, files, meanwhile, release };
    return { stage, interruptions, ownership, version, versionNow, first, merge, isPrepared, ...during };
  }

  test('is made only if this process owns the table after that one is there (P1)', async (t) => {
    const { stage, ownership, version, first, merge, isPrepared, release } = await opened(t);
    const second = merge('second');
    await isPrepared;
    ownership.confirm = () => Promise.reject(new LancegateError('WriterMoved', 'moved'));
    release();
    assert.equal((await first).version, version + 1);
    await assert.rejects(second, { kind: 'WriterMoved' });
    assert.deepEqual(await stage.rows(), ['1:first']);
    ownership.confirm = async () => {};
    assert.equal((await merge('third')).version, version + 2);
    assert.deepEqual(await stage.rows(), ['1:third']);
  });

  test('is matched with that one where it compares versions, which cannot be read before (P2)', async (t) => {
    const { stage, first, isPrepared, release } = await opened(t);
    const late = { ...(await stage.request(full([1, 'a late one']))), versionColumn: { segments: ['v'] } };
    const second = stage.merge(late);
    await Promise.race([isPrepared, turns()]);
    release();
    assert.equal((await first).numUpdatedRows, 1);
    const { numUpdatedRows, numStaleRows } = await second;
    assert.deepEqual([numUpdatedRows, numStaleRows], [0, 1]);
    assert.deepEqual(await stage.rows(), ['1:first']);
  });

  test('is recorded and answered after that one, although both are there (P5)', async (t) => {
    const { interruptions, version, versionNow, first, merge, isPrepared, release } = await opened(t);
    const second = merge('second');
    await isPrepared;
    const record = Promise.withResolvers<void>();
    let records = 0;
    interruptions.record = () => {
      records += 1;
      return record.promise;
    };
    release();
    while ((await versionNow()) < version + 2) await turns();
    await turns();
    assert.equal(records, 1);
    record.resolve();
    assert.deepEqual([(await first).version, (await second).version], [version + 1, version + 2]);
    assert.equal(records, 2);
  });

  test('waits until what waited for the branch before it has had the lock (P10)', async (t) => {
    const { stage, version, versionNow, first, merge, meanwhile, release } = await opened(t);
    const locked = stage.locks.lockBranch(table, undefined, never);
    const second = merge('second');
    assert.equal(await Promise.race([locked, meanwhile()]), undefined, 'the first has the lock until it is answered');
    release();
    const unlock = await locked;
    assert.equal((await first).version, version + 1);
    assert.equal(await versionNow(), version + 1);
    unlock();
    assert.equal((await second).version, version + 2);
  });

  test('waits until one of two that are under way is answered (P7)', async (t) => {
    const { version, first, merge, isPrepared, begun, meanwhile, release } = await opened(t);
    const second = merge('second');
    await isPrepared;
    const halfOfAll = [merge('third'), merge('third')];
    await meanwhile();
    assert.deepEqual(begun, { manifests: 1, following: 1 });
    release();
    const versions = (await Promise.all([first, second, ...halfOfAll])).map((counts) => counts.version);
    assert.deepEqual(
      versions,
      [1, 2, 3, 3].map((after) => version + after),
    );
  });

  test('waits until that one is answered where it is of less than half of a few clients, so that they share a commit (P5)', async (t) => {
    const { stage, version, versionNow, first, merge, begun, meanwhile, release } = await opened(t, 'held', [[2, 'a']]);
    const third = merge('third');
    await meanwhile();
    assert.deepEqual(begun, { manifests: 1, following: 0 });
    release();
    assert.deepEqual([(await first).version, (await third).version], [version + 1, version + 2]);
    assert.equal(await versionNow(), version + 2);
    assert.deepEqual(await stage.rows(), ['1:third', '2:a']);
  });

  test('is not found to change nothing by a version that another program has made instead (P2, P5)', async (t) => {
    const { stage, version, versionNow, first, merge, meanwhile, release } = await opened(t);
    await byAppending(stage, full([2, 'past the gate']))();
    assert.equal(await versionNow(), version + 1);
    const second = merge('second', { ...upsert, whenMatchedUpdateAll: false });
    await meanwhile();
    release();
    assert.deepEqual([(await first).version, (await second).version], [version + 2, version + 2]);
    assert.deepEqual(await stage.rows(), ['1:first', '2:past the gate']);
  });

  test('is matched again, as that one is, after several versions that other programs have made instead (P2)', async (t) => {
    const { stage, version, first, merge, isPrepared, release } = await opened(t);
    const second = merge('second');
    await isPrepared;
    for (const id of [2, 3]) await byAppending(stage, full([id, 'past the gate']))();
    const known = directCommits(stage);
    release();
    assert.deepEqual([(await first).version, (await second).version], [version + 3, version + 4]);
    assert.ok(directCommits(stage) > known, 'the key index is not given up');
    assert.deepEqual(await stage.rows(), ['1:second', '2:past the gate', '3:past the gate']);
  });

  test('is matched again where that one was overtaken before its own files were there (P2)', async (t) => {
    const { stage, version, first, merge, isPrepared, files, meanwhile, release } = await opened(t);
    const uploaded = Promise.withResolvers<void>();
    files.until = uploaded.promise;
    const second = merge('second');
    await isPrepared;
    await byAppending(stage, full([2, 'past the gate']))();
    release();
    await meanwhile();
    uploaded.resolve();
    assert.deepEqual([(await first).version, (await second).version], [version + 2, version + 3]);
    assert.deepEqual(await stage.rows(), ['1:second', '2:past the gate']);
  });

  test('finds the files of that one, which was made, and of which nothing was known (P1, P3, P6)', async (t) => {
    const { stage, first, merge, files } = await opened(t, 'lost');
    await assert.rejects(first, { kind: 'Internal' });
    files.areManifestsCut = false;
    assert.deepEqual(await stage.rows(), ['1:first']);
    await merge('second');
    assert.deepEqual(await stage.rows(), ['1:second']);
  });

  test('leaves nothing of what was planned to the merges after both (P2)', async (t) => {
    const { stage, first, merge, isPrepared, release } = await opened(t);
    const second = merge('second');
    await isPrepared;
    release();
    await Promise.all([first, second]);
    await (await stage.externalWriter()).delete('id = 1');
    assert.equal((await merge('third')).numInsertedRows, 1);
    assert.deepEqual(await stage.rows(), ['1:third']);
  });

  test('waits until that one is answered where it is of another kind (P1)', async (t) => {
    const { stage, version, first, begun, meanwhile, release } = await opened(t);
    const second = stage.insert(await stage.insertRequest(full([2, 'second'])));
    await meanwhile();
    assert.deepEqual(begun, { manifests: 1, following: 0 });
    release();
    assert.deepEqual([(await first).version, (await second).version], [version + 1, version + 2]);
    assert.equal((await second).numAttempts, 1);
    assert.deepEqual(await stage.rows(), ['1:first', '2:second']);
  });
});
