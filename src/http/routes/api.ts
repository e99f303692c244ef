import type { Operations } from '../../operations/commands.ts';
import type { ReadFilter } from '../../wire/filter.ts';
import type { Route } from '../route.ts';
import { branchRoutes } from './branches.ts';
import { countRowsRoute } from './count-rows.ts';
import { createTableRoute } from './create-table.ts';
import { describeTableRoute } from './describe-table.ts';
import { maintainTableRoute } from './maintain-table.ts';
import { mergeRowsRoute } from './merge-rows.ts';
import { namespaceRoutes } from './namespaces.ts';
import { notOfferedRoutes } from './not-offered.ts';
import { tableRoutes } from './tables.ts';
import { describeTransactionRoute } from './transactions.ts';

/** Everything below the base path. */
export const apiRoutes = (operations: Operations, readFilter: ReadFilter): readonly Route[] => [
  createTableRoute(operations),
  mergeRowsRoute(operations, readFilter),
  describeTableRoute(operations),
  countRowsRoute(operations, readFilter),
  describeTransactionRoute(operations),
  maintainTableRoute(operations),
  ...tableRoutes(operations),
  ...branchRoutes(operations),
  ...namespaceRoutes(operations),
  ...notOfferedRoutes,
];
