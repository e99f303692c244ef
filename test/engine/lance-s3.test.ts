import { join } from 'node:path';
import { after, test } from 'node:test';
import { LanceEngine } from '#src/engine/lance/adapter/lance-engine.ts';
import { openStore } from '#src/engine/lance/store/open-store.ts';
import { engineContract } from '#test/contract/engine.ts';
import { externalWriterOn } from '#test/fixtures/external-writer.ts';
import { startS3Gateway, withoutS3Gateway } from '#test/fixtures/s3-gateway.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

if (withoutS3Gateway === undefined) {
  const { newRoot, storageOptions } = await startS3Gateway(after);
  engineContract('Lance on an S3 gateway', async (t) => {
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
  test('engine: Lance on an S3 gateway', { skip: withoutS3Gateway }, () => undefined);
}
