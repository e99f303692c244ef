/** A version whose removal a crash cut off: its manifest is there, its files are not. */
import assert from 'node:assert/strict';
import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { refused, startCheckedService, succeeded } from './checked-service.ts';
import { people } from './rows.ts';

describe('a version that a crash has half removed is no version any more (P1)', () => {
  const later = afterSuite();
  let service: TestService;
  let source: string;
  before(async () => {
    service = await startCheckedService(later, { AUTO_MAINTENANCE: 'false' });
    succeeded(await service.post('/v1/table/t/create', people([1], 'x')));
    const data = join(service.tablesFolder, 't.lance', 'data');
    const files = readdirSync(data);
    for (const id of [2, 3]) succeeded(await service.post('/v1/table/t/insert?mode=overwrite', people([id], 'y')));
    succeeded(await service.post('/v1/table/t/tags/create', { tag: 'kept', version: 2 }));
    for (const name of files) rmSync(join(data, name));
    source = String(succeeded(await service.post('/v1/table/t/describe')).location);
  });

  const requests = {
    'a query': ['query', { k: 10, version: 1 }],
    'a plan': ['explain_plan', { query: { k: 10, version: 1 } }],
    'a plan that runs': ['analyze_plan', { k: 10, version: 1 }],
    'a count': ['count_rows', { version: 1 }],
    'a count under a predicate': ['count_rows', { predicate: 'id > 0', version: 1 }],
    'a description of it': ['version/describe', { version: 1 }],
    'a description of the table at it': ['describe', { version: 1 }],
    'a new tag': ['tags/create', { tag: 'first', version: 1 }],
    'a tag that is moved': ['tags/update', { tag: 'kept', version: 1 }],
    'a branch': ['branches/create', { name: 'b', from_version: 1 }],
    'a restore': ['restore', { version: 1 }],
  } as const;
  for (const [what, [path, body]] of Object.entries(requests)) {
    test(`for ${what}`, async () => refused(await service.post(`/v1/table/t/${path}`, body), 404, 11));
  }

  test('for a clone, which then leaves its name free', async () => {
    const clone = (version: number) =>
      service.post('/v1/table/c/clone', { source_location: source, source_version: version });
    refused(await clone(1), 404, 11);
    succeeded(await clone(2));
  });

  test('and what names the versions beside it is as it was', async () => {
    assert.deepEqual(succeeded(await service.post('/v1/table/t/tags/version', { tag: 'kept' })), { version: 2 });
    assert.deepEqual(succeeded(await service.post('/v1/table/t/count_rows', { version: 2 })), 1);
  });
});
