/** To be run where the folder of temporary files has a small file system in it: see `cut-short-data.test.ts`. */
import assert from 'node:assert/strict';
import { readdirSync, truncateSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { tableFromArrays } from 'apache-arrow';
import { ownSql } from '#src/kernel/checked-sql.ts';
import type { Location } from '#src/kernel/ids.ts';
import { rejects } from '#test/contract/catalog/fixtures.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { engineIn } from '#test/fixtures/engine-in.ts';

const location = 't.lance' as Location;
const rows = ipcFile(tableFromArrays({ id: Int32Array.from({ length: 10_000 }, (_, id) => id) }));

for (const [disk, folder, kind] of [
  ['a disk with no room to speak of', join(tmpdir(), 'small'), 'StorageFull'],
  ['a disk with room', join(tmpdir(), 'large'), 'Internal'],
] as const) {
  test(`a file that ends too early under a change is ${kind} on ${disk} (P6)`, async (t) => {
    const writer = engineIn(folder);
    t.after(() => writer.close());
    const dataset = await createDataset(writer, location, rows, {});
    const files = join(folder, location, 'data');
    for (const name of readdirSync(files)) truncateSync(join(files, name), 1_000);
    // Another engine has nothing of the file in its caches.
    const engine = engineIn(folder);
    t.after(() => engine.close());
    const shadow = await (await engine.open({ location, branch: undefined })).shadow();
    await rejects(shadow.deleteWhere(ownSql('id > 9990')), kind);
    await assert.rejects(shadow.commit());
    assert.equal(await dataset.version(), 1);
  });
}
