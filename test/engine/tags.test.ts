/** Tags on a file system are written by this service: durable before they count, whole or not there, and read by the engine. */
import assert from 'node:assert/strict';
import { readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import { tableFromArrays } from 'apache-arrow';
import { LanceEngine } from '#src/engine/lance/adapter/lance-engine.ts';
import type { NewTag } from '#src/engine/port/stored-tags.ts';
import type { BranchName, Location } from '#src/kernel/ids.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { mergeInto } from '#test/fixtures/engine-writes.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { upsertOn } from '#test/fixtures/upsert.ts';

const location = 't.lance' as Location;
const dev = 'dev' as BranchName;
const rows = (...ids: number[]) => ipcFile(tableFromArrays({ id: Int32Array.from(ids) }));
const tag = (name: string, version: number, branch?: BranchName): NewTag => ({
  ...{ name, branch, version, manifestBytes: 1, requestId: 'r', nowMs: 1_700_000_000_000 },
});

/** Three versions, and a branch that starts from the second. `fail` is asked before each sync of a file. */
async function taggable(t: TestContext, fail: (path: string) => boolean = () => false) {
  const folder = temporaryFolder((clean) => t.after(clean));
  const synced: string[] = [];
  const fileSync = {
    file: async (path: string) => {
      if (fail(path)) throw new Error('it fails');
      assert.ok(statSync(path).isFile());
      synced.push(path);
    },
    folder: async (path: string) => {
      assert.ok(statSync(path).isDirectory());
      synced.push(path);
    },
  };
  const caches = { indexCacheBytes: 1 << 24, metadataCacheBytes: 1 << 24 };
  const scratchFolder = join(folder, 'scratch');
  const engine = new LanceEngine({ root: folder, rootOptions: {}, scratchFolder, ...caches, fileSync });
  const dataset = await createDataset(engine, location, rows(1), {});
  t.after(() => dataset.close());
  for (const id of [2, 3]) await mergeInto(dataset, upsertOn('id'), rows(id));
  await dataset.branches.create(dev, { branch: undefined, version: 2 });
  const native = async () => (await connect(folder)).openTable('t');
  const tagFolder = join(folder, 't.lance', '_refs', 'tags');
  return { folder, dataset, native, tagFolder, synced };
}

describe('tags on a file system', () => {
  test('are what the engine reads, and those of the engine are read', async (t) => {
    const { dataset, native } = await taggable(t);
    assert.equal(await dataset.tags.create(tag('ours', 1)), true);
    await (await (await native()).tags()).create('theirs', 2);
    await dataset.tags.create(tag('branched', 2, dev));
    const found = (await dataset.tags.list()).map(({ name, branch, version }) => [name, branch, version]);
    assert.deepEqual(found.sort(), [
      ['branched', 'dev', 2],
      ['ours', undefined, 1],
      ['theirs', undefined, 2],
    ]);
    const listed = Object.keys(await (await (await native()).tags()).list()).sort();
    assert.deepEqual(listed, ['branched', 'ours', 'theirs']);
  });

  test('of other programs are read whatever their metadata is', async (t) => {
    const { dataset, tagFolder } = await taggable(t);
    await dataset.tags.create(tag('ours', 1));
    const contents = {
      none: { metadata: null },
      number: { metadata: 7 },
      list: { metadata: ['a'], manifestSize: 'large' },
      mixed: { metadata: { text: 'b', number: 1, object: {}, nothing: null }, manifestSize: null },
    };
    for (const [name, content] of Object.entries(contents)) {
      writeFileSync(join(tagFolder, `${name}.json`), JSON.stringify({ branch: null, version: 2, ...content }));
    }
    const found = (await dataset.tags.list()).filter(({ name }) => name !== 'ours');
    const read = found.map(({ name, metadata, manifestBytes }) => [name, metadata, manifestBytes]);
    assert.deepEqual(read.sort(), [
      ['list', {}, 0],
      ['mixed', { text: 'b' }, 0],
      ['none', {}, 0],
      ['number', {}, 0],
    ]);
    await dataset.tags.update(tag('mixed', 1), found.find(({ name }) => name === 'mixed')!);
  });

  test('a change has its content and its name on the disk before it counts (P3)', async (t) => {
    const { dataset, tagFolder, synced } = await taggable(t);
    synced.length = 0;
    await dataset.tags.create(tag('v', 1));
    const path = join(tagFolder, 'v.json');
    const [draft] = synced;
    assert.ok(draft?.includes('draft') && synced.indexOf(path) > 0, 'the draft first, then the tag');
    for (const folder of [tagFolder, join(tagFolder, '..')]) assert.ok(synced.includes(folder), folder);
    const [before] = await dataset.tags.list();
    synced.length = 0;
    await dataset.tags.update(tag('v', 2), before!);
    assert.ok(synced.includes(path) && synced.includes(tagFolder));
    synced.length = 0;
    await dataset.tags.remove('v');
    assert.deepEqual(synced, [tagFolder]);
    assert.deepEqual(readdirSync(tagFolder), []);
  });

  test('a failing disk leaves the tag that was there, and the next change clears what a crash left (P1)', async (t) => {
    let fails = false;
    const { dataset, tagFolder } = await taggable(t, (path) => fails && path.includes('draft'));
    await dataset.tags.create(tag('v', 1));
    const [before] = await dataset.tags.list();
    fails = true;
    await assert.rejects(dataset.tags.update(tag('v', 2), before!));
    await assert.rejects(dataset.tags.create(tag('w', 2)));
    assert.deepEqual(await dataset.tags.list(), [before]);
    fails = false;
    writeFileSync(join(tagFolder, '.lancegate-draft-of-a-crash'), '{"vers');
    assert.deepEqual(await dataset.tags.list(), [before]);
    await dataset.tags.create(tag('w', 2));
    assert.deepEqual(readdirSync(tagFolder).sort(), ['v.json', 'w.json']);
  });

  test('a change keeps when the tag was made, and what another program noted there', async (t) => {
    const { dataset, tagFolder } = await taggable(t);
    await dataset.tags.create(tag('v', 1));
    const made = '2020-01-01T00:00:00.000Z';
    const noted = {
      branch: null,
      version: 1,
      manifestSize: 1,
      createdAt: made,
      updatedAt: made,
      metadata: { by: 'other' },
    };
    writeFileSync(join(tagFolder, 'v.json'), JSON.stringify(noted));
    const [before] = await dataset.tags.list();
    await dataset.tags.update(tag('v', 2), before!);
    const [after] = await dataset.tags.list();
    assert.deepEqual(after, {
      ...{ ...before, version: 2, requestId: 'r', metadata: { by: 'other' } },
      ...{ createdAt: made, updatedAt: '2023-11-14T22:13:20.000Z' },
    });
  });

  test('a name that is taken stays with its tag, also one of another program', async (t) => {
    const { dataset, native } = await taggable(t);
    await (await (await native()).tags()).create('theirs', 2);
    assert.equal(await dataset.tags.create(tag('theirs', 1)), false);
    assert.deepEqual(
      (await dataset.tags.list()).map(({ version }) => version),
      [2],
    );
  });

  test('pruning keeps a version for a tag on its own branch only, and removes nothing if a tag cannot be read', async (t) => {
    const { dataset, tagFolder } = await taggable(t);
    for (const id of [4, 5]) await mergeInto(dataset, upsertOn('id'), rows(id));
    await dataset.tags.create(tag('on-main', 3));
    await dataset.tags.create(tag('on-dev', 4, dev));
    const prune = () => dataset.prune({ supersededBeforeMs: Date.now() + 3_600_000, keptFromVersion: 5 });
    writeFileSync(join(tagFolder, 'torn.json'), '{"vers');
    await assert.rejects(prune());
    writeFileSync(join(tagFolder, 'torn.json'), '{"branch":null,"version":1,"manifestSize":1}');
    assert.deepEqual([(await prune())?.removedVersions, (await prune())?.isHeldByTag], [1, true]);
    const page = await dataset.versionPage({ after: undefined, limit: 9, order: 'ascending' });
    assert.deepEqual(
      page.map(({ version }) => version),
      [1, 2, 3, 5],
    );
  });
});
