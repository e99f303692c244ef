import assert from 'node:assert/strict';
import { mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { engineContract } from '#test/contract/engine.ts';
import { engineIn } from '#test/fixtures/engine-in.ts';
import { outsiderOn } from '#test/fixtures/outsider.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

const engineAt = (folder: string) => engineIn(folder, join(folder, 'tables'));

engineContract('Lance on a file system', (t) => {
  const folder = temporaryFolder((clean) => t.after(clean));
  return {
    engine: engineAt(folder),
    storage: 'file system',
    outsider: (location) => outsiderOn(join(folder, 'tables'), location),
  };
});

test('a link inside the root that points outside is not followed (P9)', async (t) => {
  const folder = temporaryFolder((clean) => t.after(clean));
  mkdirSync(join(folder, 'tables'));
  mkdirSync(join(folder, 'elsewhere.lance'));
  symlinkSync(join(folder, 'elsewhere.lance'), join(folder, 'tables', 'x.lance'));
  await assert.rejects(engineAt(folder).locationOf('x.lance'), { kind: 'InvalidInput' });
});
