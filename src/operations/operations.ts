import type { Catalog } from '../catalog/port.ts';
import { CreateTable } from '../create/request.ts';
import { TableMaker } from '../create/table-maker.ts';
import type { Engine } from '../engine/port/engine.ts';
import type { Clock, NewId } from '../kernel/clock.ts';
import type { KeyDigest } from '../keys/key-digest.ts';
import type { KeyHasher } from '../keys/key-hasher.ts';
import { Upkeep } from '../maintenance/act/upkeep.ts';
import { Maintenance, type MaintenanceLimits } from '../maintenance/maintenance.ts';
import { SpaceWatch } from '../maintenance/space-watch.ts';
import { KeyBudget } from '../memory/key-quota.ts';
import type { KeyHash } from '../merge/known-keys/fingerprint.ts';
import { TableWriter } from '../merge/queue/writers.ts';
import { MergeRows } from '../merge/request.ts';
import type { Queries } from '../query/port.ts';
import { OpenDatasets } from '../table/open-datasets.ts';
import { RecoveryMarks } from '../table/recovery-marks.ts';
import { TableAccess } from '../table/table-access.ts';
import { TableLocks } from '../table/table-locks.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { createBranch, deleteBranch, listBranches } from './branches.ts';
import type { Operations } from './commands.ts';
import { countRows } from './count-rows.ts';
import { declareTable } from './declare-table.ts';
import { describeTable, tableExists } from './describe-table.ts';
import { describeTransaction } from './describe-transaction.ts';
import { deregisterTable, dropTable } from './drop-table.ts';
import { Idempotency } from './idempotency/idempotency.ts';
import { listAllTables, listTables } from './list-tables.ts';
import { maintainTable } from './maintain-table.ts';
import { createNamespace, describeNamespace, dropNamespace, listNamespaces, namespaceExists } from './namespaces.ts';
import { recoverTables } from './recovery.ts';
import { registerTable } from './register-table.ts';

export interface OperationsParts {
  readonly catalog: Catalog;
  readonly engine: Engine;
  readonly clock: Clock;
  readonly newId: NewId;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly queries: Queries;
  readonly maxWaitingPerTable: number;
  readonly maxOpenDatasets: number;
  /** What the keys known of all tables may take together. */
  readonly keyMemoryBytes: number;
  readonly keyHash: KeyHash;
  readonly keyDigest: KeyDigest;
  readonly keyHasher: KeyHasher;
  readonly idempotencyKeptMs: number;
  readonly maintenance: MaintenanceLimits;
}

export interface RunningOperations {
  readonly operations: Operations;
  /** Once no new request will come: ends what is under way, and says that it ended in order. */
  close(): Promise<void>;
}

/** Wires the use cases; first undoes what a crash left half-made (P1), so it must end before requests are taken. */
export async function startOperations(given: OperationsParts): Promise<RunningOperations> {
  const { catalog, engine, newId, logger, metrics } = given;
  const locks = new TableLocks(given.maxWaitingPerTable);
  metrics.watchWaitingForTables(() => locks.waitingExclusive);
  const datasets = new OpenDatasets(engine, given.maxOpenDatasets);
  const access = new TableAccess(catalog, engine, datasets);
  const maker = new TableMaker(given);
  await maker.sweep();
  await recoverTables(given);
  const idempotency = new Idempotency({ ...given, access });
  await idempotency.settle();
  const recoveryMarks = new RecoveryMarks(given);
  const upkeep = new Upkeep({ catalog, engine, locks, recoveryMarks });
  const maintenance = new Maintenance({ ...given, upkeep, limits: given.maintenance });
  const spaceWatch = new SpaceWatch({ ...given, pruneTable: (main) => maintenance.pruneTable(main) });
  const writer = new TableWriter({
    ...given,
    datasets,
    locks,
    observer: maintenance,
    recoveryMarks,
    keyBudget: new KeyBudget(given.keyMemoryBytes, given.clock),
    maxWaiting: given.maxWaitingPerTable,
    maxIdle: given.maxOpenDatasets,
  });
  const parts = { ...given, locks, datasets, access, maker, writer, recoveryMarks };
  const create = new CreateTable(parts);
  const merge = new MergeRows(parts);
  const drop = dropTable(parts);
  const operations: Operations = {
    createTable: (command, scope) =>
      idempotency.once('create_table', command, scope, (keyed) => create.run(command, scope, keyed)),
    mergeRows: (command, scope) =>
      idempotency.once('merge_insert', command, scope, (keyed) => merge.run(command, scope, keyed)),
    declareTable: declareTable(catalog, engine, access, newId),
    describeTable: describeTable(access),
    tableExists: tableExists(access),
    dropTable: drop,
    deregisterTable: deregisterTable(parts),
    registerTable: registerTable(parts),
    countRows: countRows(access, given.queries),
    listTables: listTables(catalog),
    listAllTables: listAllTables(catalog),
    createBranch: createBranch(parts),
    listBranches: listBranches(parts),
    deleteBranch: deleteBranch(parts),
    createNamespace: createNamespace(catalog),
    describeNamespace: describeNamespace(catalog),
    namespaceExists: namespaceExists(catalog),
    listNamespaces: listNamespaces(catalog),
    dropNamespace: dropNamespace(catalog, drop),
    describeTransaction: describeTransaction(catalog),
    maintainTable: maintainTable(access, maintenance),
  };
  const close = async (): Promise<void> => {
    await writer.settled();
    await Promise.all([spaceWatch.close(), maintenance.close()]);
    await recoveryMarks.closeAll().catch((error: unknown) => {
      logger.warn({ error }, 'branches could not be marked as closed in order; the next start looks through them');
    });
  };
  if (given.maintenance.isAutomatic) spaceWatch.start();
  return { operations, close };
}
