import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { clearStoredBranch } from '#src/engine/lance/durability/stored-branch.ts';
import { StoreCommits } from '#src/engine/lance/storage/store-commits.ts';
import { knownForMs } from '#src/engine/lance/store/branch-mirror.ts';
import type { BranchName } from '#src/kernel/ids.ts';
import { fenceVersion } from '#src/lance-format/manifest/manifest-changes.ts';
import { manifestNames } from '#src/lance-format/manifest/manifest-files.ts';
import { location, mirroredBranch } from '#test/fixtures/mirrored-branch.ts';

test('a look lists few names, also where other programs have staged some beside the newest manifest', async (t) => {
  const { store, listings, mirror } = await mirroredBranch(t);
  for (let staged = 0; staged < 8; staged++)
    await store.put(`${location}/_versions/0-staged-${staged}`, Buffer.from('x'));
  assert.equal(await mirror.newestToWrite(), 1);
  assert.deepEqual(listings, [9]);
});

test('a process that was frozen for long looks before it takes a number, which may be free again (P1)', async (t) => {
  let nowMs = 1_000_000;
  const { listings, mirror } = await mirroredBranch(t, () => nowMs);
  assert.equal(await mirror.newestToWrite(), 1);
  assert.equal(await mirror.newestToWrite(), 1);
  assert.equal(listings.length, 1);
  const head = (await mirror.take(1)) ?? assert.fail();
  const next = fenceVersion(head.bytes, {}, { transactionId: randomUUID(), committedAtMs: nowMs });
  nowMs += knownForMs;
  const commits = new StoreCommits(mirror);
  assert.equal(await commits.make(next, head.path), false);
  assert.equal(await commits.newest(), 1);
  assert.equal(await commits.make(next, head.path), true);
  assert.equal(await mirror.newestToWrite(), 2);
  assert.equal(listings.length, 2);
});

test('a branch of another program, in the folder of versions of one that is made, keeps its versions (P3)', async (t) => {
  const { store } = await mirroredBranch(t);
  const key = `${location}/tree/p/_versions/_versions/${manifestNames(7)[0]}`;
  await store.put(key, Buffer.from('x'));
  await clearStoredBranch({ store, datasetPrefix: `${location}/` }, 'p' as BranchName, undefined);
  assert.notEqual(await store.get(key), undefined);
});

test('a file that was taken back is gone from the store before its name is used again (P1)', async (t) => {
  const { store, mirror } = await mirroredBranch(t);
  const placed = new StoreCommits(mirror).place([{ to: 'data/1.lance', from: Buffer.from('x') }]);
  await placed.done;
  assert.notEqual(await store.get(`${mirror.prefix}data/1.lance`), undefined);
  await placed.takeBack();
  assert.equal(await store.get(`${mirror.prefix}data/1.lance`), undefined);
});
