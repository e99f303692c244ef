import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { tableFromArrays } from 'apache-arrow';
import { StoreCommits } from '#src/engine/lance/commit/store-commits.ts';
import { clearStoredBranch } from '#src/engine/lance/durability/stored-branch.ts';
import { BranchMirror, knownForMs } from '#src/engine/lance/store/branch-mirror.ts';
import type { BranchName, Location } from '#src/kernel/ids.ts';
import { fenceVersion } from '#src/lance-format/manifest/fence-version.ts';
import { manifestNames } from '#src/lance-format/manifest/manifest-files.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { engineIn } from '#test/fixtures/engine-in.ts';
import { FolderStore } from '#test/fixtures/folder-store.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

const location = 't.lance' as Location;

/** A branch of one version in a store of the test, and its mirror. */
async function mirrored(t: TestContext, nowMs: () => number) {
  const folder = temporaryFolder((clean) => t.after(clean));
  const dataset = await createDataset(engineIn(folder), location, ipcFile(tableFromArrays({ id: [1] })), {});
  dataset.close();
  const bucket = temporaryFolder((clean) => t.after(clean));
  cpSync(join(folder, location), join(bucket, location), { recursive: true });
  const store = new FolderStore(bucket);
  const listings: (number | undefined)[] = [];
  const list = store.list.bind(store);
  store.list = (request) => {
    listings.push(request.most);
    return list(request);
  };
  const mirror = new BranchMirror({
    ...{ store, datasetPrefix: `${location}/`, datasetUri: `s3://b/${location}`, branch: undefined },
    datasetPath: join(
      temporaryFolder((clean) => t.after(clean)),
      location,
    ),
    fresh: { nowMs, uuid: randomUUID },
  });
  return { store, listings, mirror };
}

test('a look lists few names, also where other programs have staged some beside the newest manifest', async (t) => {
  const { store, listings, mirror } = await mirrored(t, Date.now);
  for (let staged = 0; staged < 8; staged++)
    await store.put(`${location}/_versions/0-staged-${staged}`, Buffer.from('x'));
  assert.equal(await mirror.newestToWrite(), 1);
  assert.deepEqual(listings, [9]);
});

test('a process that was frozen for long looks before it takes a number, which may be free again (P1)', async (t) => {
  let nowMs = 1_000_000;
  const { listings, mirror } = await mirrored(t, () => nowMs);
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
  const { store } = await mirrored(t, Date.now);
  const key = `${location}/tree/p/_versions/_versions/${manifestNames(7)[0]}`;
  await store.put(key, Buffer.from('x'));
  await clearStoredBranch({ store, datasetPrefix: `${location}/` }, 'p' as BranchName, undefined);
  assert.notEqual(await store.get(key), undefined);
});
