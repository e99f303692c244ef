import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { BranchName } from '#src/kernel/ids.ts';
import { ask } from './client.ts';
import { indexCases } from './index-cases.ts';
import { type Case, plain, testJsonRoutes } from './json-cases.ts';
import { describedTable } from './scripted-operations.ts';
import { startTestService } from './service.ts';

const users = { namespace: ['prod'], name: 'users' };
const page = { after: undefined, limit: 1000 };
const location = 'file:///data/users.lance';

/** What a query without any field asks for. */
const everyRow = {
  columns: undefined,
  filter: undefined,
  limit: undefined,
  offset: 0,
  orderBy: [],
  withRowId: false,
  fastSearch: false,
  nearest: undefined,
  text: undefined,
};

const cases: readonly Case[] = [
  ...indexCases,
  {
    path: '/v1/table/prod$users/version/list?descending=false&limit=2&page_token=7&branch=dev',
    operation: 'listVersions',
    command: { table: users, branch: 'dev', page: { after: '7', limit: 2 }, order: 'ascending' },
    answer: {
      versions: [2, 1].map((version) => ({
        version,
        timestamp_millis: 1_700_000_000_000 + version,
        timestamp: `2023-11-14T22:13:20.00${version}Z`,
        metadata: {},
        manifest_path: `data/users.lance/_versions/${version}.manifest`,
        manifest_size: 100 * version,
      })),
      page_token: '1',
    },
  },
  {
    path: '/v1/table/prod$users/stats',
    body: { branch: 'dev' },
    operation: 'tableStatistics',
    command: { table: users, branch: 'dev' },
    answer: {
      total_bytes: 4096,
      num_rows: 30,
      num_indices: 1,
      fragment_stats: {
        num_fragments: 2,
        num_small_fragments: 2,
        lengths: { min: 10, max: 20, mean: 15, p25: 10, p50: 20, p75: 20, p99: 20 },
      },
    },
  },
  {
    path: '/v1/table/prod$users/update',
    body: { branch: 'dev', predicate: 'id > 1', updates: [['name', "'x'"]] },
    operation: 'updateRows',
    command: {
      table: users,
      branch: 'dev',
      predicate: '(id > 1)',
      updates: [{ column: 'name', value: "('x')" }],
      idempotency: undefined,
    },
    answer: { updated_rows: 4, version: 9, transaction_id: 'tx-3' },
  },
  {
    path: '/v1/table/prod$users/delete',
    body: { predicate: 'id > 1' },
    operation: 'deleteRows',
    command: { table: users, branch: undefined, predicate: '(id > 1)', idempotency: undefined },
    answer: { num_deleted_rows: 5, version: 9, transaction_id: 'tx-3' },
  },
  {
    path: '/v1/namespace/a$b/create',
    body: { mode: '"ExistOk"', properties: { owner: 'ann' } },
    operation: 'createNamespace',
    command: { namespace: ['a', 'b'], mode: 'exist_ok', properties: { owner: 'ann' }, idempotency: undefined },
    answer: { properties: { owner: 'ann' } },
  },
  {
    path: '/v1/namespace/a/describe',
    body: { id: ['a'], context: {}, identity: {} },
    operation: 'describeNamespace',
    command: { namespace: ['a'] },
    answer: { properties: { owner: 'ann' } },
  },
  { path: '/v1/namespace/a/exists', operation: 'namespaceExists', command: { namespace: ['a'] }, answer: undefined },
  {
    // As Java's client sends an identifier that was not set.
    path: '/v1/namespace/a/exists',
    body: { id: [] },
    operation: 'namespaceExists',
    command: { namespace: ['a'] },
    answer: undefined,
  },
  {
    path: '/v1/namespace/a/drop',
    body: { mode: '"Skip"', behavior: '"Cascade"' },
    operation: 'dropNamespace',
    command: { namespace: ['a'], mode: 'skip', behavior: 'cascade', idempotency: undefined },
    answer: {},
  },
  {
    method: 'GET',
    path: '/v1/namespace/$/list?limit=5&page_token=dev',
    operation: 'listNamespaces',
    command: { parent: [], page: { after: 'dev', limit: 5 } },
    answer: { namespaces: ['dev', 'prod'] },
  },
  {
    method: 'GET',
    path: '/v1/namespace/list?delimiter=.',
    operation: 'listNamespaces',
    command: { parent: [], page },
    answer: { namespaces: ['dev', 'prod'] },
  },
  {
    method: 'GET',
    path: '/v1/namespace/table/list?delimiter=.',
    operation: 'listTables',
    command: { namespace: [], includeBelow: false, page, includeDeclared: true },
    answer: { tables: ['orders', 'users'], page_token: 'users' },
  },
  {
    method: 'GET',
    path: '/v1/namespace/table/list',
    operation: 'listNamespaces',
    command: { parent: ['table'], page },
    answer: { namespaces: ['dev', 'prod'] },
  },
  {
    method: 'GET',
    path: '/v1/namespace/prod/table/list?include_declared=false',
    operation: 'listTables',
    command: { namespace: ['prod'], includeBelow: false, page, includeDeclared: false },
    answer: { tables: ['orders', 'users'], page_token: 'users' },
  },
  {
    method: 'GET',
    path: '/v1/table?delimiter=::',
    operation: 'listAllTables',
    command: { namespace: [], includeBelow: true, page, includeDeclared: true },
    answer: { tables: ['prod::orders', 'prod::users'], page_token: 'users' },
  },
  {
    method: 'GET',
    path: '/v1/table/?limit=10',
    operation: 'listAllTables',
    command: { namespace: [], includeBelow: false, page: { after: undefined, limit: 10 }, includeDeclared: true },
    answer: { tables: ['orders', 'users'], page_token: 'users' },
  },
  {
    path: '/v1/table/prod$users/declare',
    body: { location: null, properties: { a: 'b' }, vend_credentials: true },
    operation: 'declareTable',
    command: { table: users, location: undefined, properties: { a: 'b' }, idempotency: undefined },
    answer: { location, storage_options: {}, properties: { a: 'b' } },
  },
  {
    path: '/v1/table/prod$users/register',
    body: { location: 'users.lance', mode: 'OVERWRITE' },
    operation: 'registerTable',
    command: { table: users, location: 'users.lance', mode: 'overwrite', properties: {}, idempotency: undefined },
    answer: { location, properties: {} },
  },
  {
    path: '/v1/table/prod$users/exists',
    body: { version: 3 },
    operation: 'tableExists',
    command: { table: users, version: 3 },
    answer: undefined,
  },
  {
    path: '/v1/table/prod$users/drop/',
    operation: 'dropTable',
    command: { table: users, idempotency: undefined },
    answer: { id: ['prod', 'users'], location, properties: { owner: 'ann' } },
  },
  {
    path: '/v1/table/prod$users/deregister',
    body: { id: ['prod', 'users'] },
    operation: 'deregisterTable',
    command: { table: users, idempotency: undefined },
    answer: { id: ['prod', 'users'], location, properties: { owner: 'ann' } },
  },
  {
    path: '/v1/table/prod$users/count_rows/',
    body: { predicate: 'id > 3', version: null, branch: 'dev' },
    operation: 'countRows',
    command: { table: users, branch: 'dev', version: undefined, predicate: '(id > 3)' },
    answer: 42,
  },
  {
    path: '/v1/table/prod$users/explain_plan/',
    body: { query: { vector: [], k: 3, version: 4, branch: 'dev', lower_bound: null }, verbose: true },
    operation: 'explainQuery',
    command: { table: users, branch: 'dev', version: 4, spec: { ...everyRow, limit: 3 }, form: 'verbose plan' },
    answer: 'a plan',
  },
  {
    path: '/v1/table/prod$users/explain_plan',
    body: { branch: 'dev', query: { vector: {}, k: 3 } },
    operation: 'explainQuery',
    command: { table: users, branch: 'dev', version: undefined, spec: { ...everyRow, limit: 3 }, form: 'plan' },
    answer: 'a plan',
  },
  {
    path: '/v1/table/prod$users/analyze_plan?distributed_metrics=per_worker',
    body: { vector: [], k: 3, branch: 'dev' },
    operation: 'analyzeQuery',
    command: { table: users, branch: 'dev', version: undefined, spec: { ...everyRow, limit: 3 }, form: 'analysis' },
    answer: 'an analysis',
  },
  {
    method: 'GET',
    path: '/v1/table/prod$users/count_rows',
    operation: 'countRows',
    command: { table: users, branch: undefined, version: undefined, predicate: undefined },
    answer: 42,
  },
  {
    path: '/v1/table/prod$users/branches/create',
    body: { name: 'dev', from_branch: 'main', from_version: 4 },
    operation: 'createBranch',
    command: { table: users, name: 'dev', fromBranch: undefined, fromVersion: 4, idempotency: undefined },
    answer: {},
  },
  {
    path: '/v1/table/prod$users/branches/delete',
    body: { name: 'dev' },
    operation: 'deleteBranch',
    command: { table: users, name: 'dev', idempotency: undefined },
    answer: {},
  },
  {
    path: '/v1/transaction/tx-1/describe',
    body: null,
    operation: 'describeTransaction',
    command: { id: 'tx-1' },
    answer: { status: 'SUCCEEDED', properties: { operation: 'create_table' } },
  },
];

