import assert from 'node:assert/strict';
import {
  closeSync,
  existsSync,
  openSync,
  readdirSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { describe, test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import { Int32, Table, vectorFromArray } from 'apache-arrow';
import { LanceEngine } from '#src/engine/lance/adapter/lance-engine.ts';
import { DiskSync, type FileSync } from '#src/engine/lance/durability/durability.ts';
import type { Dataset } from '#src/engine/port/dataset.ts';
import type { Recovery } from '#src/engine/port/engine.ts';
import type { LiveRows } from '#src/engine/port/row-address.ts';
import { LancegateError } from '#src/kernel/errors.ts';
import type { BranchName, Location } from '#src/kernel/ids.ts';
import { listVersions, readManifest, storedFiles } from '#src/lance-format/manifest/manifest-files.ts';
import { parseManifest } from '#src/lance-format/manifest/parse-manifest.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { createIndex } from '#test/fixtures/create-index.ts';
import { appendTo, mergeInto } from '#test/fixtures/engine-writes.ts';
import { addNullColumn, dropColumn } from '#test/fixtures/null-column.ts';
import { propose } from '#test/fixtures/proposed-version.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { upsertOn } from '#test/fixtures/upsert.ts';
import { Random } from '#test/model/random.ts';

const at = 'folder/t.lance' as Location;
const upsert = { ...upsertOn('id'), useIndex: false };
const table = (...ids: readonly number[]) => ipcFile(new Table({ id: vectorFromArray(ids, new Int32()) }));

class RecordingSync implements FileSync {
  readonly files: string[] = [];
  readonly folders: string[] = [];
  /** The folder none of whose files can be synced. */
  failing: string | undefined;

  async file(path: string): Promise<void> {
    if (basename(dirname(path)) === this.failing) throw new Error('it fails');
    assert.ok(statSync(path).isFile());
    this.files.push(path);
  }

  async folder(path: string): Promise<void> {
    assert.ok(statSync(path).isDirectory());
    this.folders.push(path);
  }

  /** What was synced since the last call. */
  take(): { files: string[]; folders: string[] } {
    return { files: this.files.splice(0).sort(), folders: this.folders.splice(0).sort() };
  }
}

interface Place {
  readonly engine: LanceEngine;
  readonly sync: RecordingSync;
  readonly root: string;
  readonly path: string;
}

function place(t: { after(clean: () => void): void }): Place {
  const folder = temporaryFolder((clean) => t.after(clean));
  const sync = new RecordingSync();
  const root = join(folder, 'tables');
  const options = { rootOptions: {}, indexCacheBytes: 1 << 20, metadataCacheBytes: 1 << 20 };
  const engine = new LanceEngine({
    ...options,
    root,
    scratchFolder: join(folder, 'scratch'),
    fileSync: sync,
    machineStart: { id: 'tuesday', atMs: Number.POSITIVE_INFINITY },
  });
  return { engine, sync, root, path: join(root, at) };
}

/** The files of a version, its manifest among them. */
function filesOf(folder: string, version: number): string[] {
  const found = readManifest(join(folder, '_versions'), version);
  assert.ok(found !== undefined, `version ${version} is there`);
  return [found.path, ...storedFiles(parseManifest(found.bytes), folder).map(({ path }) => path)].sort();
}

function trackedRows(dataset: Dataset, version: number): LiveRows {
  const tracked = dataset.liveRows();
  assert.ok(tracked !== undefined);
  tracked.advance(version);
  return tracked;
}

/** The first row of those left in the first fragment. */
async function replaceFirst(dataset: Dataset, tracked: LiveRows): Promise<void> {
  const [first] = tracked.rowsOf(0);
  assert.ok(first !== undefined);
  const replaced = await dataset.replaceRows(tracked, [first], { file: table(9), rows: 1 });
  assert.equal(typeof replaced, 'object', String(replaced));
}

const newIn = (folder: string, version: number): string[] => {
  const before = filesOf(folder, version - 1);
  return filesOf(folder, version).filter((path) => !before.includes(path));
};

describe('a sync', () => {
  test('takes what another program wrote for the version that it proposed, before that is acknowledged (P3)', async (t) => {
    const { engine, sync, path } = place(t);
    const dataset = await createDataset(engine, at, table(1), {});
    t.after(() => dataset.close());
    await dataset.sync();
    sync.take();
    const staged = await propose(
      (clean) => t.after(clean),
      path,
      (native) => native.add([{ id: 2 }]),
    );
    const { version, manifest_path: manifestPath, manifest_size: manifestBytes } = staged;
    const made = await dataset.commitManifest({ kind: 'proposed', version, manifestPath, manifestBytes, naming: 'V2' });
    assert.deepEqual(made, { version: 2 });
    assert.deepEqual(sync.take().files, []);
    await dataset.sync();
    const { files, folders } = sync.take();
    assert.deepEqual(files, newIn(path, 2));
    assert.ok(['_versions', 'data'].every((name) => folders.includes(join(path, name))));
  });

  test('comes with making a table, and takes all its files, their folders, and those above up to the one that holds the root (P3)', async (t) => {
    const { engine, sync, root, path } = place(t);
    const staged = await engine.newTable(at, {});
    for (const id of [1, 2]) await staged.append(table(id));
    assert.deepEqual(sync.take(), { files: [], folders: [] });
    assert.equal(await staged.commit(), 1);
    const { files, folders } = sync.take();
    assert.deepEqual(files, filesOf(path, 1));
    const inDataset = ['_transactions', '_versions', 'data'].map((name) => join(path, name));
    assert.deepEqual(folders, [dirname(root), root, join(root, 'folder'), path, ...inDataset].sort());
  });

  test('that fails fails the making of a table, of which no version is left (P1, P3)', async (t) => {
    for (const failing of ['data', '_transactions', '_versions']) {
      const { engine, sync } = place(t);
      sync.failing = failing;
      await assert.rejects(createDataset(engine, at, table(1), {}), { kind: 'Internal' });
      await assert.rejects(engine.open({ location: at }));
    }
  });

  test('takes what the commits since the last one brought, and nothing twice (P3)', async (t) => {
    const { engine, sync, root, path } = place(t);
    const dataset = await createDataset(engine, at, table(1, 2), {});
    await dataset.sync();
    sync.take();
    await mergeInto(dataset, upsert, table(2, 3));
    await dataset.sync();
    const { files, folders } = sync.take();
    assert.deepEqual(files, newIn(path, 2));
    assert.equal(files.length, 4);
    assert.deepEqual(
      folders,
      [path, ...['_deletions', '_transactions', '_versions', 'data'].map((name) => join(path, name))].sort(),
    );
    await dataset.sync();
    assert.deepEqual(sync.take(), { files: [], folders: [] });
    await addNullColumn(join(root, 'folder'), dataset, 'nothing');
    await mergeInto(dataset, { ...upsert, on: ['id'] }, table(9));
    await dropColumn(join(root, 'folder'), dataset, 'nothing');
    await dataset.sync();
    assert.deepEqual(sync.take().files, [3, 4, 5].flatMap((version) => newIn(path, version)).sort());
  });

  test('of rows that were replaced by their addresses takes each file once, deletion vectors before the commit (P3)', async (t) => {
    const { engine, sync, path } = place(t);
    const dataset = await createDataset(engine, at, table(1, 2, 3), {});
    await dataset.sync();
    const tracked = trackedRows(dataset, 1);
    for (const version of [2, 3]) {
      sync.take();
      await replaceFirst(dataset, tracked);
      const ahead = sync.take();
      await dataset.sync();
      const { files, folders } = sync.take();
      const deletions = newIn(path, version).filter((file) => file.includes('_deletions'));
      assert.deepEqual([ahead.files, deletions.length], [deletions, 1]);
      assert.ok(ahead.folders.includes(join(path, '_deletions')));
      assert.deepEqual([...ahead.files, ...files].sort(), newIn(path, version));
      for (const name of ['_transactions', '_versions', 'data']) assert.ok(folders.includes(join(path, name)), name);
    }
  });

  test('that fails is begun anew, with what was begun before the commit (P3)', async (t) => {
    const { engine, sync, path } = place(t);
    const dataset = await createDataset(engine, at, table(1, 2, 3), {});
    await dataset.sync();
    for (const failing of ['_deletions', '_versions']) {
      const version = (await dataset.version()) + 1;
      sync.failing = failing;
      await replaceFirst(dataset, trackedRows(dataset, version - 1));
      await assert.rejects(dataset.sync(), { kind: 'Internal' });
      sync.failing = undefined;
      sync.take();
      await dataset.sync();
      assert.deepEqual(sync.take().files, newIn(path, version));
    }
  });

  test('does not fail for what was begun for a commit that never came (P3, P6)', async (t) => {
    const { engine, sync, root, path } = place(t);
    const dataset = await createDataset(engine, at, table(1, 2, 3), {});
    await dataset.sync();
    const other = await (await connect(join(root, 'folder'))).openTable('t');
    await other.add([{ id: 5 }]);
    const [first] = trackedRows(dataset, 1).rowsOf(0);
    assert.ok(first !== undefined);
    sync.failing = '_deletions';
    const tracked = trackedRows(dataset, 1);
    assert.equal(await dataset.replaceRows(tracked, [first], { file: table(9), rows: 1 }), 'overtaken');
    await dataset.refresh();
    await appendTo(dataset, table(9));
    await dataset.sync();
    assert.equal(await dataset.version(), 3);
    assert.ok(newIn(path, 3).every((file) => sync.files.includes(file)));
  });

  test('takes the files of an index with the commit that made it: without them the table cannot be read by its key (P3)', async (t) => {
    const { engine, sync, path } = place(t);
    const dataset = await createDataset(engine, at, table(1, 2), {});
    await dataset.sync();
    sync.take();
    await createIndex(dataset, 'id');
    await dataset.sync();
    const indexes = join(path, '_indices');
    const [index = '', ...others] = readdirSync(indexes);
    const files = readdirSync(join(indexes, index)).map((name) => join(indexes, index, name));
    assert.deepEqual([others.length, files.length > 0], [0, true]);
    const { files: synced, folders } = sync.take();
    assert.deepEqual(synced, newIn(path, 2));
    assert.deepEqual(new Set(files).difference(new Set(synced)), new Set());
    assert.deepEqual(new Set([join(indexes, index), indexes, path]).difference(new Set(folders)), new Set());
  });

  test('takes what another program wrote before: a version is as durable as its oldest file (P3)', async (t) => {
    const { engine, sync, root, path } = place(t);
    await (await createDataset(engine, at, table(1), {})).sync();
    const other = await (await connect(join(root, 'folder'))).openTable('t');
    await other.add([{ id: 5 }]);
    sync.take();
    const dataset = await engine.open({ location: at });
    await mergeInto(dataset, upsert, table(6));
    await dataset.sync();
    assert.deepEqual(sync.take().files, filesOf(path, 3));
  });

  test('comes with making a branch, and takes the record of it (P3)', async (t) => {
    const { engine, sync, path } = place(t);
    const dataset = await createDataset(engine, at, table(1), {});
    await dataset.sync();
    sync.take();
    await dataset.branches.create('a/b' as BranchName, { branch: undefined, version: undefined });
    const { files, folders } = sync.take();
    const record = join(path, '_refs', 'branches', 'a%2Fb.json');
    assert.ok(existsSync(record) && files.includes(record));
    const tree = join(path, 'tree');
    for (const file of filesOf(join(tree, 'a', 'b'), 1)) assert.ok(files.includes(file), file);
    for (const folder of [
      dirname(record),
      join(path, '_refs'),
      path,
      tree,
      join(tree, 'a'),
      join(tree, 'a', 'b', '_versions'),
    ]) {
      assert.ok(folders.includes(folder), folder);
    }
  });

  test('that failed once fails from then on, since the disk forgets what it lost (P3)', async (t) => {
    const folder = temporaryFolder((clean) => t.after(clean));
    writeFileSync(join(folder, 'file'), 'x');
    const disk = new DiskSync(() => Promise.reject(Object.assign(new Error('EIO'), { code: 'EIO' })));
    await assert.rejects(disk.file(join(folder, 'file')), LancegateError);
    await assert.rejects(disk.folder(folder), LancegateError);
    const healthy = new DiskSync();
    await healthy.file(join(folder, 'file'));
    await healthy.folder(folder);
    await assert.rejects(healthy.file(join(folder, 'missing')), { code: 'ENOENT' });
    await healthy.file(join(folder, 'file'));
  });
});

describe('recovery', () => {
  /** Versions 1 to 3, of which the first two are acknowledged. */
  async function threeVersions(t: { after(clean: () => void): void }): Promise<Place> {
    const made = place(t);
    const dataset = await createDataset(made.engine, at, table(1), {});
    await mergeInto(dataset, upsert, table(1, 2));
    await mergeInto(dataset, upsert, table(2, 3));
    made.sync.take();
    return made;
  }

  const recover = (engine: LanceEngine, acknowledgedVersion: number, storageSession = 'monday'): Promise<Recovery> =>
    engine.recover({ location: at, branch: undefined, acknowledgedVersion, storageSession });

  const rows = async (engine: LanceEngine): Promise<number> => (await opened(engine)).countRows();
  const opened = (engine: LanceEngine): Promise<Dataset> => engine.open({ location: at });
  const manifestOf = (path: string, version: number): string =>
    readManifest(join(path, '_versions'), version)?.path ?? '';

  test('keeps a commit that was not acknowledged and is intact, and makes it durable (P1)', async (t) => {
    const { engine, sync, path } = await threeVersions(t);
    const recovery = await recover(engine, 2);
    assert.deepEqual(recovery, { version: 3, kept: [3], removed: [], removedFiles: 0, damage: undefined });
    assert.equal(await rows(engine), 3);
    assert.deepEqual(sync.take().files, filesOf(path, 3));
  });

  for (const [what, spoil] of [
    ['whose manifest is empty', (path: string) => truncateSync(manifestOf(path, 3))],
    ['whose data is cut short', (path: string) => truncateSync(dataOf(path), statSync(dataOf(path)).size - 1)],
    ['whose data is zeros', (path: string) => writeFileSync(dataOf(path), Buffer.alloc(statSync(dataOf(path)).size))],
    ['whose data is missing', (path: string) => rmSync(dataOf(path))],
    [
      'whose deletions are empty',
      (path: string) => truncateSync(newIn(path, 3).find((file) => file.endsWith('.arrow')) ?? ''),
    ],
  ] as const) {
    test(`removes a commit ${what}, and all it has left (P1)`, async (t) => {
      const { engine, path } = await threeVersions(t);
      const left = newIn(path, 3);
      spoil(path);
      const recovery = await recover(engine, 2);
      assert.deepEqual([recovery.version, recovery.removed.map(({ version }) => version)], [2, [3]]);
      assert.match(recovery.removed[0]?.reason ?? '', /manifest|bytes|missing|empty|does not|zeros/);
      assert.equal(await rows(engine), 2);
      assert.deepEqual(
        left.filter((file) => existsSync(file)),
        [],
      );
      const again = await recover(engine, 2);
      assert.deepEqual([again.version, again.removed], [2, []]);
    });
  }

  const dataOf = (path: string): string => newIn(path, 3).find((file) => file.endsWith('.lance')) ?? '';

  test('keeps an intact version of another program after a torn one that it does not need', async (t) => {
    const { engine, path } = await threeVersions(t);
    truncateSync(manifestOf(path, 2));
    const recovery = await recover(engine, 1);
    assert.deepEqual([recovery.version, recovery.kept, recovery.removed.map(({ version }) => version)], [3, [3], [2]]);
    assert.equal(await rows(engine), 3);
  });

  test('removes a version that needs a file which an earlier commit left torn', async (t) => {
    const { engine, path } = await threeVersions(t);
    truncateSync(newIn(path, 2).find((file) => file.endsWith('.lance')) ?? '', 10);
    const recovery = await recover(engine, 1);
    assert.deepEqual([recovery.version, recovery.removed.map(({ version }) => version)], [1, [2, 3]]);
    assert.equal(await rows(engine), 1);
  });

  test('touches nothing where the acknowledged version itself is damaged', async (t) => {
    for (const damage of [
      (path: string) => truncateSync(manifestOf(path, 2), 9),
      (path: string) => rmSync(newIn(path, 2).find((file) => file.endsWith('.lance')) ?? ''),
    ]) {
      const { engine, path } = await threeVersions(t);
      damage(path);
      truncateSync(manifestOf(path, 3));
      const before = readdirSync(path, { recursive: true }).sort();
      const recovery = await recover(engine, 2);
      assert.match(recovery.damage ?? '', /manifest|missing/);
      assert.deepEqual(readdirSync(path, { recursive: true }).sort(), before);
    }
  });

  test('leaves orphan files to programs that may still commit them, unless the machine went down', async (t) => {
    const { engine, path } = await threeVersions(t);
    const staged = join(path, 'data', 'staged-by-another.lance');
    const old = join(path, 'data', 'older-than-the-acknowledged-version.lance');
    const foreign = join(path, 'data', 'notes.txt');
    for (const file of [staged, old, foreign]) writeFileSync(file, 'x');
    utimesSync(old, 1, 1);
    assert.equal((await recover(engine, 3, 'tuesday')).removedFiles, 0);
    assert.ok(existsSync(staged));
    assert.equal((await recover(engine, 3, 'monday')).removedFiles, 1);
    assert.deepEqual([staged, old, foreign].map(existsSync), [false, true, true]);
  });

  test('looks at pages of zeros only where the machine went down: rows may hold them', async (t) => {
    const { engine, path } = place(t);
    const dataset = await createDataset(engine, at, table(1), {});
    const random = new Random(1);
    await mergeInto(dataset, upsert, table(...Array.from({ length: 3_000 }, () => random.int(2 ** 31))));
    const disk = openSync(newIn(path, 2).find((file) => file.endsWith('.lance')) ?? '', 'r+');
    writeSync(disk, Buffer.alloc(4096), 0, 4096, 4096);
    closeSync(disk);
    assert.deepEqual((await recover(engine, 1, 'tuesday')).kept, [2]);
    assert.deepEqual((await recover(engine, 1, 'monday')).kept, []);
    assert.deepEqual(listVersions(join(path, '_versions')), [1]);
  });

  test('a branch that was being made goes, and never takes another with it (P1)', async (t) => {
    const { engine, path } = await threeVersions(t);
    const dataset = await opened(engine);
    for (const name of ['a', 'a/b', 'é/東京']) {
      await dataset.branches.create(name as BranchName, { branch: undefined, version: undefined });
    }
    rmSync(join(path, '_refs', 'branches', 'a.json'));
    const made = (branch: string) =>
      engine.recover({ location: at, branch: branch as BranchName, acknowledgedVersion: 0, storageSession: 'monday' });
    for (const other of ['a//b', 'a/./b', 'a/b/../b', '../tree/a/b', '']) {
      assert.deepEqual((await made(other)).removed, [], other);
    }
    assert.equal((await made('a')).removed.length, 1);
    assert.deepEqual((await made('a/b')).kept, [3]);
    assert.deepEqual((await made('é/東京')).kept, [3]);
    assert.deepEqual((await dataset.branches.list()).map(({ name }) => name).sort(), ['a/b', 'é/東京']);
    await dataset.branches.create('a' as BranchName, { branch: undefined, version: undefined });
    assert.equal(await (await engine.open({ location: at, branch: 'a' as BranchName })).countRows(), 3);
    assert.equal(await (await engine.open({ location: at, branch: 'a/b' as BranchName })).countRows(), 3);
  });

  test('a hint that is torn or ahead goes; the next commit writes another', async (t) => {
    for (const hint of ['', '{"ver', '{"version":9}']) {
      const { engine, path } = await threeVersions(t);
      const file = join(path, '_versions', 'latest_version_hint.json');
      writeFileSync(file, hint);
      await recover(engine, 3);
      assert.equal(existsSync(file), false);
      await mergeInto(await opened(engine), upsert, table(8));
      assert.ok(existsSync(file));
    }
  });
});
