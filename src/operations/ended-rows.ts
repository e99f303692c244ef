/**
 * Deletes rows that are past their time (`table/row-ends.ts`), of every table that this process owns, on main and on
 * branches. A look counts them in a reader and, where there are any, deletes them as a client would: behind the writers of
 * the branch, with exact counts.
 */
import type { TableCatalog, TableRecord } from '../catalog/port.ts';
import type { ComputedStep } from '../change/change-request.ts';
import { type ChangeDeps, submitChange } from '../change/submit-change.ts';
import { factsOf, nothingAsked, principalFacts } from '../endpoint/route.ts';
import { type Clock, repeat } from '../kernel/clock.ts';
import { LancegateError, timedOut } from '../kernel/errors.ts';
import { type BranchName, showTable } from '../kernel/ids.ts';
import { firstOf, type RequestScope } from '../kernel/request-scope.ts';
import type { Queries } from '../query/protocol.ts';
import { endedRows, type RowEnds, rowEndsOf } from '../table/row-ends.ts';
import type { TableAccess } from '../table/table-access.ts';
import type { TableOwners } from '../table/table-owners.ts';
import type { Audit } from '../telemetry/audit.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { askReader } from './tables/query-table.ts';

interface EndedRowsDeps extends ChangeDeps {
  readonly access: TableAccess;
  readonly catalog: Pick<TableCatalog, 'listTables'>;
  readonly owners: Pick<TableOwners, 'ownerOf'>;
  readonly queries: Pick<Queries, 'count'>;
  readonly audit: Audit;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/** The most rows that one commit deletes, unless more end in one millisecond. */
const mostRows = 1_000_000;

/** A look at one branch takes no longer. */
const longestMs = 60_000;

/** Returns how to stop it, which waits for the delete under way. */
export function keepDeletingEndedRows(parts: EndedRowsDeps): () => Promise<void> {
  const stop = repeat(parts.clock, 0, async (stopping) => {
    await lookAtAll(parts, stopping);
    return 20_000; // so no row is seen for a minute after its end, with time for the look and the deletes
  });
  return () => stop(new LancegateError('SlowDown', 'the service stops; nothing was written'));
}

/** Never rejects. */
async function lookAtAll(parts: EndedRowsDeps, signal: AbortSignal): Promise<void> {
  try {
    let after: string | undefined;
    do {
      const page = { after, limit: 256, includeDeclared: false, includeBelow: true };
      const tables = await parts.catalog.listTables([], page);
      for (const table of tables) await lookAt(parts, table, signal);
      after = tables.length < page.limit ? undefined : tables.at(-1)?.cursor;
    } while (after !== undefined && !signal.aborted);
  } catch (error) {
    if (!signal.aborted)
      parts.logger.warn({ error }, 'tables whose rows end could not be listed; the service tries again');
  }
}

async function lookAt(parts: EndedRowsDeps, table: TableRecord, stopping: AbortSignal): Promise<void> {
  const branches = await attempt(parts, table, stopping, () => branchesOf(parts, table));
  for (const branch of branches ?? [])
    await attempt(parts, table, stopping, (scope) => deleteEnded(parts, table, branch, scope));
}

/** None where no row ends, or where another replica owns the table. */
async function branchesOf(
  { owners, access }: EndedRowsDeps,
  table: TableRecord,
): Promise<readonly (BranchName | undefined)[]> {
  if (rowEndsOf(table.properties) === undefined) return [];
  const owner = await owners.ownerOf(table.ref, { mustClaim: false, mustExist: true });
  if (owner.kind !== 'self') return [];
  const { branches } = await access.latest(table, undefined);
  return [undefined, ...(await branches.list()).map(({ name }) => name)];
}

/** Never rejects. What takes longer than `longestMs` is left, so a table that does not answer does not stop the others (P10). */
async function attempt<Result>(
  { clock, newId, metrics, logger }: EndedRowsDeps,
  table: TableRecord,
  stopping: AbortSignal,
  work: (scope: RequestScope) => Promise<Result>,
): Promise<Result | undefined> {
  if (stopping.aborted) return undefined;
  const untilMs = clock.nowMs() + longestMs;
  const late = new AbortController();
  const cancel = clock.schedule(longestMs, () => late.abort(timedOut()));
  const signal = AbortSignal.any([stopping, late.signal]);
  const remainingMs = () => Math.max(0, untilMs - clock.nowMs());
  try {
    return await firstOf(work({ requestId: newId(), principal, signal, remainingMs }), late.signal);
  } catch (error) {
    if (stopping.aborted) return undefined;
    metrics.rowsEnded('failed');
    const fields = { table: showTable(table.ref), error };
    logger.warn(fields, 'rows past their time could not be deleted; the service tries again');
    return undefined;
  } finally {
    cancel();
  }
}

/** In commits of at most `mostRows`, the oldest first. */
async function deleteEnded(
  parts: EndedRowsDeps,
  table: TableRecord,
  branch: BranchName | undefined,
  scope: RequestScope,
): Promise<void> {
  const { access, queries, clock, logger, metrics, audit } = parts;
  const ends = rowEndsOf(table.properties);
  if (ends === undefined) return;
  const { schema } = await (await access.latest(table, branch)).columns();
  const count = (atMs: number) =>
    askReader(access, table, { table: table.ref, branch }, (at) =>
      queries.count(at, endedRows(ends, schema, atMs), scope),
    );
  const nowMs = clock.nowMs();
  let rows = await count(nowMs);
  while (rows > 0 && !scope.signal.aborted) {
    const untilMs = rows <= mostRows ? nowMs : await cutBefore(nowMs, mostRows, count);
    const steps = [deletionUntil(ends, untilMs)];
    // Rows that went as they were asked to are no mistake, and are not kept.
    const change = { operation: 'delete', table, branch, steps, takesAway: false } as const;
    const { numDeletedRows, version, transactionId } = await submitChange(parts, change, scope, undefined);
    metrics.rowsEnded('deleted', numDeletedRows);
    const fields = { table: showTable(table.ref), branch: branch ?? 'main', numDeletedRows, version, transactionId };
    logger.info(fields, 'deleted rows that are past their time');
    const facts = { ...factsOf({ kind: 'table', table: table.ref }, branch), version, transactionId };
    audit.requestEnded({ ...noRequest, ...facts, requestId: scope.requestId, deletedRows: numDeletedRows });
    rows -= numDeletedRows;
    if (rows > 0) rows = await count(nowMs);
  }
}

/** By the columns that the branch has when the delete is committed: since the rows were counted, an overwrite may have changed the unit. */
const deletionUntil = (ends: RowEnds, untilMs: number): ComputedStep => ({
  changesRowsOnly: true,
  run: async (shadow, limits) => {
    const { schema } = await shadow.columns();
    return shadow.change({ kind: 'delete', where: endedRows(ends, schema, untilMs) }, undefined, limits);
  },
});

/** A time by which not more than `mostRows` have ended, but some; or the first by which any have. */
export async function cutBefore(
  nowMs: number,
  mostRows: number,
  count: (nowMs: number) => Promise<number>,
): Promise<number> {
  let [before, by] = [nowMs - 2 ** 43, nowMs];
  while (by - before > 1) {
    const middle = Math.floor((before + by) / 2);
    const rows = await count(middle);
    if (rows > mostRows) by = middle;
    else if (rows === 0) before = middle;
    else return middle;
  }
  return by;
}

/** The principal of these deletes, which no client asked for. */
const principal = { issuer: 'lancegate', subject: 'lancegate:ended-rows', scopes: [], groups: [] };

/** The audit record of a delete that no request asked for. */
const noRequest = {
  ...nothingAsked,
  ...principalFacts(principal),
  method: 'none',
  route: 'none',
  status: undefined,
  durationMs: 0,
  receivedBytes: 0,
  address: '',
  proxy: undefined,
  refusal: undefined,
  clientLeft: undefined,
} as const;
