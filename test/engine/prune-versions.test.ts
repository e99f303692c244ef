/** Old versions are removed without the engine: what stays is readable to the last row, also after a crash in the middle. */
import assert from 'node:assert/strict';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import { tableFromArrays } from 'apache-arrow';
import type { Dataset } from '#src/engine/port/dataset.ts';
import { LancegateError } from '#src/kernel/errors.ts';
import type { BranchName, Location } from '#src/kernel/ids.ts';
import { readManifest } from '#src/lance-format/manifest/manifest-files.ts';
import { manifestFileOf, parseManifest, sectionsOf } from '#src/lance-format/manifest/parse-manifest.ts';
import * as messages from '#src/lance-format/messages.ts';
import { edit } from '#src/lance-format/protobuf.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { allVersions, createDataset } from '#test/fixtures/create-dataset.ts';
import { createIndex } from '#test/fixtures/create-index.ts';
import { engineIn } from '#test/fixtures/engine-in.ts';
import { mergeInto } from '#test/fixtures/engine-writes.ts';
import { onStore } from '#test/fixtures/table-places.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { upsertOn } from '#test/fixtures/upsert.ts';

const location = 't.lance' as Location;
const branch = 'a/b' as BranchName;
const rows = (from: number, count: number) =>
  ipcFile(tableFromArrays({ id: Int32Array.from({ length: count }, (_, i) => from + i) }));

const future = Date.now() + 3_600_000;

interface Old {
  readonly folder: string;
  readonly datasetPath: string;
  readonly dataset: Dataset;
}

/** Ten versions: one that makes the table, an index, eight that replace some rows and add others. */
async function oldTable(t: TestContext): Promise<Old> {
  const folder = temporaryFolder((clean) => t.after(clean));
  const dataset = await createDataset(engineIn(folder), location, rows(0, 100), {});
  t.after(() => dataset.close());
  await createIndex(dataset, 'id');
  for (let i = 0; i < 8; i++) await mergeInto(dataset, upsertOn('id'), rows(50 + 10 * i, 60));
  return { folder, datasetPath: join(folder, location), dataset };
}

/** Every version of every branch that is listed, read by another program to the last row. */
async function readAll(folder: string, of?: string): Promise<ReadonlyMap<number, number>> {
  const main = await (await connect(folder)).openTable('t');
  const table = of === undefined ? main : await (await main.branches()).checkout(of);
  const counts = new Map<number, number>();
  for (const { version } of await table.listVersions()) {
    await table.checkout(version);
    counts.set(version, (await table.query().toArray()).length);
  }
  return counts;
}

const filesIn = (folder: string): readonly string[] => readdirSync(folder, { recursive: true }).map(String).sort();

