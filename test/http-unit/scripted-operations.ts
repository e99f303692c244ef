import type { Schema } from '#src/arrow/schema/schema.ts';
import { btreeOn } from '#src/engine/port/index-spec.ts';
import type { Operations } from '#src/http/routes/api.ts';
import type { IndexJob } from '#src/indexing/index-jobs.ts';
import { LancegateError } from '#src/kernel/errors.ts';
import type {
  BranchName,
  Location,
  NamespacePath,
  ObjectName,
  Properties,
  TableId,
  TableRef,
  TransactionId,
} from '#src/kernel/ids.ts';
import type { TableDescription } from '#src/table/table-access.ts';

export interface Asked {
  readonly operation: keyof Operations;
  readonly command: Record<string, unknown>;
}

const usersSchema: Schema = {
  fields: [
    {
      name: 'id',
      nullable: false,
      type: { kind: 'int', bitWidth: 64, signed: true },
      dictionary: undefined,
      children: [],
      metadata: new Map(),
    },
  ],
  metadata: new Map(),
};

export const describedTable = (table: TableRef, properties: Properties = { owner: 'ann' }): TableDescription => ({
  table,
  location: 'file:///data/users.lance',
  properties,
  storageOptions: {},
  created: { version: 7, schema: usersSchema },
});

type Listed = { table: TableRef };
const names = (texts: readonly string[]): readonly ObjectName[] => texts as readonly ObjectName[];

/** A port of ours, played from a script: every operation answers something fixed, and remembers what it was asked. */
export function scriptedOperations(script: Partial<Operations> = {}): { operations: Operations; asked: Asked[] } {
  const asked: Asked[] = [];
  const played: Operations = { ...defaults, ...script };
  const remembering = Object.entries(played).map(([operation, run]) => [
    operation,
    (command: Record<string, unknown>, scope: unknown) => {
      asked.push({ operation: operation as keyof Operations, command });
      return (run as (command: unknown, scope: unknown) => unknown)(command, scope);
    },
  ]);
  return { operations: Object.fromEntries(remembering) as Operations, asked };
}

const listedTables = (of: NamespacePath, includeBelow: boolean) => ({
  items: names(['orders', 'users']).map((name) => ({ namespace: includeBelow ? names(['prod']) : of, name })),
  next: 'users',
});

const listedVersion = {
  version: 2,
  committedAtMs: 1_700_000_000_002,
  manifestPath: 'data/users.lance/_versions/2.manifest',
  manifestBytes: 200,
};

const written = {
  transactionId: 'tx-3' as TransactionId,
  version: 9,
  numInsertedRows: 0,
  numUpdatedRows: 0,
  numDeletedRows: 0,
  numAttempts: 1,
  isReplay: false,
};

const describedIndex = {
  name: 'id_idx',
  uuid: 'u-1',
  columns: ['id'],
  type: 'BTREE',
  typeUrl: '/lance.table.BTreeIndexDetails',
  indexedRows: 30,
  unindexedRows: 0,
  bytes: undefined,
  segments: 1,
  createdAtMs: 1_700_000_000_000,
  formatVersion: 0,
  details: '{}',
};

const taggedVersion = {
  name: 'v1',
  branch: 'dev' as BranchName,
  version: 3,
  manifestBytes: 400,
  createdAt: '2026-11-25T00:00:00.000Z',
  updatedAt: '2026-11-25T00:00:01.000Z',
  requestId: 'hidden',
  metadata: {},
};

/** Of an operation that answers each key once. */
export const answered = <Result>(result: Result) => ({ result, isReplay: false });

async function* noParts(): AsyncGenerator<never, void, void> {}

const indexJob: IndexJob = {
  id: 'job-1',
  createdAtMs: 1_700_000_000_000,
  transactionId: 'tx-4' as TransactionId,
  state: 'FAILED',
  failure: new LancegateError('ReaderDied', 'the process died; nothing was written'),
  ended: Promise.resolve(written),
  table: {
    ref: { namespace: names(['prod']), name: 'users' as ObjectName },
    id: 'id-1' as TableId,
    state: 'created',
    location: 'users.lance' as Location,
    properties: {},
    storageOptions: {},
  },
  branch: undefined,
  spec: btreeOn('id'),
  isReplacing: true,
  scope: { requestId: 'request-1', principal: { subject: 'ann', scopes: [], groups: [], issuer: 'lancegate' } },
  keyed: undefined,
};

