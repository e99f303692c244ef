/**
 * Several merges as one: which may share a commit, which rows the shared source has, and what of its result is whose.
 * Pure; the commit itself is `BranchQueue`'s.
 *
 * Requests of a group are applied as if one after the other, in their order. Rows with one key then end as its last
 * update left it, or with inserts alone as its first insert did; so one row per key goes to the engine, and each request
 * still counts its own: the first to bring a new key inserted it, the others found it.
 */
import { canConcat, type RowsOf } from '../../arrow/column/concat-rows.ts';
import { schemaFingerprint } from '../../arrow/schema/schema-message.ts';
import type { MergeCounts } from '../../engine/port/engine.ts';
import type { CanonicalKey } from '../../keys/key-columns.ts';
import type { CountsToldBy } from '../../telemetry/metrics.ts';
import { isNested, type MergeRequest } from '../merge-request.ts';

/** A source beyond this size gains nothing from company: its own rows cost more than its commit. */
const maxSharingRows = 10_000;
const maxGroupRows = 50_000;
const maxGroupBytes = 32 * 2 ** 20;

/**
 * Equal for requests that may share a commit; undefined for one that takes its turn alone: merges that delete by source or
 * update under a filter (what a row becomes depends on the one before it), nested keys (their scratch merge is one
 * request's), dictionary columns (a file holds each dictionary once) and large sources.
 */
export function sharingKey(request: MergeRequest): string | undefined {
  const { spec, chunk, on, tableId } = request;
  if (chunk.rows > maxSharingRows || isNested(request) || !canConcat([chunk])) return undefined;
  if (spec.whenNotMatchedBySourceDelete !== false || typeof spec.whenMatchedUpdateAll !== 'boolean') return undefined;
  const { whenMatchedUpdateAll, whenNotMatchedInsertAll, useIndex } = spec;
  const flags = [whenMatchedUpdateAll, whenNotMatchedInsertAll, useIndex];
  return JSON.stringify([tableId, on.map(({ segments }) => segments), flags, schemaFingerprint(chunk)]);
}

/** What one commit still has room for. */
export class GroupRoom {
  #rows = maxGroupRows;
  #bytes = maxGroupBytes;
  #isEmpty = true;

  /** False where it does not fit; the first always does. */
  take({ rows, decodedBytes }: { readonly rows: number; readonly decodedBytes: number }): boolean {
    if (!this.#isEmpty && (rows > this.#rows || decodedBytes > this.#bytes)) return false;
    this.#isEmpty = false;
    this.#rows -= rows;
    this.#bytes -= decodedBytes;
    return true;
  }
}

/** A request of the group and a row of its source, in one number: an object for each key would cost more than the key. */
type Place = number & { readonly place: true };
/** No request that may share has a row beyond `maxSharingRows`. */
const placeOf = (request: number, row: number): Place => (request * maxSharingRows + row) as Place;
const requestAt = (place: Place): number => Math.floor(place / maxSharingRows);
const rowAt = (place: Place): number => place % maxSharingRows;

export interface SharedRows {
  readonly parts: readonly RowsOf[];
  /** Every key of the group that is not NULL, with where it comes first. */
  readonly firstWith: ReadonlyMap<CanonicalKey, Place>;
  readonly nullRows: number;
}

/** One row per key. NULL is no key: such rows are all kept. Only for requests that may share. */
export function shareRows(requests: readonly MergeRequest[]): SharedRows {
  const laterWins = requests[0]?.spec.whenMatchedUpdateAll !== false;
  const masks: (Uint8Array | undefined)[] = requests.map(() => undefined);
  const drop = (place: Place): void => {
    const request = requestAt(place);
    masks[request] ??= new Uint8Array(requests[request]?.chunk.rows ?? 0).fill(1);
    masks[request][rowAt(place)] = 0;
  };
  const firstWith = new Map<CanonicalKey, Place>();
  /** Of keys that come again, which few do. */
  const lastWith = new Map<CanonicalKey, Place>();
  let nullRows = 0;
  for (const [request, { keys }] of requests.entries()) {
    for (let row = 0; row < keys.rows; row++) {
      const key = keys.canonical(row);
      if (key === undefined) {
        nullRows += 1;
        continue;
      }
      const place = placeOf(request, row);
      const first = firstWith.get(key);
      if (first === undefined) firstWith.set(key, place);
      else if (!laterWins) drop(place);
      else {
        drop(lastWith.get(key) ?? first);
        lastWith.set(key, place);
      }
    }
  }
  const parts = requests.map(({ chunk }, index) => ({ chunk, keep: masks[index] }));
  return { parts, firstWith, nullRows };
}

/** How many rows of the target had a key before the group: usually none or one; more where a create brought a key twice. */
export type RowsBefore = (key: CanonicalKey) => number;

export interface ToldRows {
  readonly by: CountsToldBy;
  readonly rowsBefore: RowsBefore;
}

/**
 * The same answer for every key, where the engine's totals leave no doubt; undefined where only the keys can tell.
 */
export function rowsBeforeByTotals(
  { whenMatchedUpdateAll: updates, whenNotMatchedInsertAll: inserts }: MergeRequest['spec'],
  { firstWith, nullRows }: SharedRows,
  totals: MergeCounts,
): ToldRows | undefined {
  const keys = firstWith.size;
  const all = (rows: 0 | 1): ToldRows => ({ by: 'totals', rowsBefore: () => rows });
  if (inserts) {
    const insertedKeys = totals.numInsertedRows - nullRows;
    if (insertedKeys === keys) return all(0);
    if (insertedKeys === 0 && (updates === false || totals.numUpdatedRows === keys)) return all(1);
    return undefined;
  }
  if (totals.numUpdatedRows === 0) return all(0);
  return undefined;
}

/**
 * Whether the rows found of keys of the group add up to the engine's totals. If they may be too many for a key and are never
 * too few, this is proof that they are right for every single key: a key too many would leave an insertion too few, and a
 * row too many an update too many, with none to make up for it.
 */
export function agreesWithTotals(
  found: ReadonlyMap<CanonicalKey, number>,
  { whenMatchedUpdateAll: updates, whenNotMatchedInsertAll: inserts }: MergeRequest['spec'],
  { firstWith, nullRows }: SharedRows,
  totals: MergeCounts,
): boolean {
  if (inserts && firstWith.size - found.size + nullRows !== totals.numInsertedRows) return false;
  if (updates === false) return true;
  let foundRows = 0;
  for (const rows of found.values()) foundRows += rows;
  return foundRows === totals.numUpdatedRows;
}

/** What `request` did, as if the requests of its group had been applied one after the other (P4). */
export function countsOf(
  request: MergeRequest,
  index: number,
  { firstWith }: SharedRows,
  rowsBefore: RowsBefore,
  totals: Pick<MergeCounts, 'version' | 'numAttempts'>,
): MergeCounts {
  const { whenMatchedUpdateAll: updates, whenNotMatchedInsertAll: inserts } = request.spec;
  let numInsertedRows = 0;
  let numUpdatedRows = 0;
  for (let row = 0; row < request.keys.rows; row++) {
    const key = request.keys.canonical(row);
    const first = key === undefined ? undefined : firstWith.get(key);
    const isFirst = first === undefined || requestAt(first) === index;
    const before = key === undefined ? 0 : rowsBefore(key);
    const found = before > 0 || isFirst || !inserts ? before : 1;
    if (found === 0 && inserts) numInsertedRows += 1;
    if (updates) numUpdatedRows += found;
  }
  const { version, numAttempts } = totals;
  return { version, numInsertedRows, numUpdatedRows, numDeletedRows: 0, numAttempts };
}
