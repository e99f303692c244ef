/**
 * Every operation with its route. To offer one more, add a line here: docs/adding-an-operation.md.
 */
import { createBranch } from '../../operations/branches/create-branch.ts';
import { deleteBranch } from '../../operations/branches/delete-branch.ts';
import { listBranches } from '../../operations/branches/list-branches.ts';
import { describeTransaction } from '../../operations/describe-transaction.ts';
import { maintainTable } from '../../operations/maintain-table.ts';
import { createNamespace } from '../../operations/namespaces/create-namespace.ts';
import { describeNamespace, namespaceExists } from '../../operations/namespaces/describe-namespace.ts';
import { dropNamespace } from '../../operations/namespaces/drop-namespace.ts';
import { listNamespaces } from '../../operations/namespaces/list-namespaces.ts';
import type { OperationDeps } from '../../operations/operations.ts';
import { countRows } from '../../operations/tables/count-rows.ts';
import { createTable } from '../../operations/tables/create-table.ts';
import { declareTable } from '../../operations/tables/declare-table.ts';
import { deregisterTable } from '../../operations/tables/deregister-table.ts';
import { describeTable } from '../../operations/tables/describe-table.ts';
import { dropTable } from '../../operations/tables/drop-table.ts';
import { listTables } from '../../operations/tables/list-tables.ts';
import { listVersions } from '../../operations/tables/list-versions.ts';
import { mergeRows } from '../../operations/tables/merge-rows.ts';
import { registerTable } from '../../operations/tables/register-table.ts';
import { tableExists } from '../../operations/tables/table-exists.ts';
import { tableStatistics } from '../../operations/tables/table-statistics.ts';
import type { ReadFilter } from '../../wire/merge-parameters.ts';
import type { Route } from '../route.ts';
import { createBranchRoute, deleteBranchRoute, listBranchesRoute } from './branches.ts';
import { countRowsRoute } from './count-rows.ts';
import { createTableRoute } from './create.ts';
import { describeTableRoute } from './describe-table.ts';
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
import { tableStatsRoute } from './table-stats.ts';
import {
  declareTableRoute,
  deregisterTableRoute,
  dropTableRoute,
  listTablesRoutes,
  registerTableRoute,
  tableExistsRoute,
} from './tables.ts';
import { describeTransactionRoute } from './transactions.ts';
import { listVersionsRoute } from './versions.ts';

const offered = {
  createTable: offer(createTable, createTableRoute),
  mergeRows: offer(mergeRows, mergeRowsRoute),
  countRows: offer(countRows, countRowsRoute),
  describeTable: offer(describeTable, describeTableRoute),
  listVersions: offer(listVersions, listVersionsRoute),
  tableStatistics: offer(tableStatistics, tableStatsRoute),
  tableExists: offer(tableExists, tableExistsRoute),
  listTables: offer(listTables, listTablesRoutes),
  declareTable: offer(declareTable, declareTableRoute),
  registerTable: offer(registerTable, registerTableRoute),
  deregisterTable: offer(deregisterTable, deregisterTableRoute),
  dropTable: offer(dropTable, dropTableRoute),
  maintainTable: offer(maintainTable, maintainTableRoute),
  createBranch: offer(createBranch, createBranchRoute),
  listBranches: offer(listBranches, listBranchesRoute),
  deleteBranch: offer(deleteBranch, deleteBranchRoute),
  createNamespace: offer(createNamespace, createNamespaceRoute),
  listNamespaces: offer(listNamespaces, listNamespacesRoute),
  describeNamespace: offer(describeNamespace, describeNamespaceRoute),
  namespaceExists: offer(namespaceExists, namespaceExistsRoute),
  dropNamespace: offer((deps) => dropNamespace(deps, dropTable(deps)), dropNamespaceRoute),
  describeTransaction: offer(describeTransaction, describeTransactionRoute),
};

/** What each operation is called with, by its name in the table above. */
export type Operations = { readonly [Name in keyof typeof offered]: ReturnType<(typeof offered)[Name]['make']> };

type MakeRoutes<Operation> = (operation: Operation, readFilter: ReadFilter) => Route | readonly Route[];

function offer<Operation>(make: (deps: OperationDeps) => Operation, routes: MakeRoutes<Operation>) {
  return { make, routes };
}

export const operationsOf = (deps: OperationDeps): Operations =>
  Object.fromEntries(Object.entries(offered).map(([name, { make }]) => [name, make(deps)])) as unknown as Operations;

/** Everything below the base path. */
export const apiRoutes = (operations: Operations, readFilter: ReadFilter): readonly Route[] => [
  ...Object.entries(offered).flatMap(([name, { routes }]) =>
    (routes as MakeRoutes<unknown>)(operations[name as keyof Operations], readFilter),
  ),
  ...notOfferedRoutes,
];