describe('removing old versions without room to write (P8)', () => {
  test('removes nothing once the process has lost the table', async (t) => {
    const { folder, dataset } = await oldTable(t);
    const before = filesIn(folder);
    const confirm = () => Promise.reject(new LancegateError('WriterMoved', 'moved'));
    const pruning = dataset.prune({ supersededBeforeMs: future, keptFromVersion: await dataset.version(), confirm });
    await assert.rejects(pruning, { kind: 'WriterMoved' });
    assert.deepEqual(filesIn(folder), before);
  });

  test('a process that lost the table in the middle removes no more than the few that it had confirmed', async (t) => {
    const { datasetPath, dataset } = await oldTable(t);
    for (let i = 0; i < 8; i++) await mergeInto(dataset, upsertOn('id'), rows(50 + 10 * i, 60));
    const before = filesIn(datasetPath);
    let asked = 0;
    const confirm = async () => {
      if (++asked > 1) throw new LancegateError('WriterMoved', 'moved');
    };
    const pruning = dataset.prune({ supersededBeforeMs: future, keptFromVersion: await dataset.version(), confirm });
    await assert.rejects(pruning, { kind: 'WriterMoved' });
    assert.deepEqual([asked, before.length - filesIn(datasetPath).length], [2, 32]);
  });

  for (const isFirst of [true, false]) {
    const says = isFirst ? 'says that nothing was written' : 'does not say that nothing was written';
    test(`what refuses the ${isFirst ? 'first' : 'second'} removal ${says} (P6)`, async (t) => {
      const { dataset } = await oldTable(t);
      let asked = 0;
      const confirm = async () => {
        if (++asked > (isFirst ? 0 : 1)) throw new LancegateError('CatalogUnavailable', 'nothing was written');
      };
      const pruning = dataset.prune({ supersededBeforeMs: future, keptFromVersion: await dataset.version(), confirm });
      await assert.rejects(pruning, { kind: isFirst ? 'CatalogUnavailable' : 'Internal' });
    });
  }

  test('a process that stood still while it asked removes nothing, whatever the answer was', async (t) => {
    const { folder, dataset } = await oldTable(t);
    const before = filesIn(folder);
    let stoodStillMs = 0;
    const now = performance.now.bind(performance);
    t.mock.method(performance, 'now', () => now() + stoodStillMs);
    const confirm = async () => {
      stoodStillMs += 10_000;
    };
    const pruning = dataset.prune({ supersededBeforeMs: future, keptFromVersion: await dataset.version(), confirm });
    await assert.rejects(pruning, { kind: 'CatalogUnavailable' });
    assert.deepEqual(filesIn(folder), before);
  });

  test('begins with the files of versions, so that a crash leaves none that nothing names', async (t) => {
    const { datasetPath, dataset } = await oldTable(t);
    const filesOf = (within: string) => readdirSync(join(datasetPath, within)).length;
    const before = { versions: filesOf('_versions'), transactions: filesOf('_transactions') };
    const confirm = () =>
      filesOf('_transactions') === before.transactions
        ? Promise.resolve()
        : Promise.reject(new LancegateError('WriterMoved', 'moved'));
    const pruning = dataset.prune({ supersededBeforeMs: future, keptFromVersion: await dataset.version(), confirm });
    await assert.rejects(pruning, { kind: 'WriterMoved' });
    assert.equal(filesOf('_versions'), before.versions);
  });

  test('leaves what a detached version names', async (t) => {
    const { datasetPath, dataset } = await oldTable(t);
    const versions = join(datasetPath, '_versions');
    const [first] = (await dataset.versionPage(allVersions)).map(({ manifestPath }) => manifestPath);
    cpSync(join(datasetPath, first ?? ''), join(versions, 'd7.manifest'));
    const { files } = parseManifest(readFileSync(join(versions, 'd7.manifest')));
    const named = files.map(({ kind, path }) => `${kind === 'data' ? 'data' : '_transactions'}/${path}`);
    assert.ok(named.length >= 2);
    await dataset.prune({ supersededBeforeMs: future, keptFromVersion: await dataset.version() });
    const weekAgo = new Date(Date.now() - 8 * 24 * 3_600_000);
    for (const path of filesIn(datasetPath)) utimesSync(join(datasetPath, path), weekAgo, weekAgo);
    await mergeInto(dataset, upsertOn('id'), rows(0, 5));
    await dataset.prune({ supersededBeforeMs: future, keptFromVersion: await dataset.version() });
    const left = filesIn(datasetPath);
    for (const each of named) assert.ok(left.includes(each), each);
  });

  test('looks for what no manifest names once a day where a listing takes many requests', async (t) => {
    const { engine, folder } = onStore.open(t);
    const dataset = await createDataset(engine, location, rows(0, 100), {});
    t.after(() => dataset.close());
    const orphan = join(folder, location, '_deletions/0-3-77.arrow');
    const hourMs = 3_600_000;
    const prune = (nowMs: number) => dataset.prune({ supersededBeforeMs: nowMs, keptFromVersion: 1 });
    await prune(future);
    mkdirSync(dirname(orphan), { recursive: true });
    writeFileSync(orphan, 'cut short');
    utimesSync(orphan, 0, 0);
    await prune(future + 23 * hourMs);
    assert.ok(existsSync(orphan));
    await prune(future + 25 * hourMs);
    assert.ok(!existsSync(orphan));
    assert.equal(await dataset.countRows(), 100);
  });

  test('leaves the newest version, and not a file of the others', async (t) => {
    const { folder, datasetPath, dataset } = await oldTable(t);
    const newest = await dataset.version();
    const result = await dataset.prune({ supersededBeforeMs: future, keptFromVersion: newest });
    assert.equal(result?.removedVersions, newest - 1);
    assert.ok(Number(result?.removedBytes) > 1_000);
    assert.deepEqual([...(await readAll(folder))], [[newest, 180]]);
    assert.equal(readdirSync(join(datasetPath, '_versions')).filter((name) => name.endsWith('.manifest')).length, 1);
    assert.equal(readdirSync(join(datasetPath, '_transactions')).length, 1);
    assert.ok(readdirSync(join(datasetPath, '_indices')).length <= 1);
    await mergeInto(dataset, upsertOn('id'), rows(1_000, 5));
    assert.equal(await dataset.countRows(), 185);
  });

  test('keeps what is younger, what is acknowledged, what a tag names, and what a branch starts from', async (t) => {
    const { folder, dataset } = await oldTable(t);
    await (await (await (await connect(folder)).openTable('t')).tags()).create('mine', 4);
    await dataset.branches.create(branch, { branch: undefined, version: 6 });
    const before = await readAll(folder);
    const facts = await dataset.versionPage(allVersions);
    assert.deepEqual(await dataset.prune({ supersededBeforeMs: facts[0]!.committedAtMs, keptFromVersion: 10 }), {
      removedVersions: 0,
      removedBytes: 0,
      isHeldByTag: false,
    });
    assert.equal((await dataset.prune({ supersededBeforeMs: future, keptFromVersion: 9 }))?.isHeldByTag, true);
    const after = await readAll(folder);
    assert.deepEqual([...after.keys()], [4, 6, 9, 10]);
    for (const [version, count] of after) assert.equal(count, before.get(version));
    assert.deepEqual([...(await readAll(folder, branch)).values()], [before.get(6)]);
  });

  test('of a branch leaves its parent alone, whose files it reads', async (t) => {
    const { folder, datasetPath, dataset } = await oldTable(t);
    await dataset.branches.create(branch, { branch: undefined, version: undefined });
    const onBranch = await engineIn(folder).open({ location, branch });
    t.after(() => onBranch.close());
    for (let i = 0; i < 4; i++) await mergeInto(onBranch, upsertOn('id'), rows(i, 30));
    const before = await readAll(folder);
    const parentFiles = () => filesIn(datasetPath).filter((name) => !name.startsWith('tree'));
    const untouched = parentFiles();
    const newest = await onBranch.version();
    await onBranch.prune({ supersededBeforeMs: future, keptFromVersion: newest });
    assert.deepEqual([...(await readAll(folder, branch))], [[newest, 180]]);
    assert.deepEqual(parentFiles(), untouched);
    assert.deepEqual(await readAll(folder), before);
  });

  test('leaves what a branch of a branch reads, whose parents stay while it is there', async (t) => {
    const { folder, dataset } = await oldTable(t);
    const child = 'c' as BranchName;
    await dataset.branches.create(branch, { branch: undefined, version: 6 });
    const onBranch = await engineIn(folder).open({ location, branch });
    t.after(() => onBranch.close());
    await mergeInto(onBranch, upsertOn('id'), rows(1_000, 5));
    await dataset.branches.create(child, { branch, version: undefined });
    await assert.rejects(dataset.branches.delete(branch), /other branches that start from it/);
    await mergeInto(onBranch, upsertOn('id'), rows(0, 200));
    for (const each of [dataset, onBranch]) {
      await each.prune({ supersededBeforeMs: future, keptFromVersion: await each.version() });
    }
    assert.deepEqual([...(await readAll(folder, child)).values()], [145]);
  });

  test('leaves alone what no manifest names, which may be about to be committed', async (t) => {
    const { datasetPath, dataset } = await oldTable(t);
    const own = join(datasetPath, 'data', readdirSync(join(datasetPath, 'data'))[0] ?? '');
    const staged = join(datasetPath, 'data/00000000-0000-4000-8000-000000000000.lance');
    cpSync(own, staged);
    await dataset.prune({ supersededBeforeMs: future, keptFromVersion: await dataset.version() });
    assert.ok(filesIn(datasetPath).includes('data/00000000-0000-4000-8000-000000000000.lance'));
  });

  test('removes what no manifest names once it is older than any commit, and nothing else', async (t) => {
    const { folder, datasetPath, dataset } = await oldTable(t);
    await dataset.branches.create(branch, { branch: undefined, version: 6 });
    const orphans = [
      'data/00000000-0000-4000-8000-000000000000.lance',
      '_deletions/0-3-77.arrow',
      '_transactions/3-00000000-0000-4000-8000-000000000000.txn',
      '_versions/.tmp_4.manifest_00000000-0000-4000-8000-000000000000',
      '_versions/18446744073709551610.manifest-00000000-0000-4000-8000-000000000000',
      '_indices/00000000-0000-4000-8000-000000000000',
    ];
    for (const orphan of orphans) {
      mkdirSync(dirname(join(datasetPath, orphan)), { recursive: true });
      writeFileSync(join(datasetPath, orphan), 'cut short');
    }
    const weekAgo = new Date(Date.now() - 8 * 24 * 3_600_000);
    for (const path of filesIn(datasetPath)) utimesSync(join(datasetPath, path), weekAgo, weekAgo);
    await dataset.prune({ supersededBeforeMs: Date.now() + 60_000, keptFromVersion: await dataset.version() });
    assert.deepEqual(
      orphans.filter((orphan) => filesIn(datasetPath).includes(orphan)),
      [],
    );
    assert.deepEqual([...(await readAll(folder)).values()], [140, 180]);
    assert.equal((await readAll(folder, branch)).get(6), 140);
  });

  const unreadable: Readonly<Record<string, (manifest: Buffer) => Buffer>> = {
    'cannot be read': () => Buffer.of(),
    'has feature flags that are not known': (manifest) => {
      const { message, ...sections } = sectionsOf(manifest);
      return manifestFileOf(
        { ...sections, message: edit(messages.manifest, message, { readerFlags: 2n ** 40n }) },
        manifest,
      );
    },
  };
  for (const [what, made] of Object.entries(unreadable)) {
    test(`removes nothing while a manifest ${what}`, async (t) => {
      const { datasetPath, dataset } = await oldTable(t);
      await dataset.branches.create(branch, { branch: undefined, version: 6 });
      const path = readManifest(join(datasetPath, '_versions'), 3)?.path ?? '';
      writeFileSync(path, made(readFileSync(path)));
      const before = filesIn(datasetPath);
      await assert.rejects(dataset.prune({ supersededBeforeMs: future, keptFromVersion: 10 }), {
        kind: 'Internal',
      });
      assert.deepEqual(filesIn(datasetPath), before);
    });
  }
});
