/** On a file system of a few megabytes and files: what makes room on it, and what each operation that writes leaves there. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { runOnDisks } from './small-disks.ts';

const casesIn = (file: string): string => join(import.meta.dirname, file);

test('a disk full of old versions gets free by itself, and by hand (P8)', { timeout: 180_000 }, (t) => {
  const mounts = { '': 'size=24m,nr_inodes=4000' };
  const said = runOnDisks(t, { mounts, cases: casesIn('full-disk-cases.ts') });
  if (said !== undefined) assert.match(said, /pass 5\n/);
});

/** By hand as many as are asked for: see `full-disk-operations.ts`. */
test('what an operation writes on a disk that fills is there wholly or not at all (P1, P3, P6, P8)', (t) => {
  const mounts = {
    both: 'size=96m,nr_inodes=8000',
    tables: 'size=96m,nr_inodes=8000',
    catalog: 'size=16m,nr_inodes=4000',
  };
  const said = runOnDisks(t, { mounts, cases: casesIn('full-disk-operations.ts') });
  if (said === undefined) return;
  for (const line of said.split('\n')) if (line.startsWith('ℹ ')) t.diagnostic(line.slice(2));
  assert.match(said, /pass 1\n/);
});
