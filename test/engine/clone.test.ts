/** The files of a clone: durable before the clone counts, and none from outside the storage root. */
import assert from 'node:assert/strict';
import { cpSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { tableFromArrays } from 'apache-arrow';
import { LanceEngine } from '#src/engine/lance/adapter/lance-engine.ts';
import { btreeOn } from '#src/engine/port/index-spec.ts';
import type { Location } from '#src/kernel/ids.ts';
import { manifestNames } from '#src/lance-format/manifest/manifest-files.ts';
import { manifestFileOf, sectionsOf } from '#src/lance-format/manifest/parse-manifest.ts';
import { basePath, manifest } from '#src/lance-format/messages.ts';
import { decode, edit } from '#src/lance-format/protobuf.ts';
import { shadowManifest } from '#src/lance-format/shadow/shadow-manifest.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { mergeInto } from '#test/fixtures/engine-writes.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { upsertOn } from '#test/fixtures/upsert.ts';

const [source, target] = ['t.lance', 'c.lance'] as Location[] as [Location, Location];
const rows = (...ids: number[]) => ipcFile(tableFromArrays({ id: Int32Array.from(ids) }));

/** A table with an index and a deletion vector. */
async function cloneable(t: TestContext) {
  const folder = temporaryFolder((clean) => t.after(clean));
  const synced = new Set<string>();
  const note = async (path: string) => void synced.add(path);
  const caches = { indexCacheBytes: 1 << 24, metadataCacheBytes: 1 << 24 };
  const scratchFolder = join(folder, 'scratch');
  const fileSync = { file: note, folder: note };
  const engine = new LanceEngine({ root: folder, rootOptions: {}, scratchFolder, ...caches, fileSync });
  const dataset = await createDataset(engine, source, rows(1, 2, 3), {});
  t.after(() => dataset.close());
  await (await dataset.prepareIndex(btreeOn('id'))).commit();
  await mergeInto(dataset, upsertOn('id'), rows(2, 4));
  return { folder, engine, dataset, synced, from: { location: source, branch: undefined } };
}

describe('a clone', () => {
  test('has every file and folder on the disk when it resolves (P3)', async (t) => {
    const { folder, engine, dataset, synced, from } = await cloneable(t);
    synced.clear();
    await engine.clone({ ...from, version: await dataset.version() }, target);
    const made = readdirSync(join(folder, target), { recursive: true, withFileTypes: true });
    const all = made.filter((each) => each.isFile()).map((each) => join(each.parentPath, each.name));
    const files = all.filter((path) => !path.endsWith('_hint.json')); // nothing depends on it
    for (const part of ['data', '_deletions', '_indices', '_versions'])
      assert.ok(
        files.some((file) => file.startsWith(join(folder, target, part))),
        part,
      );
    const missing = [...files, ...files.map((file) => dirname(file)), folder].filter((path) => !synced.has(path));
    assert.deepEqual(missing, []);
  });

  test('names its manifest as the table does that it is made of', async (t) => {
    const { folder, engine, dataset, from } = await cloneable(t);
    const version = await dataset.version();
    const [newName, oldName] = manifestNames(version);
    const versions = join(folder, source, '_versions');
    renameSync(join(versions, newName), join(versions, oldName));
    await engine.clone({ ...from, version }, target);
    assert.deepEqual(
      readdirSync(join(folder, target, '_versions')).filter((name) => name.endsWith('.manifest')),
      [oldName],
    );
  });

  test('has the files of a base path that is the root of no dataset, where they lie in it directly', async (t) => {
    const { folder, engine } = await cloneable(t);
    const plain = 'p.lance' as Location;
    (await createDataset(engine, plain, rows(1, 2, 3), {})).close();
    renameSync(join(folder, plain, 'data'), join(folder, 'files'));
    const path = join(folder, plain, '_versions', manifestNames(1)[0]);
    const shadow = shadowManifest(readFileSync(path), { folder: join(folder, 'files'), version: 1 });
    const { message, indexes, transaction } = sectionsOf(shadow);
    const { basePaths = [] } = decode(manifest, message, ['basePaths']);
    const changed = { basePaths: basePaths.map((each) => edit(basePath, each, { isDatasetRoot: false })) };
    writeFileSync(path, manifestFileOf({ message: edit(manifest, message, changed), indexes, transaction }, shadow));
    await engine.clone({ location: plain, branch: undefined, version: 1 }, target);
    rmSync(join(folder, 'files'), { recursive: true });
    const clone = await engine.open({ location: target });
    t.after(() => clone.close());
    assert.equal((await mergeInto(clone, upsertOn('id'), rows(3, 4))).numUpdatedRows, 1);
  });

  for (const [where, placed] of [
    ['elsewhere', (_root: string, theirs: string) => theirs],
    ['in a folder whose name begins as that of the root', (root: string, _theirs: string) => `${root}-other`],
  ] as const) {
    test(`is made of no files from outside the storage root, ${where} (P9)`, async (t) => {
      const { folder, engine, dataset, from } = await cloneable(t);
      const other = await cloneable(t);
      const version = (await dataset.version()) + 1;
      const theirs = placed(folder, join(other.folder, source));
      if (theirs !== join(other.folder, source)) cpSync(join(other.folder, source), theirs, { recursive: true });
      t.after(() => rmSync(theirs, { recursive: true, force: true }));
      const [name] = manifestNames(await other.dataset.version());
      const bytes = shadowManifest(readFileSync(join(theirs, '_versions', name)), { folder: theirs, version });
      writeFileSync(join(folder, source, '_versions', manifestNames(version)[0]), bytes);
      await assert.rejects(engine.clone({ ...from, version }, target), {
        kind: 'Unsupported',
        message: /files outside the storage root/,
      });
      mkdirSync(join(folder, target), { recursive: true });
      const linked = readdirSync(join(folder, target), { recursive: true, withFileTypes: true });
      assert.deepEqual(
        linked.filter((each) => each.isFile()),
        [],
      );
    });
  }
});
