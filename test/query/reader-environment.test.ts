/** What of the service's environment a reader gets, and what it is given. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readerEnvironment } from '#src/query/reader-pool.ts';

const MiB = 2 ** 20;
const ofFolder = { storageRoot: '/srv/tables', memoryBytes: 512 * MiB };

test('the engine reads ahead a small share of the memory of a reader, unless the operator says otherwise (P7)', () => {
  const environment = readerEnvironment({}, ofFolder);
  assert.equal(environment.LANCE_DEFAULT_IO_BUFFER_SIZE, String(32 * MiB));
  const larger = readerEnvironment({}, { ...ofFolder, memoryBytes: 4096 * MiB });
  assert.equal(larger.LANCE_DEFAULT_IO_BUFFER_SIZE, String(256 * MiB));
  const given = readerEnvironment({ LANCE_DEFAULT_IO_BUFFER_SIZE: '7' }, ofFolder);
  assert.equal(given.LANCE_DEFAULT_IO_BUFFER_SIZE, '7');
});

test('a reader keeps little of the memory that it frees, whatever the operator gave the service (P7)', () => {
  const environment = readerEnvironment({ MALLOC_ARENA_MAX: '7', MALLOC_TRIM_THRESHOLD_: '9' }, ofFolder);
  assert.deepEqual([environment.MALLOC_ARENA_MAX, environment.MALLOC_TRIM_THRESHOLD_], ['2', String(MiB)]);
});

test('secrets of the service stay there, and those of an object store go where there is one (P9)', () => {
  const secrets = { LANCEGATE_CATALOG: 'postgres://u:p@h/d', AWS_SECRET_ACCESS_KEY: 'tell-nobody', PGPASSWORD: 'x' };
  assert.deepEqual(
    Object.keys(secrets).filter((name) => name in readerEnvironment(secrets, ofFolder)),
    [],
  );
  const ofStore = readerEnvironment(secrets, { ...ofFolder, storageRoot: 's3://bucket/tables' });
  assert.deepEqual(
    Object.keys(secrets).filter((name) => name in ofStore),
    ['AWS_SECRET_ACCESS_KEY'],
  );
});
