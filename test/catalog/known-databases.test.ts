import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KnownDatabases } from '#src/catalog/sqlite/open-sqlite-catalog.ts';
import type { ObjectName } from '#src/kernel/ids.ts';

const name = 'a' as ObjectName;

test('a name that is no database is read once, until something changes', async () => {
  const known = new KnownDatabases();
  let reads = 0;
  const read = async () => {
    reads += 1;
    return reads > 2;
  };
  for (const _ of [1, 2]) assert.equal(await known.isDatabase(name, read), false);
  assert.equal(reads, 1);
  await known.changing(Promise.resolve());
  assert.equal(await known.isDatabase(name, read), false);
  await assert.rejects(known.changing(Promise.reject(new Error('it may have been made'))));
  for (const _ of [1, 2]) assert.equal(await known.isDatabase(name, read), true);
});

test('what is read while a namespace is made is not kept (P5)', async () => {
  const known = new KnownDatabases();
  const reading = Promise.withResolvers<boolean>();
  const before = known.isDatabase(name, () => reading.promise);
  await known.changing(Promise.resolve());
  reading.resolve(false);
  assert.equal(await before, false);
  assert.equal(await known.isDatabase(name, async () => true), true);
});
