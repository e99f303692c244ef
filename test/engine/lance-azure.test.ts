import { join } from 'node:path';
import { after, test } from 'node:test';
import { LanceEngine } from '#src/engine/lance/adapter/lance-engine.ts';
import { openStore } from '#src/engine/lance/store/open-store.ts';
import { engineContract } from '#test/contract/engine.ts';
import { startAzureEmulator, withoutAzureEmulator } from '#test/fixtures/azure-emulator.ts';
import { externalWriterOn } from '#test/fixtures/external-writer.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

if (withoutAzureEmulator === undefined) {
  const { newRoot, storageOptions } = await startAzureEmulator(after);
  engineContract('Lance on an Azure emulator', async (t) => {
    const root = newRoot();
    const engine = new LanceEngine({
      root,
      rootOptions: storageOptions,
      store: await openStore(root, storageOptions),
      scratchFolder: join(
        temporaryFolder((clean) => t.after(clean)),
        'scratch',
      ),
      indexCacheBytes: 1 << 24,
      metadataCacheBytes: 1 << 24,
    });
    return {
      engine,
      storage: 'object store',
      externalWriter: (location) => externalWriterOn(root, location, storageOptions),
    };
  });
} else {
  test('engine: Lance on an Azure emulator', { skip: withoutAzureEmulator }, () => undefined);
}
