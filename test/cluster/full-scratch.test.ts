/** What a full disk of this machine does to tables on an object store, of which it has nothing that cannot be had again. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { runOnDisks } from '#test/system/small-disks.ts';

test('a full scratch disk costs no write, or refuses it with nothing written (P1, P6)', (t) => {
  const small = 'size=24m,nr_inodes=4000';
  const mounts = { 's3/scratch': small, 'azure/scratch': small, 'google/scratch': small };
  const said = runOnDisks(t, { mounts, cases: join(import.meta.dirname, 'full-scratch-cases.ts') });
  if (said !== undefined) assert.match(said, /fail 0\n/);
});