testJsonRoutes(cases);

test('a query is answered with the bytes of the result as an Arrow file', async () => {
  await using service = await startTestService();
  const body = { vector: [], k: 2 ** 63, prefilter: true, version: null };
  const { headers, text } = await ask(service, '/v1/table/prod$users/query/', { body });
  assert.equal(headers.get('content-type'), 'application/vnd.apache.arrow.file');
  assert.equal(headers.get('phalanx-version'), '0.3.0');
  assert.equal(text, 'rows');
  const [asked] = service.asked;
  const form = { kind: 'arrow file' };
  assert.deepEqual(plain(asked!.command), {
    table: users,
    branch: undefined,
    version: undefined,
    form,
    spec: everyRow,
  });
});

test('a created table is described with version and with the schema in the Lance dialect', async () => {
  await using service = await startTestService();
  const path = '/v1/table/prod$users/describe?with_table_uri=true&check_declared=true';
  const body = { with_table_uri: false, check_declared: false, load_detailed_metadata: null };
  assert.deepEqual((await ask(service, path, { body })).json, {
    table: 'users',
    namespace: ['prod'],
    location,
    table_uri: location,
    properties: { owner: 'ann' },
    storage_options: {},
    is_only_declared: false,
    managed_versioning: true,
    version: 7,
    schema: { fields: [{ name: 'id', type: { type: 'int64' }, nullable: false }] },
  });
});

