import assert from 'node:assert/strict';
import { mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import { engineContract } from '#test/contract/engine.ts';
import { engineIn } from '#test/fixtures/engine-in.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

const engineAt = (folder: string) => engineIn(folder, join(folder, 'tables'));

engineContract('Lance on a file system', (t) => {
  const folder = temporaryFolder((clean) => t.after(clean));
  return {
    engine: engineAt(folder),
    outsider: async (location) => {
      const database = await connect(join(folder, 'tables', 'folder'));
      const table = await database.openTable(location.replace(/^folder\//, '').replace(/\.lance$/, ''));
      return {
        add: async (rows) => {
          await table.add(rows);
        },
        pruneOldVersions: async () => {
          await table.optimize({ cleanupOlderThan: new Date(), deleteUnverified: true });
        },
      };
    },
  };
});

test('a link inside the root that points outside is not followed (P9)', async (t) => {
  const folder = temporaryFolder((clean) => t.after(clean));
  mkdirSync(join(folder, 'tables'));
  mkdirSync(join(folder, 'elsewhere.lance'));
  symlinkSync(join(folder, 'elsewhere.lance'), join(folder, 'tables', 'x.lance'));
  await assert.rejects(engineAt(folder).locationOf('x.lance'), { kind: 'InvalidInput' });
});
