/** Where folders of a service are file systems of their own. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { runOnDisks } from './small-disks.ts';

test('a service works where its folders are mounts, full ones and read-only ones (P6)', (t) => {
  const small = 'size=4m,nr_inodes=1000';
  const mounts = { tables: 'size=96m,nr_inodes=8000', 'data/scratch': small, mirrors: small };
  const said = runOnDisks(t, { mounts, cases: join(import.meta.dirname, 'mounts-cases.ts') });
  if (said !== undefined) assert.match(said, /pass 3\n/);
});
