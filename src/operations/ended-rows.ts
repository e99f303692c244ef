/**
 * Deletes rows that are past their time (`table/row-ends.ts`), of every table that this process owns, on main and on branches. A look
 * counts them in a reader and, where there are any, deletes them as a client would: behind the writers of the branch, with exact counts.
 */
import { resourceUid } from '../auth/policy/cedar-policy.ts';
import type { TableCatalog, TableRecord } from '../catalog/port.ts';
import { type ChangeDeps, submitChange } from '../change/submit-change.ts';
import type { Clock } from '../kernel/clock.ts';
import { LancegateError } from '../kernel/errors.ts';
import { type BranchName, showTable, type TableRef } from '../kernel/ids.ts';
import type { RequestScope } from '../kernel/request-scope.ts';
import type { Queries } from '../query/protocol.ts';
import { endedRows, rowEndsOf } from '../table/row-ends.ts';
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

/** One commit deletes so many, unless more end in one millisecond. */
const mostRows = 1_000_000;

/** Returns how to stop it, which waits for the delete under way. */
export function keepDeletingEndedRows(parts: EndedRowsDeps): () => Promise<void> {
  const stopping = new AbortController();
  let look = Promise.resolve();
  let cancel = parts.clock.schedule(0, run);
  function run(): void {
    look = lookAtAll(parts, stopping.signal).then(() => {
      // So no row is seen for a minute after its end, with time for the look and the deletes.
      if (!stopping.signal.aborted) cancel = parts.clock.schedule(20_000, run);
    });
  }
  return async () => {
    stopping.abort(new LancegateError('SlowDown', 'the service stops; nothing was written'));
    cancel();
    await look;
  };
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

async function lookAt(parts: EndedRowsDeps, table: TableRecord, signal: AbortSignal): Promise<void> {
  await attempt(parts, table, signal, async () => {
    if (signal.aborted || rowEndsOf(table.properties) === undefined) return;
    const owner = await parts.owners.ownerOf(table.ref, { mustClaim: false, mustExist: true });
    if (owner.kind !== 'self') return;
    const { branches } = await parts.access.latest(table, undefined);
    const names = [undefined, ...(await branches.list()).map(({ name }) => name)];
    for (const branch of names) await attempt(parts, table, signal, () => deleteEnded(parts, table, branch, signal));
  });
}

/** Never rejects. */
async function attempt(
  parts: EndedRowsDeps,
  table: TableRecord,
  signal: AbortSignal,
  work: () => Promise<void>,
): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (signal.aborted) return;
    parts.metrics.rowsEnded('failed');
    const fields = { table: showTable(table.ref), error };
    parts.logger.warn(fields, 'rows past their time could not be deleted; the service tries again');
  }
}

/** In commits of at most `mostRows`, the oldest first. */
async function deleteEnded(
  parts: EndedRowsDeps,
  table: TableRecord,
  branch: BranchName | undefined,
  signal: AbortSignal,
): Promise<void> {
  const { access, queries, clock, logger, metrics, audit, newId } = parts;
  const ends = rowEndsOf(table.properties);
  if (ends === undefined) return;
  const scope: RequestScope = { requestId: newId(), principal, signal, remainingMs: () => undefined };
  const schema = await (await access.latest(table, branch)).schema();
  const ended = (nowMs: number) => endedRows(ends, schema, nowMs);
  const count = (nowMs: number) =>
    askReader(access, table, { table: table.ref, branch }, (at) => queries.count(at, ended(nowMs), scope));
  const nowMs = clock.nowMs();
  let rows = await count(nowMs);
  while (rows > 0 && !signal.aborted) {
    const where = ended(rows <= mostRows ? nowMs : await cutBefore(nowMs, mostRows, count));
    const change = {
      operation: 'delete',
      table,
      branch,
      steps: [{ step: { kind: 'delete', where } }],
    } as const;
    const { numDeletedRows, version, transactionId } = await submitChange(parts, change, scope, undefined);
    metrics.rowsEnded('deleted', numDeletedRows);
    const fields = { table: showTable(table.ref), branch: branch ?? 'main', numDeletedRows, version, transactionId };
    logger.info(fields, 'deleted rows that are past their time');
    const facts = { version, deletedRows: numDeletedRows, transactionId };
    audit.requestEnded({ ...noRequest, ...facts, requestId: scope.requestId, table: idOf(table.ref), branch });
    rows -= numDeletedRows;
    if (rows > 0) rows = await count(nowMs);
  }
}

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

/** It stands in the place of a client's. */
const principal = { issuer: 'lancegate', subject: 'lancegate:ended-rows', scopes: [], groups: [] };

const idOf = (table: TableRef): string => resourceUid({ kind: 'table', table }).id;

/** The audit record of a delete that no request asked for. */
const noRequest = {
  ...{
    method: 'none',
    route: 'none',
    status: undefined,
    durationMs: 0,
    receivedBytes: 0,
    address: '',
    proxy: undefined,
  },
  ...{ subject: principal.subject, issuer: principal.issuer, keyId: undefined, decision: 'not asked' as const },
  ...{ actions: undefined, namespace: undefined, refusal: undefined, clientLeft: undefined },
};
