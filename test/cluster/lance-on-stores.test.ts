import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { tableFromArrays } from 'apache-arrow';
import type { BranchName, Location } from '#src/kernel/ids.ts';
import { engineContract } from '#test/contract/engine.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { startAzureEmulator, withoutAzureEmulator } from '#test/fixtures/azure-emulator.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { engineOn } from '#test/fixtures/engine-on.ts';
import { externalWriterOn } from '#test/fixtures/external-writer.ts';
import { azure, google, s3 } from '#test/fixtures/stores-under-test.ts';

for (const { name, without, start } of [s3, azure, google]) {
  if (without !== undefined) {
    test(`engine: Lance on ${name}`, { skip: without }, () => undefined);
    continue;
  }
  const { newRoot, storageOptions } = await start(after);
  engineContract(`Lance on ${name}`, async (t) => {
    const root = newRoot();
    const externalWriter = (location: Location) => externalWriterOn(root, location, storageOptions);
    return { engine: await engineOn(t, root, storageOptions), storage: 'object store', externalWriter };
  });
}

test('one SAS token of Azure lets in the service and the engine', {
  skip: withoutAzureEmulator ?? false,
}, async (t) => {
  const { newRoot, optionsWithToken } = await startAzureEmulator((clean) => t.after(clean));
  const engine = await engineOn(t, newRoot(), optionsWithToken);
  t.after(() => engine.close());
  const rows = ipcFile(tableFromArrays({ id: [1, 2] }));
  const dataset = await createDataset(engine, 't.lance' as Location, rows, {});
  await dataset.branches.create('made-by-the-engine' as BranchName, { branch: undefined, version: undefined });
  assert.deepEqual([await dataset.countRows(), (await dataset.branches.list()).length], [2, 1]);
});

test('the engine reads by an abfss URI what the service commits there', {
  skip: withoutAzureEmulator ?? false,
}, async (t) => {
  const { newRoot, abfssOf, storageOptions } = await startAzureEmulator((clean) => t.after(clean));
  const engine = await engineOn(t, abfssOf(newRoot()), storageOptions);
  t.after(() => engine.close());
  const rows = ipcFile(tableFromArrays({ id: [1, 2] }));
  const dataset = await createDataset(engine, 't.lance' as Location, rows, {});
  await dataset.branches.create('made-by-the-engine' as BranchName, { branch: undefined, version: undefined });
  assert.deepEqual([await dataset.countRows(), (await dataset.branches.list()).length], [2, 1]);
});
