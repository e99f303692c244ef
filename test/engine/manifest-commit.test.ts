/** Versions that are a manifest alone: what removes old versions, and what only the engine may change. */
import assert from 'node:assert/strict';
import { readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { connect, Index } from '@lancedb/lancedb';
import { tableFromArrays } from 'apache-arrow';
import type { Location } from '#src/kernel/ids.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { engineIn } from '#test/fixtures/engine-in.ts';
import { appendTo, mergeInto } from '#test/fixtures/engine-writes.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { upsertOn } from '#test/fixtures/upsert.ts';

const location = 't.lance' as Location;
const rows = (from: number, count: number) =>
  ipcFile(tableFromArrays({ id: Int32Array.from({ length: count }, (_, i) => from + i) }));

describe('a version that is a manifest alone', () => {
  test('is made of no version that is being removed just then, and of any other (P1)', async (t) => {
    const folder = temporaryFolder((clean) => t.after(clean));
    const dataset = await createDataset(engineIn(folder), location, rows(0, 10), {});
    t.after(() => dataset.close());
    for (let i = 1; i < 5; i++) await mergeInto(dataset, upsertOn('id'), rows(5 * i, 10));
    const newest = await dataset.version();
    const restore = (version: number) => dataset.commitManifest({ kind: 'restore', version });
    let removals = 0;
    const confirm = async () => {
      removals += 1;
      await assert.rejects(restore(newest - 2), { kind: 'TableVersionNotFound' });
    };
    await dataset.prune({ supersededBeforeMs: Date.now() + 3_600_000, keptFromVersion: newest - 1, confirm });
    assert.ok(removals > 1);
    await assert.rejects(restore(newest - 2), { kind: 'TableVersionNotFound' });
    assert.deepEqual(await restore(newest - 1), { version: newest + 1 });
    await dataset.refresh();
    assert.equal(await dataset.countRows(), 25);
  });

  test('is made of no version whose files a crash in the middle of its removal has taken (P1)', async (t) => {
    const folder = temporaryFolder((clean) => t.after(clean));
    const dataset = await createDataset(engineIn(folder), location, rows(0, 10), {});
    t.after(() => dataset.close());
    const all = { ...upsertOn('id'), useIndex: false };
    for (let i = 0; i < 2; i++) await mergeInto(dataset, all, rows(0, 10));
    const data = join(folder, location, 'data');
    const [oldest] = readdirSync(data).toSorted(
      (a, b) => statSync(join(data, a)).ctimeMs - statSync(join(data, b)).ctimeMs,
    );
    rmSync(join(data, oldest!));
    await assert.rejects(dataset.commitManifest({ kind: 'restore', version: 1 }), { kind: 'TableVersionNotFound' });
    assert.deepEqual(await dataset.commitManifest({ kind: 'restore', version: 2 }), { version: 4 });
    assert.equal(await dataset.countRows(), 10);
  });

  test('is made by the engine where an index takes part in commits, or not at all', async (t) => {
    const folder = temporaryFolder((clean) => t.after(clean));
    const dataset = await createDataset(engineIn(folder), location, rows(0, 10), {});
    t.after(() => dataset.close());
    await appendTo(dataset, rows(10, 5));
    await (await (await connect(folder)).openTable('t')).createIndex('id', { config: Index.btree(), name: '__own' });
    await dataset.refresh();
    assert.deepEqual(await dataset.commitManifest({ kind: 'restore', version: 3 }), { version: 4 });
    assert.deepEqual([await dataset.version(), await dataset.countRows()], [4, 15]);
    await assert.rejects(dataset.commitManifest({ kind: 'restore', version: 9 }), { kind: 'TableVersionNotFound' });
    await assert.rejects(dataset.commitManifest({ kind: 'schema metadata', metadata: {} }), { kind: 'Unsupported' });
    const limits = { timeoutMs: undefined, principal: undefined };
    const shadow = await dataset.shadow();
    const updates = [{ path: 'id', metadata: { unit: 'one' }, isWhole: false }];
    await shadow.change({ kind: 'update field metadata', updates }, undefined, limits);
    assert.deepEqual(await shadow.commit(), { version: 5 });
    assert.deepEqual([...(await dataset.schema()).fields[0]!.metadata], [['unit', 'one']]);
  });
});
