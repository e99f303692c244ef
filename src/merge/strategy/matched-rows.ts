/**
 * Merges into tables of many columns, in a shadow, with any flags and filters. The engine's own merge reads the table joined with
 * the source, which takes it time that grows with the square of the columns, and with some hundreds of them ends its process.
 *
 * Here it reads the keys with the addresses of their rows, and judges a filter by the columns that this names. The rows that the
 * merge updates are deleted by their addresses and appended as whole rows, which makes one version.
 */
import type { IpcChunk } from '../../arrow/schema/schema.ts';
import type { ChangeLimits } from '../../engine/port/change-limits.ts';
import type { TableColumns } from '../../engine/port/column-view.ts';
import type { Datasets } from '../../engine/port/engine.ts';
import { addressesAmong, type RowAddressSql, rowAddress } from '../../engine/port/row-address.ts';
import type { MergeTotals, Shadow } from '../../engine/port/shadow.ts';
import { type CheckedSql, ownSql } from '../../kernel/checked-sql.ts';
import { principalKey } from '../../kernel/request-scope.ts';
import type { Batch } from '../batch.ts';
import { addressesByKey, soughtInView } from '../key-index/key-lookup.ts';
import { rowsPassing } from './filtered-rows.ts';
import { leavesOneRow } from './strategy.ts';
import { type RowToWrite, WholeRows } from './whole-rows.ts';

interface Target {
  /** The shadow has these. */
  readonly columns: TableColumns;
  readonly shadow: Shadow;
}

/** So many addresses are in one condition. */
const addressesPerStep = 50_000;

/** `remainingMs` is asked for each of the engine's steps; undefined is no deadline. */
export async function mergeMatched(
  engine: Datasets,
  target: Target,
  batch: Batch,
  remainingMs: () => number | undefined,
): Promise<{ readonly totals: MergeTotals; readonly surplusRows: number }> {
  const { shadow, columns } = target;
  const principal = principalKey(batch.first.scope.principal);
  const limits = (): ChangeLimits => ({ principal, timeoutMs: remainingMs() });
  const found = await findRows(shadow, batch, limits());
  const chunk = batch.chunk();
  const rows = rowsToWrite(batch, found, leavesOneRow(batch, columns.schema.fields.length));
  const matched = await passing(engine, target, batch, rows.updates, limits);
  const written = [...matched, ...rows.inserts].sort((a, b) => a.source - b.source);
  const whole = new WholeRows(chunk, columns, (names) => shadow.view(names, limits()));
  try {
    // The views are of the rows as they were before.
    if (matched.length > 0) await whole.prepare();
    const deletedBySource = await deleteBySource(shadow, batch, [...found.values()].flat(), limits);
    await deleteRows(shadow, [...matched.flatMap(({ old }) => old ?? []), ...rows.surplus], limits);
    let at = 0;
    for await (const part of whole.parts(written)) {
      const updated = written.slice(at, at + part.rows).map(({ old }) => old);
      await append(shadow, part, updated, limits());
      at += part.rows;
    }
    const surplusRows = rows.surplus.length;
    const totals = { numInsertedRows: rows.inserts.length, numUpdatedRows: matched.length };
    return { totals: { ...totals, numDeletedRows: deletedBySource + surplusRows }, surplusRows };
  } finally {
    whole.discard();
  }
}

type FoundAddresses = ReadonlyMap<number, readonly RowAddressSql[]>;

async function findRows(shadow: Shadow, batch: Batch, limits: ChangeLimits): Promise<FoundAddresses> {
  if (batch.numKeys === 0) return new Map();
  const view = await shadow.view([...new Set(batch.first.on.map(({ segments: [column = ''] }) => column))], limits);
  try {
    return await addressesByKey(view, soughtInView(batch));
  } finally {
    view.discard();
  }
}

interface PlannedMerge {
  readonly updates: readonly RowToWrite[];
  readonly inserts: readonly RowToWrite[];
  /** Rows of keys that have one row afterwards. */
  readonly surplus: readonly RowAddressSql[];
}

function rowsToWrite(batch: Batch, found: FoundAddresses, isOnePerKey: boolean): PlannedMerge {
  const [updates, inserts, surplus]: [RowToWrite[], RowToWrite[], RowAddressSql[]] = [[], [], []];
  for (const { source, key } of batch.rowsOf(batch.parts)) {
    const addresses = found.get(key) ?? [];
    if (addresses.length === 0 && batch.inserts) inserts.push({ source, old: undefined });
    if (!batch.updates) continue;
    const updated = isOnePerKey ? addresses.slice(0, 1) : addresses;
    for (const old of updated) updates.push({ source, old });
    surplus.push(...addresses.slice(updated.length));
  }
  return { updates, inserts, surplus };
}

async function passing(
  engine: Datasets,
  { shadow, columns }: Target,
  batch: Batch,
  updates: readonly RowToWrite[],
  limits: () => ChangeLimits,
): Promise<readonly RowToWrite[]> {
  const { whenMatchedUpdateAll: filter } = batch.first.spec;
  if (typeof filter === 'boolean') return updates;
  return rowsPassing({ engine, shadow, table: columns.schema, source: batch.chunk(), filter, limits }, updates);
}

/** Deletes, of the rows that no key of the source has, those that the request names. */
async function deleteBySource(
  shadow: Shadow,
  { first: { spec } }: Batch,
  kept: readonly RowAddressSql[],
  limits: () => ChangeLimits,
): Promise<number> {
  const deletes = spec.whenNotMatchedBySourceDelete;
  if (deletes === false) return 0;
  const conditions = deletes === true ? [] : [`(${deletes.filter})`];
  let deleted = 0;
  for (const { among, within } of inSteps(kept)) {
    const others = among === undefined ? [] : [`NOT (${among})`];
    const where = ownSql([...within, ...others, ...conditions].join(' AND ') || 'true');
    const step = { kind: 'delete', where, parameter: 'the filter of when_not_matched_by_source_delete' } as const;
    deleted += (await shadow.change(step, undefined, limits())).numDeletedRows;
  }
  return deleted;
}

async function deleteRows(
  shadow: Shadow,
  addresses: readonly RowAddressSql[],
  limits: () => ChangeLimits,
): Promise<void> {
  for (const { among } of inSteps(addresses)) {
    if (among !== undefined) await shadow.change({ kind: 'delete', where: among }, undefined, limits());
  }
}

/** Conditions that name some of the addresses each, and those within which all others lie: together they are all addresses. */
function inSteps(addresses: readonly RowAddressSql[]): readonly { among: CheckedSql | undefined; within: string[] }[] {
  if (addresses.length === 0) return [{ among: undefined, within: [] }];
  const sorted = addresses.toSorted((a, b) => a.length - b.length || (a < b ? -1 : 1));
  const count = Math.ceil(sorted.length / addressesPerStep);
  return Array.from({ length: count }, (_, step) => {
    const start = step * addressesPerStep;
    const end = start + addressesPerStep;
    const from = step === 0 ? [] : [`${rowAddress} >= ${sorted[start]}`];
    const to = step === count - 1 ? [] : [`${rowAddress} < ${sorted[end]}`];
    return { among: addressesAmong(sorted.slice(start, end)), within: [...from, ...to] };
  });
}

async function append(
  shadow: Shadow,
  { file, rows }: IpcChunk,
  updated: readonly (RowAddressSql | undefined)[],
  limits: ChangeLimits,
): Promise<void> {
  if (rows > 0) await shadow.change({ kind: 'append', rows, updated }, file, limits);
}
