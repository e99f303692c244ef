/** For every route of `api.ts`: which actions a request needs, and that each of them is needed (P9). */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { AccessRequest, Action } from '#src/auth/policy/actions.ts';
import type { Operations } from '#src/http/routes/api.ts';
import { bodyOf, multipart, part } from '#test/http/multipart-body.ts';
import { arrowType, ask, usersStream } from './client.ts';
import { startTestService } from './service.ts';

interface Request {
  /** Below `/v1`. */
  readonly path: string;
  readonly method?: 'GET';
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly actions: readonly Action[];
}

/** Only the operation finds out which table these are about. It asks the policy: `test/http` has tests of each. */
type AskedInside = 'describeJob' | 'listJobs' | 'cancelJob' | 'describeTransaction';

const table = (path: string, action: Action, body?: object): Request => ({
  path: `/table/t/${path}`,
  actions: [action],
  ...(body && { body }),
});
const rows = (path: string, ...actions: readonly Action[]): Request => ({
  path: `/table/t/${path}`,
  actions,
  body: usersStream,
  headers: { 'content-type': arrowType },
});
const namespace = (path: string, action: Action): Request => ({ path: `/namespace/n/${path}`, actions: [action] });
const transact = (operation: object, ...actions: readonly Action[]): Request => ({
  path: '/table/t/transact',
  actions,
  body: bodyOf([part('one', operation)]),
  headers: multipart,
});

const metadata = { updates: [{ path: 'id', metadata: {} }] };
const alterations = { alterations: [{ path: 'id', rename: 'key' }] };
const deletion = { predicate: 'id = 1' };
const update = { updates: [['id', '1']] };
const byBtree = { column: 'id', index_type: 'BTREE' };
const proposal = { version: 2, manifest_path: 'x' };
const added = { new_columns: [{ name: 'a', expression: '1' }] };

const requests: Readonly<Record<Exclude<keyof Operations, AskedInside>, Request>> = {
  createTable: rows('create', 'CreateTable'),
  mergeRows: rows('merge_insert?on=id', 'MergeInsertIntoTable'),
  insertRows: rows('insert', 'InsertIntoTable'),
  updateRows: table('update', 'UpdateTable', update),
  deleteRows: table('delete', 'DeleteFromTable', deletion),
  transact: transact({ operation: 'delete', ...deletion }, 'DeleteFromTable'),
  addColumns: table('add_columns', 'AlterTableAddColumns', added),
  alterColumns: table('alter_columns', 'AlterTableAlterColumns', alterations),
  dropColumns: table('drop_columns', 'AlterTableDropColumns', { columns: ['id'] }),
  updateFieldMetadata: table('update_field_metadata', 'UpdateFieldMetadata', metadata),
  updateSchemaMetadata: table('schema_metadata/update', 'UpdateTableSchemaMetadata', {}),
  restoreTable: table('restore', 'RestoreTable', { version: 1 }),
  countRows: table('count_rows', 'CountTableRows'),
  queryTable: table('query', 'QueryTable', { vector: [] }),
  readChanges: table('changes', 'QueryTable', { after: 0 }),
  acknowledgeChanges: table('changes/acknowledge', 'AcknowledgeTableChanges', { consumer: 'c', version: 1 }),
  explainQuery: table('explain_plan', 'ExplainTableQueryPlan', { query: { vector: [] } }),
  analyzeQuery: table('analyze_plan', 'AnalyzeTableQueryPlan', { vector: [] }),
  describeTable: table('describe', 'DescribeTable'),
  listVersions: table('version/list', 'ListTableVersions'),
  describeVersion: table('version/describe', 'DescribeTableVersion'),
  createVersion: table('version/create', 'CreateTableVersion', proposal),
  createVersions: {
    path: '/table/version/batch-create',
    actions: ['CreateTableVersion'],
    body: { entries: [{ ...proposal, id: ['t'] }] },
  },
  deleteVersions: table('version/delete', 'BatchDeleteTableVersions', { ranges: [] }),
  tableStatistics: table('stats', 'GetTableStats'),
  tableExists: table('exists', 'TableExists'),
  listTables: { ...namespace('table/list', 'ListTables'), method: 'GET' },
  listAllTables: { path: '/table', method: 'GET', actions: ['ListTables'] },
  declareTable: table('declare', 'DeclareTable'),
  registerTable: table('register', 'RegisterTable', { location: 'x.lance' }),
  deregisterTable: table('deregister', 'DeregisterTable'),
  dropTable: table('drop', 'DropTable'),
  undropTable: table('undrop', 'UndropTable'),
  purgeDroppedTables: table('trash/purge', 'PurgeTable'),
  listDroppedTables: { ...namespace('trash/list', 'ListTables'), method: 'GET' },
  renameTable: table('rename', 'RenameTable', { new_table_name: 'u' }),
  cloneTable: table('clone', 'CloneTable', { source_location: 'x.lance' }),
  maintainTable: table('maintain', 'MaintainTable'),
  createIndex: table('create_index', 'CreateTableIndex', byBtree),
  createScalarIndex: table('create_scalar_index', 'CreateTableIndex', byBtree),
  dropIndex: table('index/i/drop', 'DropTableIndex'),
  createBranch: table('branches/create', 'CreateTableBranch', { name: 'dev' }),
  listBranches: table('branches/list', 'ListTableBranches'),
  deleteBranch: table('branches/delete', 'DeleteTableBranch', { name: 'dev' }),
  listIndexes: table('index/list', 'ListTableIndices'),
  indexStatistics: table('index/i/stats', 'DescribeTableIndexStats'),
  prewarmIndex: table('index/i/prewarm', 'PrewarmTableIndex'),
  createTag: table('tags/create', 'CreateTableTag', { tag: 'v1', version: 1 }),
  listTags: table('tags/list', 'ListTableTags'),
  findTag: table('tags/version', 'GetTableTagVersion', { tag: 'v1' }),
  updateTag: table('tags/update', 'UpdateTableTag', { tag: 'v1', version: 1 }),
  deleteTag: table('tags/delete', 'DeleteTableTag', { tag: 'v1' }),
  createNamespace: namespace('create', 'CreateNamespace'),
  listNamespaces: { ...namespace('list', 'ListNamespaces'), method: 'GET' },
  describeNamespace: namespace('describe', 'DescribeNamespace'),
  namespaceExists: namespace('exists', 'NamespaceExists'),
  dropNamespace: namespace('drop', 'DropNamespace'),
};

