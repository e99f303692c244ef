/** Every route stands here with its operation. To offer one more, add a line: docs/adding-an-operation.md. */
import type { Route } from '../../endpoint/route.ts';
import { createBranchRoute } from '../../operations/branches/create-branch.ts';
import { deleteBranchRoute } from '../../operations/branches/delete-branch.ts';
import { listBranchesRoute } from '../../operations/branches/list-branches.ts';
import { addColumnsRoute } from '../../operations/columns/add-columns.ts';
import { alterColumnsRoute } from '../../operations/columns/alter-columns.ts';
import { dropColumnsRoute } from '../../operations/columns/drop-columns.ts';
import { updateFieldMetadataRoute } from '../../operations/columns/update-field-metadata.ts';
import { updateSchemaMetadataRoute } from '../../operations/columns/update-schema-metadata.ts';
import { createTableRoute } from '../../operations/create-table.ts';
import { describeTransactionRoute } from '../../operations/describe-transaction.ts';
import { cancelJobRoute, describeJobRoute, listJobsRoute } from '../../operations/indexes/ask-for-jobs.ts';
import { createIndexRoute, createScalarIndexRoute } from '../../operations/indexes/create-index.ts';
import { dropIndexRoute } from '../../operations/indexes/drop-index.ts';
import { indexStatsRoute, listIndexesRoute, prewarmIndexRoute } from '../../operations/indexes/read-indexes.ts';
import { insertRowsRoute } from '../../operations/insert-rows.ts';
import { maintainTableRoute } from '../../operations/maintain-table.ts';
import { mergeRowsRoute } from '../../operations/merge-rows.ts';
import { createNamespaceRoute } from '../../operations/namespaces/create-namespace.ts';
import { describeNamespaceRoute, namespaceExistsRoute } from '../../operations/namespaces/describe-namespace.ts';
import { dropNamespaceRoute } from '../../operations/namespaces/drop-namespace.ts';
import { listNamespacesRoute } from '../../operations/namespaces/list-namespaces.ts';
import type { OperationDeps } from '../../operations/operations.ts';
import { deleteRowsRoute } from '../../operations/rows/delete-rows.ts';
import { updateRowsRoute } from '../../operations/rows/update-rows.ts';
import { cloneTableRoute } from '../../operations/tables/clone-table.ts';
import { countRowsRoute } from '../../operations/tables/count-rows.ts';
import { createVersionRoute, createVersionsRoute } from '../../operations/tables/create-version.ts';
import { declareTableRoute } from '../../operations/tables/declare-table.ts';
import { deleteVersionsRoute } from '../../operations/tables/delete-versions.ts';
import { describeTableRoute, tableExistsRoute } from '../../operations/tables/describe-table.ts';
import { deregisterTableRoute, dropTableRoute } from '../../operations/tables/drop-table.ts';
import { listDroppedTablesRoute } from '../../operations/tables/list-dropped-tables.ts';
import { listAllTablesRoute, listTablesRoute } from '../../operations/tables/list-tables.ts';
import { describeVersionRoute, listVersionsRoute } from '../../operations/tables/list-versions.ts';
import { purgeDroppedTablesRoute } from '../../operations/tables/purge-dropped-tables.ts';
import { analyzeQueryRoute, explainQueryRoute, queryTableRoute } from '../../operations/tables/query-table.ts';
import { readChangesRoute } from '../../operations/tables/read-changes.ts';
import { registerTableRoute } from '../../operations/tables/register-table.ts';
import { renameTableRoute } from '../../operations/tables/rename-table.ts';
import { restoreTableRoute } from '../../operations/tables/restore-table.ts';
import { tableStatsRoute } from '../../operations/tables/table-statistics.ts';
import { undropTableRoute } from '../../operations/tables/undrop-table.ts';
import { acknowledgeChangesRoute } from '../../operations/tags/acknowledge-changes.ts';
import { createTagRoute } from '../../operations/tags/create-tag.ts';
import { deleteTagRoute } from '../../operations/tags/delete-tag.ts';
import { tagVersionRoute } from '../../operations/tags/find-tag.ts';
import { listTagsRoute } from '../../operations/tags/list-tags.ts';
import { updateTagRoute } from '../../operations/tags/update-tag.ts';
import { transactRoute } from '../../operations/transact/apply-operations.ts';
import { notOfferedRoutes } from './not-offered.ts';
import { configurationRoute } from './operators.ts';

