import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { openStore } from '#src/engine/lance/store/open-store.ts';
import { objectStoreContract } from '#test/contract/object-store.ts';
import { startAzureEmulator, withoutAzureEmulator } from '#test/fixtures/azure-emulator.ts';
import { azure, google, s3 } from '#test/fixtures/stores-under-test.ts';

for (const { name, without, start } of [s3, azure, google]) {
  if (without !== undefined) {
    test(`object store: ${name}`, { skip: without }, () => undefined);
    continue;
  }
  const { newRoot, storageOptions } = await start(after);
  const opened = (await openStore(newRoot(), storageOptions)) ?? assert.fail();
  after(() => opened.store.close());
  objectStoreContract(name, () => opened.store);
}

if (withoutAzureEmulator === undefined) {
  const { newRoot, optionsWithToken } = await startAzureEmulator(after);
  const opened = (await openStore(newRoot(), optionsWithToken)) ?? assert.fail();
  objectStoreContract("Azure's emulator, with a SAS token", () => opened.store);
  const another = await startAzureEmulator(after);
  const { account_name: _, ...unnamed } = another.storageOptions;
  const named = (await openStore(another.abfssOf(another.newRoot()), unnamed)) ?? assert.fail();
  objectStoreContract("Azure's emulator, by an abfss URI that names the account", () => named.store);
}