const defaults: Operations = {
  createTable: async ({ source, properties }) => {
    await source.schema();
    return {
      transactionId: 'tx-1' as TransactionId,
      location: 'file:///data/users.lance',
      version: 1,
      storageOptions: {},
      properties: properties ?? {},
      isReplay: false,
    };
  },
  mergeRows: async ({ source }) => {
    await source.whole();
    return {
      transactionId: 'tx-2' as TransactionId,
      version: 8,
      numUpdatedRows: 2,
      numInsertedRows: 3,
      numDeletedRows: 0,
      numAttempts: 1,
      isReplay: false,
    };
  },
  insertRows: async ({ source }) => {
    await source.whole();
    return { ...written, numInsertedRows: 3 };
  },
  transact: async ({ operations }) => ({
    ...written,
    operations: operations.map(({ name, does: { kind } }) => ({
      name,
      operation: kind,
      numInsertedRows: 1,
      numUpdatedRows: 2,
      numDeletedRows: 3,
    })),
  }),
  updateRows: async () => ({ ...written, numUpdatedRows: 4 }),
  deleteRows: async () => ({ ...written, numDeletedRows: 5 }),
  addColumns: async () => written,
  alterColumns: async () => written,
  dropColumns: async () => written,
  updateFieldMetadata: async () => ({ ...written, fields: { id: { unit: 'one' } } }),
  updateSchemaMetadata: async () => written,
  restoreTable: async () => written,
  declareTable: async ({ table, properties }) =>
    answered({ ...describedTable(table, properties), created: undefined, isManaged: false }),
  describeTable: async ({ table }) => ({ ...describedTable(table), isManaged: true }),
  tableExists: async () => {},
  renameTable: async () => answered(undefined),
  cloneTable: async ({ table }) => answered(describedTable(table)),
  dropTable: async ({ table }: Listed) => answered(describedTable(table)),
  undropTable: async ({ to }) => answered(describedTable(to)),
  purgeDroppedTables: async () => answered({ purged: [] }),
  listDroppedTables: async () => ({ items: [], next: undefined }),
  deregisterTable: async ({ table }: Listed) => answered(describedTable(table)),
  registerTable: async ({ table, properties }) => answered(describedTable(table, properties)),
  countRows: async () => 42,
  queryTable: async () => ({ whole: Buffer.from('rows'), parts: noParts(), facts: () => ({ version: 7, rows: 2 }) }),
  explainQuery: async () => 'a plan',
  analyzeQuery: async () => 'an analysis',
  listTables: async ({ namespace, includeBelow }) => listedTables(namespace, includeBelow),
  listAllTables: async ({ namespace, includeBelow }) => listedTables(namespace, includeBelow),
  listVersions: async () => ({
    items: [2, 1].map((version) => ({
      version,
      committedAtMs: 1_700_000_000_000 + version,
      manifestPath: `data/users.lance/_versions/${version}.manifest`,
      manifestBytes: 100 * version,
    })),
    next: '1',
  }),
  describeVersion: async () => listedVersion,
  createVersion: async () => ({ ...written, listed: listedVersion }),
  createVersions: async () => ({ ...written, listed: { ...listedVersion, manifestTag: '"a"' } }),
  deleteVersions: async () => answered(3),
  tableStatistics: async () => ({
    bytes: 4096,
    rows: 30,
    indexes: 1,
    fragments: 2,
    smallFragments: 2,
    fragmentRows: { min: 10, max: 20, mean: 15, p25: 10, p50: 20, p75: 20, p99: 20 },
  }),
  createIndex: async () => written,
  createScalarIndex: async () => ({ jobId: 'job-1', isReplay: false }),
  dropIndex: async () => written,
  describeJob: async () => indexJob,
  listJobs: async () => [indexJob],
  cancelJob: async () => ({ ...indexJob, state: 'CANCELLED' }),
  createBranch: async () => answered(undefined),
  listBranches: async () => ({ items: [], next: undefined }),
  deleteBranch: async () => answered(undefined),
  listIndexes: async () => ({ items: [describedIndex], next: 'id_idx' }),
  indexStatistics: async () => ({
    indexedRows: 30,
    unindexedRows: 2,
    type: 'IVF_PQ',
    distanceType: 'l2',
    parts: 1,
  }),
  prewarmIndex: async () => {},
  createTag: async () => answered(undefined),
  acknowledgeChanges: async () => answered(undefined),
  readChanges: async () => ({
    until: 7,
    result: { whole: Buffer.from('rows'), parts: noParts(), facts: () => ({ version: 7, rows: 2 }) },
  }),
  listTags: async () => ({ items: [taggedVersion], next: 'v1' }),
  findTag: async () => taggedVersion,
  updateTag: async () => answered(undefined),
  deleteTag: async () => answered(undefined),
  createNamespace: async ({ properties }) => answered(properties),
  describeNamespace: async () => ({ owner: 'ann' }),
  namespaceExists: async () => {},
  listNamespaces: async () => ({ items: names(['dev', 'prod']), next: undefined }),
  dropNamespace: async () => answered(undefined),
  maintainTable: async () => answered([]),
  describeTransaction: async ({ id }) => ({ id, status: 'SUCCEEDED', properties: { operation: 'create_table' } }),
};