const offered = {
  createTable: createTableRoute,
  mergeRows: mergeRowsRoute,
  insertRows: insertRowsRoute,
  updateRows: updateRowsRoute,
  deleteRows: deleteRowsRoute,
  transact: transactRoute,
  addColumns: addColumnsRoute,
  alterColumns: alterColumnsRoute,
  dropColumns: dropColumnsRoute,
  updateFieldMetadata: updateFieldMetadataRoute,
  updateSchemaMetadata: updateSchemaMetadataRoute,
  restoreTable: restoreTableRoute,
  countRows: countRowsRoute,
  queryTable: queryTableRoute,
  readChanges: readChangesRoute,
  acknowledgeChanges: acknowledgeChangesRoute,
  explainQuery: explainQueryRoute,
  analyzeQuery: analyzeQueryRoute,
  describeTable: describeTableRoute,
  listVersions: listVersionsRoute,
  describeVersion: describeVersionRoute,
  createVersion: createVersionRoute,
  createVersions: createVersionsRoute,
  deleteVersions: deleteVersionsRoute,
  tableStatistics: tableStatsRoute,
  tableExists: tableExistsRoute,
  listTables: listTablesRoute,
  listAllTables: listAllTablesRoute,
  declareTable: declareTableRoute,
  registerTable: registerTableRoute,
  deregisterTable: deregisterTableRoute,
  dropTable: dropTableRoute,
  undropTable: undropTableRoute,
  purgeDroppedTables: purgeDroppedTablesRoute,
  listDroppedTables: listDroppedTablesRoute,
  renameTable: renameTableRoute,
  cloneTable: cloneTableRoute,
  maintainTable: maintainTableRoute,
  createIndex: createIndexRoute,
  createScalarIndex: createScalarIndexRoute,
  dropIndex: dropIndexRoute,
  describeJob: describeJobRoute,
  listJobs: listJobsRoute,
  cancelJob: cancelJobRoute,
  createBranch: createBranchRoute,
  listBranches: listBranchesRoute,
  deleteBranch: deleteBranchRoute,
  listIndexes: listIndexesRoute,
  indexStatistics: indexStatsRoute,
  prewarmIndex: prewarmIndexRoute,
  createTag: createTagRoute,
  listTags: listTagsRoute,
  findTag: tagVersionRoute,
  updateTag: updateTagRoute,
  deleteTag: deleteTagRoute,
  createNamespace: createNamespaceRoute,
  listNamespaces: listNamespacesRoute,
  describeNamespace: describeNamespaceRoute,
  namespaceExists: namespaceExistsRoute,
  dropNamespace: dropNamespaceRoute,
  describeTransaction: describeTransactionRoute,
} satisfies Readonly<Record<string, { make(deps: OperationDeps): unknown }>>;

/** The operation of each route, by the name in the table above. */
export type Operations = { readonly [Name in keyof typeof offered]: ReturnType<(typeof offered)[Name]['make']> };

export const operationsOf = (deps: OperationDeps): Operations =>
  Object.fromEntries(Object.entries(offered).map(([name, { make }]) => [name, make(deps)])) as unknown as Operations;

/** The service has these below the base path. */
export const apiRoutes = (
  operations: Operations,
  settings: Parameters<typeof configurationRoute>[0],
): readonly Route[] => [
  ...Object.entries(offered).map(([name, { routeTo }]) =>
    (routeTo as (operation: unknown) => Route)(operations[name as keyof Operations]),
  ),
  configurationRoute(settings),
  ...notOfferedRoutes,
];
