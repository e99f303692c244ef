import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Table, vectorFromArray } from 'apache-arrow';
import type { IpcFile } from '#src/arrow/format/ipc-file.ts';
import { FolderCommits } from '#src/engine/lance/commit/branch-commits.ts';
import { rowFile } from '#src/engine/lance/commit/staged-rows.ts';
import { rowsIn, Staging, StagingFolder } from '#src/engine/lance/commit/staging.ts';
import type { Location } from '#src/kernel/ids.ts';
import { readManifest, stagingFolder } from '#src/lance-format/manifest/manifest-files.ts';
import { parseManifest } from '#src/lance-format/manifest/parse-manifest.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { engineIn } from '#test/fixtures/engine-in.ts';
import { appendTo } from '#test/fixtures/engine-writes.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

const rows = (count: number): IpcFile => ipcFile(new Table({ id: vectorFromArray(new Int32Array(count)) }));

/** A dataset's folder, and one that stands for a file system in memory. */
function places(t: TestContext) {
  const folder = temporaryFolder((clean) => t.after(clean));
  const dataset = join(folder, 't.lance');
  mkdirSync(dataset);
  const memory = join(folder, 'memory');
  const stagedBeside = (): readonly string[] =>
    existsSync(stagingFolder(dataset)) ? readdirSync(stagingFolder(dataset)) : [];
  return {
    dataset,
    memory,
    stagedBeside,
    staging: new Staging(dataset, new StagingFolder(memory, 'in memory')),
  };
}

const place = (dataset: string, files: readonly string[]) => new FolderCommits(dataset).place(files.map(rowFile));

const lastDataFile = (manifest: Buffer): string =>
  parseManifest(manifest).files.findLast(({ kind }) => kind === 'data')?.path ?? '';

test('new rows are staged in memory, and copied from there to where they belong', async (t) => {
  const { dataset, memory, staging, stagedBeside } = places(t);
  const staged = await staging.stage(rows(5));
  assert.equal(staged.rows, 5);
  assert.deepEqual([readdirSync(memory).length, stagedBeside()], [1, []]);
  place(dataset, staged.files);
  assert.deepEqual(
    readdirSync(join(dataset, 'data')),
    staged.files.map((path) => basename(path)),
  );
  staged.discard();
  assert.deepEqual(readdirSync(memory), []);
});

test('many bytes are staged where they belong, from where they are renamed (P7)', async (t) => {
  const { dataset, memory, staging, stagedBeside } = places(t);
  const staged = await staging.stage(rows(300_000));
  assert.deepEqual([existsSync(memory), stagedBeside().length], [false, 1]);
  place(dataset, staged.files);
  assert.equal(readdirSync(join(dataset, 'data')).length, 1);
});

test('where there is no room in memory, they are staged where they belong', async (t) => {
  const { dataset, memory, staging, stagedBeside } = places(t);
  writeFileSync(memory, 'in the way');
  const staged = await staging.stage(rows(5));
  assert.equal(stagedBeside().length, 1);
  place(dataset, staged.files);
  assert.equal(readdirSync(join(dataset, 'data')).length, 1);
});

test('a copy that fails leaves nothing', async (t) => {
  const { dataset, staging } = places(t);
  const staged = await staging.stage(rows(5));
  writeFileSync(join(dataset, 'data'), 'in the way');
  assert.throws(() => place(dataset, staged.files), { code: 'ENOTDIR' });
  assert.deepEqual(readdirSync(dataset), ['data']);
});

test('of two files that are moved the first is where it was if the second cannot follow', async (t) => {
  const { dataset, memory } = places(t);
  mkdirSync(memory);
  const engine = engineIn(memory);
  const made = await createDataset(engine, 'two.lance' as Location, rows(5), {});
  await appendTo(made, rows(5));
  made.close();
  const folder = join(memory, 'two.lance');
  const manifest = readManifest(join(folder, '_versions'), 2)?.bytes ?? Buffer.of();
  rmSync(join(folder, 'data', lastDataFile(manifest)));
  assert.throws(() => place(dataset, rowsIn(manifest, folder).files), { code: 'ENOENT' });
  assert.deepEqual([readdirSync(join(dataset, 'data')), readdirSync(join(folder, 'data')).length], [[], 1]);
});

test('what cannot be stored is refused, and leaves nothing in memory either', async (t) => {
  const { memory, staging } = places(t);
  await assert.rejects(staging.stage(Buffer.from('not Arrow') as unknown as IpcFile));
  assert.deepEqual(readdirSync(memory), []);
});

test('an overwrite by staged rows shows its own columns at once', async (t) => {
  const engine = engineIn(temporaryFolder((clean) => t.after(clean)));
  const dataset = await createDataset(engine, 't.lance' as Location, rows(5), {});
  t.after(() => dataset.close());
  const namesOf = async () => (await dataset.columns()).schema.fields.map(({ name }) => name);
  assert.deepEqual(await namesOf(), ['id']);
  const source = dataset.stageSource(undefined) ?? assert.fail('nothing can be staged');
  await source.append(ipcFile(new Table({ other: vectorFromArray(new Int32Array(3)) })));
  assert.deepEqual(await dataset.insertRows(source, 'overwrite'), { version: 2, fragments: [] });
  source.discard();
  assert.deepEqual([await namesOf(), await dataset.countRows()], [['other'], 3]);
});
