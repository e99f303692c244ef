import { after, test } from 'node:test';
import type { Location } from '#src/kernel/ids.ts';
import { engineContract } from '#test/contract/engine.ts';
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
