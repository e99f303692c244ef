/** Pages of versions, however the manifests of a branch are named and whatever lies beside them. */
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { tableFromArrays } from 'apache-arrow';
import { versionPage } from '#src/engine/lance/storage/version-page.ts';
import type { Location } from '#src/kernel/ids.ts';
import { manifestNames, readManifest } from '#src/lance-format/manifest/manifest-files.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { engineIn } from '#test/fixtures/engine-in.ts';
import { BucketFolder } from '#test/fixtures/folder-store.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

const versions = 30;

/** Versions 1 to 30, in a store of its own. */
async function branchNamed(t: TestContext, naming: 0 | 1, beside: readonly string[]) {
  const folder = temporaryFolder((clean) => t.after(clean));
  const location = 't.lance' as Location;
  const dataset = await createDataset(engineIn(folder), location, ipcFile(tableFromArrays({ id: [1] })), {});
  t.after(() => dataset.close());
  const { bytes } = readManifest(join(folder, location, '_versions'), 1) ?? assert.fail();
  const bucket = join(folder, 'bucket');
  mkdirSync(bucket);
  const store = new BucketFolder(bucket);
  for (let version = 1; version <= versions; version++)
    await store.put(`_versions/${manifestNames(version)[naming]}`, bytes);
  for (const name of beside) await store.put(`_versions/${name}`, Buffer.from('x'));
  const read = (_version: number, key: string) => store.get(key);
  return { store, prefix: '', branch: undefined, read };
}

const staged = Array.from({ length: 40 }, (_, number) => `0-staged-${number}`);

for (const [how, naming, beside] of [
  ['by the newest first', 0, []],
  ['by the newest first, behind many files of other programs', 0, staged],
  ['as older programs of Lance do', 1, []],
] as const) {
  test(`the newest versions are a page where manifests are named ${how}`, async (t) => {
    const branch = await branchNamed(t, naming, beside);
    const page = await versionPage(branch, { after: undefined, limit: 3, order: 'descending' });
    assert.deepEqual(
      page.map(({ version }) => version),
      [30, 29, 28],
    );
    const next = await versionPage(branch, { after: 4, limit: 1, order: 'ascending' });
    assert.deepEqual(
      next.map(({ version }) => version),
      [5],
    );
    const last = await versionPage(branch, { after: 3, limit: 5, order: 'descending' });
    assert.deepEqual(
      last.map(({ version }) => version),
      [2, 1],
    );
  });
}
