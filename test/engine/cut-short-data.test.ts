/** A full disk may have cut short what the engine reads back of a change: then the change is refused as the disk's fault (P6). */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { runOnDisks } from '#test/system/small-disks.ts';

test('a file that ends too early under a change is a full disk where the disk is full, and only there (P6)', (t) => {
  const mounts = { small: 'size=12m', large: 'size=64m' };
  const said = runOnDisks(t, { mounts, cases: join(import.meta.dirname, 'cut-short-data-cases.ts') });
  if (said !== undefined) assert.match(said, /pass 2\n/);
});
