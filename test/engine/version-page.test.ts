/** Pages of versions, however the manifests of a branch are named and whatever lies beside them. */
import assert from 'node:assert/strict';
import { copyFileSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { tableFromArrays } from 'apache-arrow';
import type { Location } from '#src/kernel/ids.ts';
import { manifestNames } from '#src/lance-format/manifest/manifest-files.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { onFolder, onStore, type TableStorage } from '#test/fixtures/table-places.ts';

const versions = 30;
const location = 't.lance' as Location;

/** Versions 1 to 30. */
async function branchNamed(t: TestContext, storage: TableStorage, naming: 0 | 1, beside: readonly string[]) {
  const { engine, folder } = storage.open(t);
  (await createDataset(engine, location, ipcFile(tableFromArrays({ id: [1] })), {})).close();
  const within = join(folder, location, '_versions');
  const [first = assert.fail()] = readdirSync(within).filter((name) => name.endsWith('.manifest'));
  renameSync(join(within, first), join(within, manifestNames(1)[naming]));
  for (let version = 2; version <= versions; version++)
    copyFileSync(join(within, manifestNames(1)[naming]), join(within, manifestNames(version)[naming]));
  for (const name of beside) writeFileSync(join(within, name), 'x');
  const dataset = await engine.open({ location });
  t.after(() => dataset.close());
  return dataset;
}

const staged = Array.from({ length: 40 }, (_, number) => `0-staged-${number}`);

for (const storage of [onFolder, onStore]) {
  for (const [how, naming, beside] of [
    ['by the newest first', 0, []],
    ['by the newest first, behind many files of other programs', 0, staged],
    ['as older programs of Lance do', 1, []],
  ] as const) {
    test(`the newest versions are a page on ${storage.kind} where manifests are named ${how}`, async (t) => {
      const dataset = await branchNamed(t, storage, naming, beside);
      const pageOf = async (page: Parameters<typeof dataset.versionPage>[0]) =>
        (await dataset.versionPage(page)).map(({ version }) => version);
      assert.deepEqual(await pageOf({ after: undefined, limit: 3, order: 'descending' }), [30, 29, 28]);
      assert.deepEqual(await pageOf({ after: 4, limit: 1, order: 'ascending' }), [5]);
      assert.deepEqual(await pageOf({ after: 3, limit: 5, order: 'descending' }), [2, 1]);
    });
  }
}