test('a table that is only declared is described without version and schema, save to the SDKs', async () => {
  await using service = await startTestService({
    script: {
      describeTable: async ({ table }) => ({ ...describedTable(table), created: undefined, isManaged: false }),
    },
  });
  const answer = {
    table: 'users',
    namespace: [],
    location,
    properties: { owner: 'ann' },
    storage_options: {},
    is_only_declared: true,
  };
  assert.deepEqual((await ask(service, '/v1/table/users/describe')).json, answer);
  const toSdks = { ...answer, version: 0, schema: { fields: [] } };
  assert.deepEqual((await ask(service, '/v1/table/users/describe/')).json, toSdks);
});

test('branches are listed as LanceDB parses them; a parent that is main is left out', async () => {
  const branch = { parentVersion: 3, createdAtSeconds: 1_700_000_000, manifestBytes: 512 };
  await using service = await startTestService({
    script: {
      listBranches: async () => ({
        items: [
          { ...branch, name: 'dev' as BranchName, parentBranch: undefined },
          { ...branch, name: 'dev/2' as BranchName, parentBranch: 'dev' as BranchName },
        ],
        next: 'dev/2',
      }),
    },
  });
  const contents = { parentVersion: 3, createAt: 1_700_000_000, manifestSize: 512 };
  assert.deepEqual((await ask(service, '/v1/table/users/branches/list/')).json, {
    branches: { dev: contents, 'dev/2': { ...contents, parentBranch: 'dev' } },
    page_token: 'dev/2',
  });
});

test('bodies are taken empty, null, or of an unknown type', async () => {
  await using service = await startTestService();
  for (const [body, type] of [
    ['', 'application/json'],
    ['null', 'application/json'],
    ['{}', 'text/plain'],
    ['{}', 'x'],
  ]) {
    const { status } = await ask(service, '/v1/table/users/drop', { body, headers: { 'content-type': type! } });
    assert.equal(status, type === 'x' ? 400 : 200, `${body} as ${type}`);
  }
});

test('what a body gets wrong is named', async () => {
  await using service = await startTestService();
  const wrong: readonly (readonly [string, unknown, RegExp])[] = [
    ['users/drop', '{', /^the body is not JSON$/],
    ['users/drop', '[]', /must be a JSON object/],
    ['users/drop', Buffer.from([0x7b, 0xff, 0x7d]), /not UTF-8/],
    ['users/drop', { id: ['orders'] }, /^id: the body names another object/],
    ['users/drop', { id: 'users' }, /^id must be array/],
    ['users/describe', { version: '4' }, /^version must be integer/],
    ['users/describe', { version: -1 }, /^version must be >= 0/],
    ['users/declare', { properties: { 'a\nb': 1 } }, /^properties.a\nb must be string/],
    ['users/register', {}, /^the body lacks location$/],
    ['users/branches/create', { name: 'a..b' }, /^name: a branch name/],
  ];
  for (const [path, body, error] of wrong) {
    const { status, json } = await ask(service, `/v1/table/${path}`, { body });
    assert.equal(status, 400, path);
    assert.match((json as { error: string }).error, error);
  }
  assert.deepEqual(service.asked, []);
});

test('a JSON body beyond its limit is 413, whether it says its length or not (P7)', async () => {
  await using service = await startTestService();
  const text = JSON.stringify({ padding: 'x'.repeat(5000) });
  const chunked = new ReadableStream({
    start: (controller) => {
      controller.enqueue(Buffer.from(text));
      controller.close();
    },
  });
  const headers = { authorization: 'Bearer good-token' };
  const options = { method: 'POST', headers, body: chunked, duplex: 'half' } as RequestInit;
  assert.equal((await ask(service, '/v1/table/users/drop', { body: text })).status, 413);
  assert.equal((await fetch(`${service.url}/v1/table/users/drop`, options)).status, 413);
});

test('a tag of a describe is handed on by its name', async () => {
  await using service = await startTestService();
  await ask(service, '/v1/table/users/describe', { body: { tag: 'v1' } });
  const tag = service.asked[0]?.command.tag as { name: string } | undefined;
  assert.equal(tag?.name, 'v1');
});
