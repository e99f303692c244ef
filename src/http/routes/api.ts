/**
 * Every route with its operation. To offer one more, add a line here: docs/adding-an-operation.md.
 */
import type { OperationDeps } from '../../operations/operations.ts';
import type { Route } from '../route.ts';
import {
  addColumnsRoute,
  alterColumnsRoute,
  dropColumnsRoute,
  updateFieldMetadataRoute,
  updateSchemaMetadataRoute,
} from './changes/columns.ts';
import { restoreTableRoute } from './changes/restore.ts';
import { transactRoute } from './changes/transact.ts';
import { createTableRoute } from './create.ts';
import { describeTableRoute } from './describe-table.ts';
import { indexStatsRoute, listIndexesRoute, prewarmIndexRoute } from './indexes/index-reads.ts';
import { createIndexRoute, createScalarIndexRoute, dropIndexRoute } from './indexes/index-writes.ts';
import { cancelJobRoute, describeJobRoute, listJobsRoute } from './indexes/job-routes.ts';
import { insertRowsRoute } from './insert.ts';
import { maintainTableRoute } from './maintain-table.ts';
import { mergeRowsRoute } from './merge.ts';
import {
  createNamespaceRoute,
  describeNamespaceRoute,
  dropNamespaceRoute,
  listNamespacesRoute,
  namespaceExistsRoute,
} from './namespaces.ts';
import { notOfferedRoutes } from './not-offered.ts';
import { configurationRoute } from './operators/configuration.ts';
import { analyzeQueryRoute, countRowsRoute, explainQueryRoute, queryTableRoute } from './query.ts';
import { createBranchRoute, deleteBranchRoute, listBranchesRoute } from './refs/branches.ts';
import { createTagRoute, deleteTagRoute, listTagsRoute, tagVersionRoute, updateTagRoute } from './refs/table-tags.ts';
import {
  createVersionRoute,
  createVersionsRoute,
  deleteVersionsRoute,
  describeVersionRoute,
  listVersionsRoute,
} from './refs/versions.ts';
import { deleteRowsRoute, updateRowsRoute } from './rows.ts';
import { tableStatsRoute } from './table-stats.ts';
import {
  cloneTableRoute,
  declareTableRoute,
  deregisterTableRoute,
  dropTableRoute,
  listAllTablesRoute,
  listTablesRoute,
  registerTableRoute,
  renameTableRoute,
  tableExistsRoute,
} from './tables.ts';
import { describeTransactionRoute } from './transactions.ts';

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
};

/** The operation of each route, by the name in the table above. */
export type Operations = { readonly [Name in keyof typeof offered]: ReturnType<(typeof offered)[Name]['make']> };

export const operationsOf = (deps: OperationDeps): Operations =>
  Object.fromEntries(Object.entries(offered).map(([name, { make }]) => [name, make(deps)])) as unknown as Operations;

/** Everything below the base path. */
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
