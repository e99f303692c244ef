/**
 * What a commit says of the keyed requests that it carries out, in the properties of its transaction: a process that finds the commit after
 * a crash can give their first answers, although the catalog did not learn of them (P6).
 */

import type { WriteOperation } from '../catalog/port.ts';
import type { MergeTotals } from '../engine/port/shadow.ts';
import type { ToldOfColumns } from '../kernel/column-changes.ts';
import type { Properties, TransactionId } from '../kernel/ids.ts';
import type { InvalidRow } from '../kernel/invalid-rows.ts';

/** What the answer to a write says of its rows. */
export interface AnsweredTotals extends MergeTotals, ToldOfColumns {
  /** Of a merge with rules for them: rows that were older than those there, or that another row of the source stood in for. */
  readonly numStaleRows?: number;
  readonly numDuplicateRows?: number;
  /** Of one that reports rows that break a rule. */
  readonly numInvalidRows?: number;
  readonly invalidRows?: readonly InvalidRow[];
  /** Of a merge by rules of its table. */
  readonly defaults?: Properties;
}

interface NotedOutcome {
  /** The `attempt` of the `KeyedRequest`. */
  readonly attempt: string;
  readonly transactionId: TransactionId;
  readonly operation: WriteOperation;
  readonly numAttempts: number;
  readonly totals: AnsweredTotals;
}

const property = 'lancegate.requests';

export const notedOutcomes = (outcomes: readonly NotedOutcome[]): Readonly<Record<string, string>> => ({
  [property]: JSON.stringify(outcomes),
});

/** undefined where the commit was not made for this attempt, or where it does not say. */
export function outcomeNotedFor(
  attempt: string,
  properties: Readonly<Record<string, string>>,
): NotedOutcome | undefined {
  try {
    const noted: unknown = JSON.parse(properties[property] ?? '[]');
    return Array.isArray(noted) ? (noted as NotedOutcome[]).find((each) => each?.attempt === attempt) : undefined;
  } catch {
    return undefined; // translated: another program wrote it
  }
}

/** A transaction record says this of a write. */
export const outcomeOf = (totals: AnsweredTotals): Readonly<Record<string, string>> => ({
  num_inserted_rows: String(totals.numInsertedRows),
  num_updated_rows: String(totals.numUpdatedRows),
  num_deleted_rows: String(totals.numDeletedRows),
  ...(totals.numDuplicateRows !== undefined && { num_duplicate_rows: String(totals.numDuplicateRows) }),
  ...(totals.numInvalidRows !== undefined && { num_invalid_rows: String(totals.numInvalidRows) }),
  ...(totals.numStaleRows !== undefined && { num_stale_rows: String(totals.numStaleRows) }),
  ...(totals.addedColumns && { added_columns: namesOf(totals.addedColumns) }),
  ...(totals.widenedColumns && { widened_columns: namesOf(totals.widenedColumns) }),
});

const namesOf = (columns: readonly { readonly name: string }[]): string => columns.map(({ name }) => name).join(', ');
