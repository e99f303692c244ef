/**
 * Of rows with one key the newest stays: before merges by a version column are applied, those of their rows go that are older than what
 * has their key by then, in the table or in a merge before. What is left is merged as any other rows, whatever computes it.
 */
import { setImmediate } from 'node:timers/promises';
import { keepRows } from '../arrow/column/concat-rows.ts';
import type { FieldPath } from '../arrow/schema/field-path.ts';
import { chunkOfFile } from '../arrow/stream/ipc-chunks.ts';
import { paired } from '../kernel/paired.ts';
import { isSome } from '../kernel/some.ts';
import { orderedValue, readKeys, sqlFieldPath } from '../keys/key-columns.ts';
import type { KeyHasher } from '../keys/key-hasher.ts';
import { readKeyColumn } from '../keys/key-values.ts';
import { Batch, type MergeOfRows } from './batch.ts';
import { type ReadColumns, sliceRows } from './key-index/key-lookup.ts';
import { isOlder, type RowVersion } from './row-rules.ts';

interface NewestRows {
  /** The same one if no row is older. */
  readonly batch: Batch;
  /** How many rows of each merge went. */
  readonly numStaleRows: readonly number[];
}

/** What has a key: nothing, or a row with this version. */
type Standing = { readonly version: RowVersion } | undefined;

/** `read` gives at least the rows of the table that have a key of the batch. */
export async function newestRows(sent: Batch, versionColumn: FieldPath, read: ReadColumns): Promise<NewestRows> {
  const standing = await versionsThere(sent, versionColumn, read);
  const masks: Uint8Array[] = [];
  for (const request of sent.requests.keys()) masks.push(await withoutStale(sent, request, versionColumn, standing));
  const numStaleRows = masks.map((keep) => keep.reduce((sum, stays) => sum + 1 - stays, 0));
  if (numStaleRows.every((rows) => rows === 0)) return { batch: sent, numStaleRows };
  const merges = paired(sent.requests, masks).map((each) => withRows(...each, sent.hasher));
  const requests = await Promise.all(merges);
  return { batch: isSome(requests) ? new Batch(requests, sent.isByKeys, sent.hasher) : sent, numStaleRows };
}

/** A byte for each row of one merge: 0 where it is older than what is `standing`, which then has what the other rows bring. */
async function withoutStale(
  batch: Batch,
  request: number,
  versionColumn: FieldPath,
  standing: Standing[],
): Promise<Uint8Array> {
  const { chunk } = batch.requests[request] ?? batch.first;
  const versions = readKeyColumn(chunk, versionColumn);
  const keep = new Uint8Array(chunk.rows).fill(1);
  for (const [row, key] of batch.keyOf(request).entries()) {
    if (row % sliceRows === sliceRows - 1) await setImmediate();
    if (key === -1) continue;
    const version = orderedValue(versions, row);
    const found = standing[key];
    if (found !== undefined && isOlder(version, found.version)) keep[row] = 0;
    else if (found !== undefined || batch.inserts) standing[key] = { version };
  }
  return keep;
}

/** Of a key that another program has doubled the newest row counts. */
async function versionsThere(batch: Batch, versionColumn: FieldPath, read: ReadColumns): Promise<Standing[]> {
  const { first, keys, hasher } = batch;
  const keyColumns = first.on.map((path, i) => ({ name: `key_${i}`, expression: sqlFieldPath(path) }));
  const keyPaths = keyColumns.map(({ name }) => ({ segments: [name] }));
  const standing = new Array<Standing>(keys.size).fill(undefined);
  for await (const file of read([...keyColumns, { name: 'version', expression: sqlFieldPath(versionColumn) }])) {
    const chunk = chunkOfFile(file);
    const there = readKeys(chunk, keyPaths);
    const versions = readKeyColumn(chunk, { segments: ['version'] });
    const digests = await hasher.digest(there);
    for (let row = 0; row < chunk.rows; row++) {
      const key = there.isNull(row) ? -1 : keys.indexOf(digests, row);
      if (key === -1) continue;
      const version = orderedValue(versions, row);
      const known = standing[key];
      if (known === undefined || isOlder(known.version, version)) standing[key] = { version };
    }
  }
  return standing;
}

async function withRows(merge: MergeOfRows, keep: Uint8Array, hasher: KeyHasher): Promise<MergeOfRows> {
  if (!keep.includes(0)) return merge;
  const chunk = keepRows(merge.chunk, keep);
  const keys = readKeys(chunk, merge.on);
  return { ...merge, chunk, keys, digests: await hasher.digest(keys) };
}
