import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { refused, startCheckedService, succeeded } from './checked-service.ts';
import { people } from './rows.ts';

/** The specification's routes beside those that this service offers, and those that only the LanceDB SDKs call. */
const notOffered = {
  'POST /v1/table/t/': [
    ...['backfill_column'],
    ...['multipart_write/create', 'multipart_write/complete', 'multipart_write/abort', 'refresh'],
    ...['branches/diff', 'branches/cherry_pick', 'page_cache/prewarm', 'fetch_blobs', 'blob/c/1/bytes'],
    ...[
      'set_lsm_write_spec',
      'unset_lsm_write_spec',
      'get_lsm_write_spec',
      'flush_lsm',
      'compact_lsm',
      'get_lsm_stats',
    ],
    ...['enable_rte', 'disable_rte', 'get_rte_spec', 'flush_rte', 'compact_rte', 'get_rte_stats'],
  ],
  'POST /v1/': [
    ...['table/batch-commit', 'materialized_view/v/create', 'materialized_view/v/refresh'],
    ...['transaction/x/alter', 'jobs/query_events', 'functions/f/create'],
  ],
};

/** And those it offers, of which none is 406 or an unknown route. */
const offered = [
  ...[
    'create',
    'merge_insert',
    'insert',
    'describe',
    'declare',
    'register',
    'deregister',
    'exists',
    'drop',
    'count_rows',
  ],
  ...[
    'create_index',
    'create_scalar_index',
    'index/i/drop',
    'branches/create',
    'branches/list',
    'branches/delete',
    'version/list',
    'version/create',
    'version/describe',
    'version/delete',
    'stats',
  ],
].map((name) => `POST /v1/table/t/${name}`);
const offeredElsewhere = [
  ...['create', 'describe', 'exists', 'drop'].map((name) => `POST /v1/namespace/n/${name}`),
  ...['GET /v1/namespace/n/list', 'GET /v1/namespace/n/table/list', 'GET /v1/table', 'GET /v1/table/t/count_rows'],
  'GET /v1/table/t/tags/list',
  'POST /v1/transaction/x/describe',
  'POST /v1/table/version/batch-create',
  ...['list', 'describe', 'cancel'].map((name) => `POST /v1/jobs/${name}`),
];

describe('routes of the specification', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startCheckedService(later);
    succeeded(await service.post('/v1/table/t/create', people([1], 'x')));
  });
  const ask = (route: string, headers = {}) => {
    const [method, path = ''] = route.split(' ');
    return method === 'GET' ? service.get(path, headers) : service.post(path, undefined, headers);
  };

  for (const [prefix, names] of Object.entries(notOffered)) {
    for (const name of names) {
      test(`${prefix}${name} is 406 with code 0, with and without a slash, and only to who is known`, async () => {
        refused(await ask(prefix + name), 406, 0, /does not offer/);
        refused(await ask(`${prefix}${name}/`), 406, 0);
        refused(await ask(prefix + name, { authorization: 'Bearer nobody' }), 401, 16);
      });
    }
  }

  test('every other one is offered', async () => {
    for (const route of [...offered, ...offeredElsewhere]) {
      const { status, body } = await ask(route);
      assert.ok(status !== 406 && (status !== 404 || body.code !== 0) && status < 500, `${route}: ${status}`);
    }
  });

  test('every one that is offered is named where its path is asked by another method', async () => {
    for (const route of [...offered, ...offeredElsewhere]) {
      const [method = '', path] = route.split(' ');
      const { status, headers, body } = await fetch(`${service.url}${path}`, { method: 'DELETE' });
      await body?.cancel();
      assert.equal(status, 405, route);
      assert.ok(headers.get('allow')?.split(', ').includes(method), route);
    }
  });
});
