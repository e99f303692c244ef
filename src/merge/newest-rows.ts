/**
 * Of rows with one key the newest stays: before merges by a version column are applied, those of their rows go that are older than what
 * has their key by then, in the table or in a merge before. What is left is merged as any other rows, whatever computes it.
 */
import { setImmediate } from 'node:timers/promises';
import { FaultyPart, keepRows } from '../arrow/column/concat-rows.ts';
import type { FieldPath } from '../arrow/schema/field-path.ts';
import { chunkOfFile } from '../arrow/stream/ipc-chunks.ts';
import { paired } from '../kernel/paired.ts';
import { isSome } from '../kernel/some.ts';
import { orderedValues, readKeys, sqlFieldPath } from '../keys/key-columns.ts';
import { type OrderedValue, readKeyColumn } from '../keys/key-values.ts';
import { Batch, type MergeOfRows } from './batch.ts';
import { type ReadColumns, sliceRows } from './key-index/key-lookup.ts';
import { isOlder } from './row-rules.ts';

interface NewestRows {
  /** The same one if no row is older. */
  readonly batch: Batch;
  /** How many rows of each merge went. */
  readonly numStaleRows: readonly number[];
}

/** Returns what finds the version of the tombstone of a row's key; undefined where there are none. */
export type DeletedVersions = (
  merge: MergeOfRows,
  versionColumn: FieldPath,
) => ((row: number) => OrderedValue) | undefined;

interface KnownVersions {
  readonly versionColumn: FieldPath;
  readonly standing: Versions;
  readonly deleted: DeletedVersions;
}

/** The versions of rows, by the numbers of their keys: a key that is not among them has no row. */
type Versions = Map<number, OrderedValue>;

/**
 * `standing` are those of the table, and then those that the merges leave; `deleted` gives those of rows that are not there by their
 * tombstones. Throws `FaultyPart` for a merge whose values are malformed.
 */
export async function newestRows(
  sent: Batch,
  versionColumn: FieldPath,
  standing: Versions,
  deleted: DeletedVersions = () => undefined,
): Promise<NewestRows> {
  const newest: MergeOfRows[] = [];
  const known = { versionColumn, standing, deleted };
  for (const each of sent.requests.entries()) newest.push(await withoutStale(sent, each, known));
  const numStaleRows = paired(sent.requests, newest).map(([{ chunk: all }, { chunk: kept }]) => all.rows - kept.rows);
  const isSame = numStaleRows.every((rows) => rows === 0);
  return { batch: isSame || !isSome(newest) ? sent : new Batch(newest, sent.isByKeys, sent.hasher), numStaleRows };
}

/** One merge without the rows that are older than what is `standing`, which then has what the merge writes. */
async function withoutStale(
  batch: Batch,
  [request, merge]: readonly [number, MergeOfRows],
  { versionColumn, standing, deleted }: KnownVersions,
): Promise<MergeOfRows> {
  try {
    const versionAt = orderedValues(readKeyColumn(merge.chunk, versionColumn, 'version'));
    const keep = new Uint8Array(merge.chunk.rows).fill(1);
    const deletedAt = deleted(merge, versionColumn);
    const newestKnown = (key: number, row: number) => (standing.has(key) ? standing.get(key) : deletedAt?.(row));
    for (const [row, key] of batch.keyOf(request).entries()) {
      if (row % sliceRows === sliceRows - 1) await setImmediate();
      if (key === -1) continue;
      const version = versionAt(row);
      const isThere = standing.has(key);
      if (isOlder(version, newestKnown(key, row))) keep[row] = 0;
      else if (isThere ? batch.updates : batch.inserts) standing.set(key, version);
    }
    if (!keep.includes(0)) return merge;
    const chunk = keepRows(merge.chunk, keep);
    const keys = readKeys(chunk, merge.on);
    return { ...merge, chunk, keys, digests: await batch.hasher.digest(keys) };
  } catch (error) {
    throw FaultyPart.of(request, error);
  }
}

/** Reads the versions of rows of the batch's keys, and of others. Of a key that another program has doubled, the newest row counts. */
export async function readVersions(batch: Batch, versionColumn: FieldPath, read: ReadColumns): Promise<Versions> {
  const { first, keys, hasher } = batch;
  const keyColumns = first.on.map((path, i) => ({ name: `key_${i}`, expression: sqlFieldPath(path) }));
  const keyPaths = keyColumns.map(({ name }) => ({ segments: [name] }));
  const found = new Map<number, OrderedValue>();
  for await (const file of read([...keyColumns, { name: 'version', expression: sqlFieldPath(versionColumn) }])) {
    const chunk = chunkOfFile(file);
    const there = readKeys(chunk, keyPaths);
    const versionAt = orderedValues(readKeyColumn(chunk, { segments: ['version'] }, 'version'));
    const digests = await hasher.digest(there);
    for (let row = 0; row < chunk.rows; row++) {
      const key = there.isNull(row) ? -1 : keys.indexOf(digests, row);
      if (key === -1) continue;
      const version = versionAt(row);
      if (!found.has(key) || isOlder(found.get(key), version)) found.set(key, version);
    }
  }
  return found;
}
