/** On a full disk the engine cuts a deletion file short and says nothing. No version names such a file (P1, P6). */
import assert from 'node:assert/strict';
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { tableFromArrays } from 'apache-arrow';
import { ownSql } from '#src/kernel/checked-sql.ts';
import type { Location } from '#src/kernel/ids.ts';
import { isWholeDeletionFile } from '#src/lance-format/check/intact.ts';
import { rejects } from '#test/contract/catalog/fixtures.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { engineIn } from '#test/fixtures/engine-in.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

const location = 't.lance' as Location;

/** Rows 0 to 9,999 without those of a predicate. */
async function deleted(t: TestContext, predicate: string) {
  const folder = temporaryFolder((clean) => t.after(clean));
  const engine = engineIn(folder);
  t.after(() => engine.close());
  const rows = ipcFile(tableFromArrays({ id: Int32Array.from({ length: 10_000 }, (_, id) => id) }));
  const dataset = await createDataset(engine, location, rows, {});
  const shadow = await dataset.shadow();
  await shadow.deleteWhere(ownSql(predicate));
  await shadow.commit();
  const files = join(folder, location, '_deletions');
  const [name = ''] = readdirSync(files);
  return { folder, dataset, path: join(files, name), name };
}

for (const [kind, ending, predicate] of [
  ['of a few rows', '.arrow', 'id < 10'],
  ['of many rows', '.bin', 'id % 2 = 0'],
] as const) {
  describe(`a deletion file ${kind}`, () => {
    test('is whole with its last byte, and not before', async (t) => {
      const { folder, path } = await deleted(t, predicate);
      assert.ok(path.endsWith(ending) && isWholeDeletionFile(path));
      const bytes = readFileSync(path);
      const short = join(folder, `short${ending}`);
      for (let length = 0; length < bytes.length; length += 1 + Math.floor(bytes.length / 500)) {
        writeFileSync(short, bytes.subarray(0, length));
        assert.equal(isWholeDeletionFile(short), false, `${length} of ${bytes.length} bytes`);
      }
    });

    test('that is cut short in a shadow refuses the change, and nothing is written', async (t) => {
      const { folder, dataset, path, name } = await deleted(t, predicate);
      const version = await dataset.version();
      const shadow = await dataset.shadow();
      const staging = join(folder, location, 'lancegate=staging');
      for (const each of readdirSync(staging)) {
        const files = join(staging, each, '_deletions');
        mkdirSync(files, { recursive: true });
        copyFileSync(path, join(files, name));
        writeFileSync(join(files, name), readFileSync(path).subarray(0, 100));
      }
      await rejects(shadow.deleteWhere(ownSql('id > 9990')), 'StorageFull');
      await assert.rejects(shadow.commit());
      assert.equal(await dataset.version(), version);
      assert.equal(await dataset.countRows(), predicate === 'id < 10' ? 9_990 : 5_000);
    });
  });
}
