/** What reads and names the versions and the indexes of a table. */
import { type Case, testJsonRoutes } from './json-cases.ts';

const users = { namespace: ['prod'], name: 'users' };
const page = { after: undefined, limit: 1000 };

const tagged = {
  branch: 'dev',
  version: 3,
  createdAt: '2026-11-25T00:00:00.000Z',
  updatedAt: '2026-11-25T00:00:01.000Z',
  metadata: {},
  manifestSize: 400,
};

const listed = {
  version: 2,
  timestamp_millis: 1_700_000_000_002,
  timestamp: '2023-11-14T22:13:20.002Z',
  metadata: {},
  manifest_path: 'data/users.lance/_versions/2.manifest',
  manifest_size: 200,
};
const staged = 'data/users.lance/_versions/2.manifest-0a';
const proposed = { version: 2, manifestPath: staged, manifestBytes: 200, naming: 'V2' };
const proposal = {
  version: 2,
  manifest_path: staged,
  manifest_size: 200,
  e_tag: '"x"',
  naming_scheme: 'V2',
  metadata: {},
};

const cases: readonly Case[] = [
  {
    path: '/v1/table/prod$users/version/create',
    body: { ...proposal, branch: 'dev' },
    operation: 'createVersion',
    command: { table: users, branch: 'dev', proposed, idempotency: undefined },
    answer: { version: listed, transaction_id: 'tx-3' },
  },
  {
    path: '/v1/table/version/batch-create',
    body: { entries: [{ ...proposal, id: ['prod', 'users'] }] },
    operation: 'createVersions',
    command: { '0': { table: users, branch: undefined, proposed, idempotency: undefined } },
    answer: { versions: [{ ...listed, e_tag: '"a"' }], transaction_id: 'tx-3' },
  },
  {
    path: '/v1/table/prod$users/version/describe',
    body: { version: 2, branch: 'dev' },
    operation: 'describeVersion',
    command: { table: users, branch: 'dev', version: 2 },
    answer: { version: listed },
  },
  {
    path: '/v1/table/prod$users/version/delete',
    body: {
      ranges: [
        { start_version: 2, end_version: 5 },
        { start_version: 0, end_version: -1 },
      ],
      branch: 'dev',
    },
    operation: 'deleteVersions',
    command: {
      ...{ table: users, branch: 'dev' },
      ranges: [
        { from: 2, before: 5 },
        { from: 0, before: Number.POSITIVE_INFINITY },
      ],
      idempotency: undefined,
    },
    answer: { deleted_count: 3 },
  },
  {
    path: '/v1/table/prod$users/index/list/',
    body: { version: null, branch: 'dev', limit: 5, page_token: 'a' },
    operation: 'listIndexes',
    command: { table: users, branch: 'dev', version: undefined, page: { after: 'a', limit: 5 } },
    answer: {
      indexes: [
        {
          index_name: 'id_idx',
          index_uuid: 'u-1',
          columns: ['id'],
          status: 'done',
          index_type: 'BTREE',
          type_url: '/lance.table.BTreeIndexDetails',
          num_indexed_rows: 30,
          num_unindexed_rows: 0,
          num_segments: 1,
          created_at: '2023-11-14T22:13:20.000Z',
          index_version: 0,
          index_details: '{}',
        },
      ],
      page_token: 'id_idx',
    },
  },
  {
    path: '/v1/table/prod$users/index/v%2F%C3%A4_idx/stats/',
    body: { version: 3 },
    operation: 'indexStatistics',
    command: { table: users, branch: undefined, version: 3, index: 'v/ä_idx' },
    answer: { num_indexed_rows: 30, num_unindexed_rows: 2, index_type: 'IVF_PQ', distance_type: 'l2', num_indices: 1 },
  },
  {
    path: '/v1/table/prod$users/index/id_idx/prewarm/?branch=dev',
    operation: 'prewarmIndex',
    command: { table: users, branch: 'dev', index: 'id_idx' },
    answer: {},
  },
  {
    path: '/v1/table/prod$users/tags/list?limit=2&page_token=a',
    operation: 'listTags',
    command: { table: users, page: { after: 'a', limit: 2 } },
    answer: { tags: { v1: tagged }, page_token: 'v1' },
  },
  {
    path: '/v1/table/prod$users/tags/list/',
    operation: 'listTags',
    command: { table: users, page },
    answer: { v1: tagged },
  },
  {
    path: '/v1/table/prod$users/tags/version',
    body: { tag: 'v1' },
    operation: 'findTag',
    command: { table: users, branch: undefined, tag: 'v1' },
    answer: { version: 3, branch: 'dev' },
  },
  {
    path: '/v1/table/prod$users/tags/create',
    body: { tag: 'v1', version: 3, branch: 'dev' },
    operation: 'createTag',
    command: { table: users, branch: 'dev', tag: 'v1', version: 3, idempotency: undefined },
    answer: {},
  },
  {
    path: '/v1/table/prod$users/tags/update',
    body: { tag: 'v1', version: 4 },
    operation: 'updateTag',
    command: { table: users, branch: undefined, tag: 'v1', version: 4, idempotency: undefined },
    answer: {},
  },
  {
    path: '/v1/table/prod$users/tags/delete',
    body: { tag: 'v1' },
    operation: 'deleteTag',
    command: { table: users, branch: undefined, tag: 'v1', idempotency: undefined },
    answer: {},
  },
  {
    path: '/v1/table/prod$users/rename/',
    body: { new_table_name: 'people', new_namespace: ['eu', 'prod'] },
    operation: 'renameTable',
    command: { table: users, to: { namespace: ['eu', 'prod'], name: 'people' }, idempotency: undefined },
    answer: {},
  },
  {
    path: '/v1/table/prod$users/rename',
    body: { new_table_name: 'people' },
    operation: 'renameTable',
    command: { table: users, to: { namespace: ['prod'], name: 'people' }, idempotency: undefined },
    answer: {},
  },
  {
    path: '/v1/table/prod$copy/clone',
    body: { source_location: 'users.lance', source_version: null, source_tag: 'v1', is_shallow: true },
    operation: 'cloneTable',
    command: {
      ...{ table: { namespace: ['prod'], name: 'copy' }, sourceLocation: 'users.lance' },
      ...{ sourceVersion: undefined, sourceTag: 'v1' },
      idempotency: undefined,
    },
    answer: { location: 'file:///data/users.lance' },
  },
];

testJsonRoutes(cases);
