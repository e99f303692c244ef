import type { Catalog } from '../catalog/port.ts';
import { changeKind } from '../change/change-kind.ts';
import { TableMaker } from '../create/table-maker.ts';
import type { Engine } from '../engine/port/engine.ts';
import { Idempotency } from '../idempotency/idempotency.ts';
import { IndexJobs } from '../indexing/index-jobs.ts';
import { indexKind } from '../indexing/index-kind.ts';
import { insertKind } from '../insert/insert-kind.ts';
import type { Clock, NewId } from '../kernel/clock.ts';
import type { KeyHasher } from '../keys/key-hasher.ts';
import { MaintenanceActions } from '../maintenance/act/maintenance-actions.ts';
import { type HistoryPolicy, HistoryRoom } from '../maintenance/history-room.ts';
import { MaintenanceScheduler, type SchedulerPolicy } from '../maintenance/scheduler.ts';
import { SpaceWatch } from '../maintenance/space-watch.ts';
import { KeyBudget } from '../memory/key-quota.ts';
import { MergeKind } from '../merge/merge-kind.ts';
import type { Queries } from '../query/protocol.ts';
import { CommitWaits, Consumers } from '../table/consumers.ts';
import { OpenDatasets } from '../table/open-datasets.ts';
import { BranchesBehind, RecoveryMarks } from '../table/recovery-marks.ts';
import { TableAccess, type WhileStorageAnswers } from '../table/table-access.ts';
import { TableLocks } from '../table/table-locks.ts';
import type { TableOwners } from '../table/table-owners.ts';
import { Trash } from '../table/trash.ts';
import { VersionPins } from '../table/version-pins.ts';
import type { Audit } from '../telemetry/audit.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { TableWriter } from '../write/table-writer.ts';
import { keepDeletingEndedRows } from './ended-rows.ts';
import { TableHandover } from './table-handover.ts';
import { keepPurging, purgeOldest } from './tables/purge-dropped-tables.ts';

interface StartDeps {
  readonly catalog: Catalog;
  readonly engine: Engine;
  readonly owners: TableOwners;
  readonly whileStorageAnswers: WhileStorageAnswers;
  readonly audit: Audit;
  readonly clock: Clock;
  readonly newId: NewId;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly queries: Queries;
  readonly maxWaitingPerTable: number;
  readonly maxOpenDatasets: number;
  /** What the keys known of all tables may take together. */
  readonly keyMemoryBytes: number;
  readonly keyHasher: KeyHasher;
  readonly idempotencyKeptMs: number;
  /** Tables are described as ones that programs of Lance commit to through this service. */
  readonly managesVersions: boolean;
  readonly consumerRetentionMs: number;
  readonly dropRetentionMs: number;
  readonly principalShare: number;
  readonly maintenanceLimits: SchedulerPolicy;
  readonly history?: HistoryPolicy | undefined;
}

/** What the operations are made of. Each of them names in its own file what it takes. */
export type OperationDeps = Awaited<ReturnType<typeof startOperations>>['deps'];

/**
 * Undoes what a crash left half-made (P1), so it must end before requests are taken; then makes what the operations need.
 * `close` is for when no new request will come: it ends what is under way, and records that the end was in order.
 */
export async function startOperations(given: StartDeps) {
  const { catalog, engine, logger, metrics } = given;
  const locks = new TableLocks(given.maxWaitingPerTable, given.owners);
  metrics.watchWaitingForTables(() => locks.waitingExclusive);
  const consumers = new Consumers(given);
  const datasets = new OpenDatasets(engine, given.maxOpenDatasets, (location) => consumers.forget(location));
  const access = new TableAccess(catalog, engine, datasets, given.whileStorageAnswers);
  const trash = new Trash(given);
  const maker = new TableMaker({ ...given, trash });
  const idempotency = new Idempotency({ ...given, access });
  const behind = new BranchesBehind(given);
  const recoveryMarks = new RecoveryMarks({ ...given, behind });
  const pins = new VersionPins();
  const waits = new CommitWaits(given);
  const history = given.history && new HistoryRoom({ ...given, ...given.history });
  const actions = new MaintenanceActions({
    ...{ catalog, engine, locks, recoveryMarks, pins, consumers },
    ...(history && { history }),
  });
  const maintenance = new MaintenanceScheduler({ ...given, actions, policy: given.maintenanceLimits });
  const purge = purgeOldest({ ...given, maker, locks, trash });
  const spaceWatch = new SpaceWatch({
    ...given,
    pruneTable: (...of) => maintenance.pruneTable(...of),
    purgeOldest: purge,
  });
  const keyBudget = new KeyBudget(given.keyMemoryBytes, given.clock);
  const writer = new TableWriter({
    ...given,
    access,
    datasets,
    locks,
    observer: maintenance,
    recoveryMarks,
    openKinds: () => ({
      merge: new MergeKind({ ...given, keyBudget }),
      insert: insertKind,
      change: changeKind,
      index: indexKind,
    }),
    maxWaiting: given.maxWaitingPerTable,
    maxIdle: given.maxOpenDatasets,
  });
  const indexJobs = new IndexJobs({ ...given, access, datasets, locks, recoveryMarks, writer, pins });
  const handover = new TableHandover({
    ...given,
    ...{ maker, idempotency, locks, datasets, recoveryMarks, writer, maintenance, indexJobs },
  });
  await given.owners.start(handover);
  const parts = { locks, datasets, access, maker, trash, writer, recoveryMarks, maintenance };
  const deps = { ...given, ...parts, idempotency, indexJobs, waits };
  const stopDeleting = given.maintenanceLimits.isAutomatic ? keepDeletingEndedRows(deps) : undefined;
  const stopPurging = keepPurging(deps);
  const close = async (): Promise<void> => {
    await Promise.all([indexJobs.close(), stopDeleting?.(), stopPurging()]);
    await writer.whenIdle();
    await Promise.all([spaceWatch.close(), maintenance.close()]);
    await recoveryMarks.closeAll().catch((error: unknown) => {
      logger.warn({ error }, 'branches could not be marked as closed; the next start checks them');
    });
    await given.owners.close();
  };
  if (given.maintenanceLimits.isAutomatic) spaceWatch.start();
  return { deps, behind, history, close, endWaits: () => waits.close() };
}
