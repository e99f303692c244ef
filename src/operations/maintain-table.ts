import Type from 'typebox';
import { Nothing, onceRoute } from '../endpoint/json-route.ts';
import { tableTarget, visibleTo } from '../endpoint/route.ts';
import type { TableRef } from '../kernel/ids.ts';
import type { JobReport } from '../maintenance/report.ts';
import type { MaintenanceScheduler } from '../maintenance/scheduler.ts';
import type { TableAccess } from '../table/table-access.ts';
import { Count } from '../wire/json-body.ts';

/** Compacts, prunes and indexes main and every branch now; reports each job. */
const maintainTable =
  ({ access, maintenance }: { access: TableAccess; maintenance: MaintenanceScheduler }) =>
  async ({ table }: { table: TableRef }): Promise<readonly JobReport[]> => {
    const record = await access.findCreated(table);
    const { id: tableId, location } = record;
    const main = { table, tableId, branch: undefined, location };
    return access.onFilesOf(record, () => maintenance.maintainByHand(main));
  };

const Jobs = Type.Object({
  jobs: Type.Array(
    Type.Object({
      job: Type.Enum(['index', 'prune', 'compact']),
      branch: Type.String(),
      reason: Type.String(),
      duration_ms: Count,
      column: Type.Optional(Type.String()),
      rows: Type.Optional(Count),
      skipped: Type.Optional(Type.String()),
      removed_versions: Type.Optional(Count),
      removed_bytes: Type.Optional(Count),
      removed_fragments: Type.Optional(Count),
      writers_waited_ms: Type.Optional(Count),
      held_by_tag: Type.Optional(Type.Boolean()),
      indexed_columns: Type.Optional(Type.Array(Type.String())),
    }),
  ),
});

/**
 * An operation of this service only: the specification has none. Answers when all is done, without the jobs on branches that
 * the principal may not describe.
 */
export const maintainTableRoute = onceRoute('maintain_table', maintainTable, {
  path: '/v1/table/:id/maintain',
  target: tableTarget,
  action: 'MaintainTable',
  summary: 'Compacts a table, keeps its indexes up to date and prunes old versions now',
  answers: Jobs,
  body: Nothing,
  answer: async (operation, { target: table }, input) => {
    const jobs = await operation({ table });
    const isVisible = visibleTo(input.access, table);
    return { jobs: jobs.filter(({ branch }) => isVisible(branch)).map(jobContents) };
  },
});

function jobContents(report: JobReport) {
  const { branch = 'main', reason, durationMs } = report;
  const common = { branch, reason, duration_ms: Math.round(durationMs) };
  if (report.job === 'index')
    return { job: 'index', ...common, column: report.column, rows: report.rows, skipped: report.refusal?.message };
  const removed = { removed_versions: report.removedVersions, removed_bytes: report.removedBytes };
  if (report.job === 'prune') return { job: 'prune', ...common, ...removed };
  return {
    job: 'compact',
    ...common,
    writers_waited_ms: Math.round(report.lockedMs),
    removed_fragments: report.removedFragments,
    ...removed,
    held_by_tag: report.isHeldByTag,
    indexed_columns: report.indexed,
  };
}