const bySource = { operation: 'merge_insert', source: 's', on: 'id', when_not_matched_by_source_delete: true };

/** What a request asks for can need more than its route. */
const further: readonly (readonly [keyof Operations, Request])[] = [
  ['createTable', rows('create?mode=overwrite', 'CreateTable', 'OverwriteTable')],
  ['insertRows', rows('insert?mode=overwrite', 'InsertIntoTable', 'OverwriteTable')],
  [
    'mergeRows',
    rows('merge_insert?on=id&when_not_matched_by_source_delete=1', 'MergeInsertIntoTable', 'DeleteFromTableBySource'),
  ],
  [
    'registerTable',
    {
      ...table('register', 'RegisterTable', { location: 'x.lance', mode: 'overwrite' }),
      actions: ['RegisterTable', 'DeregisterTable'],
    },
  ],
  ['transact', transact({ operation: 'insert', source: 's' }, 'InsertIntoTable')],
  ['transact', transact({ operation: 'merge_insert', source: 's', on: 'id' }, 'MergeInsertIntoTable')],
  ['transact', transact(bySource, 'MergeInsertIntoTable', 'DeleteFromTableBySource')],
  ['transact', transact({ operation: 'update', ...update }, 'UpdateTable')],
  ['transact', transact({ operation: 'add_columns', ...added }, 'AlterTableAddColumns')],
  ['transact', transact({ operation: 'add_columns', source: 's' }, 'AlterTableAddColumns')],
  ['transact', transact({ operation: 'alter_columns', ...alterations }, 'AlterTableAlterColumns')],
  ['transact', transact({ operation: 'drop_columns', columns: ['id'] }, 'AlterTableDropColumns')],
  ['transact', transact({ operation: 'update_field_metadata', ...metadata }, 'UpdateFieldMetadata')],
];

const all = [...(Object.entries(requests) as [keyof Operations, Request][]), ...further];

/** Or the body names the branch. */
const mainOnly: readonly (keyof Operations)[] = [
  'cloneTable',
  'createBranch',
  'createTable',
  'declareTable',
  'deleteBranch',
  'deregisterTable',
  'dropTable',
  'listBranches',
  'listTags',
  'maintainTable',
  'purgeDroppedTables',
  'registerTable',
  'renameTable',
  'tableExists',
  'undropTable',
];

async function answered(request: Request, allows: (question: AccessRequest) => boolean) {
  const { path, actions: _, ...asking } = request;
  await using service = await startTestService({ allows });
  const { status, json } = await ask(service, `/v1${path}`, asking);
  return { status, error: json as { code: number; error: string }, asked: service.asked, decisions: service.decisions };
}

describe('each request needs its actions, and no other (P9)', () => {
  for (const [operation, request] of all) {
    const { path, actions } = request;
    const title = `${operation} ${path} needs ${actions.join(' and ')}`;
    test(title, async () => {
      for (const missing of actions) {
        const { status, error, asked } = await answered(request, ({ action }) => action !== missing);
        assert.deepEqual([status, error.code], [403, 15], JSON.stringify(error));
        assert.match(error.error, new RegExp(`^${missing} on (table|namespace|branch) .+ is not allowed$`));
        assert.deepEqual(asked, [], 'nothing was looked up');
      }
      const { status, error, asked } = await answered(request, ({ action }) => actions.includes(action));
      assert.equal(status, 200, JSON.stringify(error));
      assert.deepEqual(
        asked.map((each) => each.operation),
        [operation],
      );
    });
  }
});

test('where a request names a branch, the right on that branch decides, or the branch is refused (P9)', async () => {
  const refusing = new Set<string>();
  for (const [operation, request] of all.filter(([, { path }]) => path.startsWith('/table/t/'))) {
    const onBranch = { ...request, path: `${request.path}${request.path.includes('?') ? '&' : '?'}branch=dev` };
    const there = await answered(onBranch, ({ branch }) => branch === 'dev');
    const elsewhere = await answered(onBranch, ({ branch }) => branch !== 'dev');
    assert.deepEqual(elsewhere.asked, [], operation);
    if (there.status === 200) assert.equal(elsewhere.status, 403, operation);
    else refusing.add(operation);
  }
  assert.deepEqual([...refusing].toSorted(), mainOnly);
});
