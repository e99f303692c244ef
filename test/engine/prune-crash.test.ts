/** What a crash in the middle of removing old versions leaves: faults that are planted before single files. */
import assert from 'node:assert/strict';
import { cpSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import { tableFromArrays } from 'apache-arrow';
import { pruneVersions } from '#src/engine/lance/durability/prune-versions.ts';
import { VersionsInRemoval } from '#src/engine/lance/durability/versions-in-removal.ts';
import type { Location } from '#src/kernel/ids.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { createIndex } from '#test/fixtures/create-index.ts';
import { engineIn } from '#test/fixtures/engine-in.ts';
import { mergeInto } from '#test/fixtures/engine-writes.ts';
import { prunedBranch } from '#test/fixtures/pruned-branch.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { upsertOn } from '#test/fixtures/upsert.ts';

const location = 't.lance' as Location;
const rows = (from: number, count: number) =>
  ipcFile(tableFromArrays({ id: Int32Array.from({ length: count }, (_, i) => from + i) }));
const requestFor = (keptFromVersion: number) => ({
  ...{ tagged: new Set<number>(), parents: new Set<number>(), inRemoval: new VersionsInRemoval() },
  ...{ supersededBeforeMs: Date.now() + 3_600_000, keptFromVersion },
});
const filesIn = (folder: string): readonly string[] => readdirSync(folder, { recursive: true }).map(String).sort();

/** Ten versions: one that makes the table, an index, eight that replace some rows and add others. */
async function oldTable(t: TestContext) {
  const folder = temporaryFolder((clean) => t.after(clean));
  const dataset = await createDataset(engineIn(folder), location, rows(0, 100), {});
  t.after(() => dataset.close());
  await createIndex(dataset, 'id');
  for (let i = 0; i < 8; i++) await mergeInto(dataset, upsertOn('id'), rows(50 + 10 * i, 60));
  return { folder, datasetPath: join(folder, location), dataset };
}

test('old versions are removed by one request for each file, however many of the versions name it', async (t) => {
  const { datasetPath, dataset } = await oldTable(t);
  const { fragments } = await dataset.layout();
  await (await dataset.prepareCompaction(fragments.flatMap(({ id }) => id ?? [])))?.commit();
  await dataset.refresh();
  const asked: string[] = [];
  const branch = prunedBranch(datasetPath, (path) => asked.push(path));
  await pruneVersions(branch, requestFor(await dataset.version()));
  assert.ok(asked.length > 9);
  assert.equal(new Set(asked).size, asked.length);
});

test('a removal that is cut short by a crash leaves nothing that the next time does not remove', {
  timeout: 120_000,
}, async (t) => {
  const { folder, datasetPath, dataset } = await oldTable(t);
  const newest = await dataset.version();
  const complete = join(folder, 'complete');
  cpSync(datasetPath, complete, { recursive: true });
  const request = requestFor(newest);
  await pruneVersions(prunedBranch(datasetPath), request);
  const wanted = filesIn(datasetPath);
  for (let crashAt = 0, isOver = false; !isOver; crashAt += 3) {
    rmSync(datasetPath, { recursive: true });
    cpSync(complete, datasetPath, { recursive: true });
    let removals = 0;
    const branch = prunedBranch(datasetPath, () => {
      if (removals++ === crashAt) throw new Error('the process is killed here');
    });
    isOver = await pruneVersions(branch, request).then(
      () => true,
      () => false,
    );
    const { length } = await (await (await connect(folder)).openTable('t')).query().toArray();
    assert.equal(length, 180, `${crashAt}`);
    await pruneVersions(prunedBranch(datasetPath), request);
    assert.deepEqual(filesIn(datasetPath), wanted, `${crashAt}`);
  }
});
