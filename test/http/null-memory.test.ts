import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { Field, FixedSizeList, Float32, vectorFromArray } from 'apache-arrow';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { stream } from './rows.ts';

const floats = 4096;
const vectors = new FixedSizeList(floats, new Field('item', new Float32(), true));
const bytesPerRow = floats * (4 + 1 / 8) + 1;

describe('columns that a source leaves out', () => {
  const after = afterSuite();
  let service: TestService;
  /** A quarter of the memory for bodies: half of what one principal may have. */
  const limitBytes = 16 * 2 ** 20;
  before(async () => {
    service = await startTestService(after, { BODY_MEMORY: '64MiB', MAX_MERGE_SIZE: '1MiB', chunkBytes: 2 ** 20 });
    const made = await service.post('/v1/table/wide/create', stream({ id: [], vector: vectorFromArray([], vectors) }));
    assert.equal(made.status, 200);
  });

  const ids = (count: number) => stream({ id: Array.from({ length: count }, (_, id) => id) });
  const fits = Math.floor(limitBytes / (bytesPerRow + 4)) - 1;

  test('count with the memory that their NULLs take: a small body cannot ask for gigabytes (P7, P12)', async () => {
    const { status, body } = await service.post('/v1/table/wide/merge_insert?on=id', ids(fits + 2));
    assert.equal(status, 413, JSON.stringify(body));
    assert.match(String(body.error), /with NULL in the columns that the source leaves out, its rows take \d+ bytes/);
    assert.equal((await service.post('/v1/table/wide/count_rows')).body, 0);
  });

  test('are filled with NULL where that fits', async () => {
    const { status, body } = await service.post('/v1/table/wide/merge_insert?on=id', ids(fits));
    assert.equal(status, 200, JSON.stringify(body));
    const count = await service.post('/v1/table/wide/count_rows', { predicate: 'vector IS NULL' });
    assert.equal(count.body, fits);
  });
});
