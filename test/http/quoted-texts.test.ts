/** Texts in double quotes, which programs such as dlt write: they are read so where nothing else is meant, and nothing is changed. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { tableFromIPC } from 'apache-arrow';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { refused, startCheckedService, succeeded } from './checked-service.ts';
import { stream } from './rows.ts';

describe('a text in double quotes', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startCheckedService(later);
    succeeded(
      await service.post('/v1/table/t/create', stream({ id: [1, 2, 3], a: ['x', 'y', 'b'], b: ['x', 'x', 'x'] })),
    );
  });
  const count = (predicate: string) => service.post('/v1/table/t/count_rows', { predicate });
  const query = (filter: string) => service.post('/v1/table/t/query', { filter, k: 10, vector: [], prefilter: true });

  test('behind an equals sign finds rows, if no column has that name', async () => {
    assert.equal((await count('a = "y"')).body, 1);
    assert.equal((await count('a = "b"')).body, 1, 'the column b');
    const found = await query('`a` = "y" OR id = 3');
    assert.deepEqual(
      tableFromIPC(found.body as unknown as Buffer)
        .toArray()
        .map(({ id }) => id as number),
      [2, 3],
    );
  });

  test('is a column anywhere else, and where rows are changed', async () => {
    for (const predicate of ['a != "y"', '"y" = a', 'a IN ("y")', 'a = "y" AND "nope" = 1']) {
      refused(await count(predicate), 400, 12, /does not exist/);
      refused(await query(predicate), 400, 12, /does not exist/);
    }
    refused(await service.post('/v1/table/t/delete', { predicate: 'a = "y"' }), 400, 12, /does not exist/);
    assert.equal((await count('true')).body, 3);
  });
});
