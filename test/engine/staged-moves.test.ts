import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Table, vectorFromArray } from 'apache-arrow';
import { FolderCommits } from '#src/engine/lance/commit/branch-commits.ts';
import { rowFile } from '#src/engine/lance/commit/staged-rows.ts';
import { rowsIn } from '#src/engine/lance/commit/staging.ts';
import type { Location } from '#src/kernel/ids.ts';
import { readManifest } from '#src/lance-format/manifest/manifest-files.ts';
import { parseManifest } from '#src/lance-format/manifest/parse-manifest.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { engineIn } from '#test/fixtures/engine-in.ts';
import { appendTo } from '#test/fixtures/engine-writes.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

const rows = (count: number) => ipcFile(new Table({ id: vectorFromArray(new Int32Array(count)) }));

const lastDataFile = (manifest: Buffer): string =>
  parseManifest(manifest).files.findLast(({ kind }) => kind === 'data')?.path ?? '';

test('of two files that are moved the first is where it was if the second cannot follow', async (t) => {
  const outside = temporaryFolder((clean) => t.after(clean));
  const [dataset, memory] = [join(outside, 't.lance'), join(outside, 'memory')];
  for (const each of [dataset, memory]) mkdirSync(each);
  const engine = engineIn(memory);
  const made = await createDataset(engine, 'two.lance' as Location, rows(5), {});
  await appendTo(made, rows(5));
  made.close();
  const folder = join(memory, 'two.lance');
  const manifest = readManifest(join(folder, '_versions'), 2)?.bytes ?? Buffer.of();
  rmSync(join(folder, 'data', lastDataFile(manifest)));
  assert.throws(() => new FolderCommits(dataset).place(rowsIn(manifest, folder).files.map(rowFile)), {
    code: 'ENOENT',
  });
  assert.deepEqual([readdirSync(join(dataset, 'data')), readdirSync(join(folder, 'data')).length], [[], 1]);
});
