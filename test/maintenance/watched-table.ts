import type { TestContext } from 'node:test';
import { Int32, Table, vectorFromArray } from 'apache-arrow';
import { parseFieldPath } from '#src/arrow/schema/field-path.ts';
import type { Dataset } from '#src/engine/port/dataset.ts';
import type { Engine, OpenRequest } from '#src/engine/port/engine.ts';
import { MaintenanceActions } from '#src/maintenance/act/maintenance-actions.ts';
import { MaintenanceScheduler } from '#src/maintenance/scheduler.ts';
import { Consumers } from '#src/table/consumers.ts';
import { RecoveryMarks } from '#src/table/recovery-marks.ts';
import { TableLocks } from '#src/table/table-locks.ts';
import { VersionPins } from '#src/table/version-pins.ts';
import { createLogger } from '#src/telemetry/logger.ts';
import { Metrics } from '#src/telemetry/metrics.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { appendTo } from '#test/fixtures/engine-writes.ts';
import { publishTable } from '#test/fixtures/published-table.ts';
import { replacing } from '#test/fixtures/replacing.ts';
import { AdvancingClock } from './advancing-clock.ts';

export const retentionMs = 60_000;
const rows = (ids: readonly number[]): Table => new Table({ id: vectorFromArray(ids, new Int32()) });

interface LogLine {
  readonly job?: string;
  readonly reason?: string;
  readonly message?: string;
  readonly removedVersions?: number;
}

interface Watched {
  readonly ids: readonly number[];
  readonly indexFromRows: number;
  /** In place of the methods of every dataset that maintenance opens. */
  readonly replaced: (opened: Dataset) => Partial<Dataset>;
}

/** A table over the real engine and catalog that is maintained automatically. */
export async function watchedTable(t: TestContext, { ids, indexFromRows, replaced }: Watched) {
  const { catalog, engine, dataset, ref, tableId, location } = await publishTable(t, rows(ids));
  const open = async (request: OpenRequest): Promise<Dataset> => {
    const opened = await engine.open(request);
    return replacing(opened, replaced(opened));
  };
  const watchedEngine = replacing<Engine>(engine, { open });
  const recoveryMarks = new RecoveryMarks({ catalog, engine: watchedEngine });
  const log: string[] = [];
  const clock = new AdvancingClock();
  const scheduler = new MaintenanceScheduler({
    actions: new MaintenanceActions({
      catalog,
      engine: watchedEngine,
      locks: new TableLocks(10),
      recoveryMarks,
      pins: new VersionPins(),
      consumers: new Consumers({ clock, metrics: new Metrics(), consumerRetentionMs: 60_000 }),
    }),
    clock,
    logger: createLogger({ level: 'info', format: 'json', destination: { write: (line) => log.push(line) } }),
    metrics: new Metrics(),
    policy: { isAutomatic: true, retentionMs, indexFromRows },
  });
  const target = { table: ref, tableId, branch: undefined, location };
  let nextId = ids.length;
  const commit = async (): Promise<void> => {
    await dataset.refresh();
    await appendTo(dataset, ipcFile(rows([nextId++])));
    scheduler.committed({ ...target, on: [parseFieldPath('id')], version: await dataset.version() });
  };
  const lines = (): LogLine[] => log.map((line) => JSON.parse(line) as LogLine);
  return { scheduler, target, clock, commit, dataset, lines };
}
