/** Looking after one branch of a dataset: what its storage looks like, and the engine's one call that tidies it. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { FragmentFacts, Layout, OptimizeRequest, OptimizeResult, VersionFacts } from '../port.ts';
import { compactionTag } from './compaction-tag.ts';
import { parseManifest } from './manifest.ts';
import { readManifest } from './manifest-files.ts';
import type { NativeOptimizeStats, NativeTable } from './native.ts';
import { isPruningStoppedBy } from './translate-errors.ts';

/** What the engine calls the index of a column if it is given no name. */
export const plainIndexName = (column: string): string => `${column}_idx`;

/** `versionsFolder` where the table is on a file system. */
export async function layoutOf(table: NativeTable, versionsFolder: string | undefined): Promise<Layout> {
  const { totalBytes, numRows, fragmentStats } = await table.stats();
  const indexes = await table.listIndices();
  const file = versionsFolder === undefined ? undefined : readManifest(versionsFolder, await table.version());
  const manifest = file && parseManifest(file.bytes);
  return {
    committedAtMs: manifest?.committedAtMs,
    rows: numRows,
    fragments: manifest?.fragments ?? alike(fragmentStats.numFragments, numRows),
    bytes: totalBytes,
    indexes: indexes.map(({ name, indexType, columns, numUnindexedRows }) => ({
      columns,
      unindexedRows: numUnindexedRows ?? 0,
      isPlain: indexType === 'BTree' && columns.length === 1 && name === plainIndexName(columns[0] ?? ''),
    })),
  };
}

const alike = (count: number, rows: number): readonly FragmentFacts[] =>
  Array.from({ length: count }, () => ({ rows: rows / count, deletedRows: 0 }));

export async function versionsOf(table: NativeTable): Promise<readonly VersionFacts[]> {
  return (await table.listVersions())
    .map(({ version, timestamp }) => ({ version, committedAtMs: Math.floor(timestamp / 1_000) }))
    .sort((a, b) => a.version - b.version);
}

export async function oldestTaggedAtMs(table: NativeTable): Promise<number | undefined> {
  const { [compactionTag]: _, ...tags } = await (await table.tags()).list();
  const tagged = new Set(Object.values(tags).map(({ version }) => version));
  if (tagged.size === 0) return undefined;
  return (await versionsOf(table)).find(({ version }) => tagged.has(version))?.committedAtMs;
}

export async function optimize(table: NativeTable, request: OptimizeRequest): Promise<OptimizeResult> {
  await removeOwnTag(table);
  return request.leavesIndexes ? compactOnly(table, request) : doAll(table, request);
}

/** Often enough that writers wait no longer than they have to; each question takes about as long as a millisecond. */
const askEveryMs = 2;

/**
 * The engine does its three parts in one call and does not say when the first is done, but the table then stands at the
 * version with the new fragments: so that is asked for meanwhile. Files that no version names are left alone while they are
 * younger than a week, because they may belong to a commit of somebody else that is under way.
 */
async function doAll(table: NativeTable, { pruneBeforeMs, onRewritten }: OptimizeRequest): Promise<OptimizeResult> {
  const { compaction, prune } = await watched(table, Math.max(1, Math.floor(pruneBeforeMs)), onRewritten);
  return {
    removedFragments: compaction.fragmentsRemoved - compaction.fragmentsAdded,
    removedVersions: prune.oldVersionsRemoved,
    removedBytes: prune.bytesRemoved,
  };
}

/** Every version but the newest is older than this, the tagged one too. */
const farFutureMs = Date.UTC(2100, 0);

/**
 * The first of the engine's three parts alone. The second, pruning, refuses before it removes anything if a version that
 * would go has a tag, and then the third is not reached; so the version is tagged that the first part makes an old one. The
 * alternative, letting the engine extend a BTREE each time, rewrites the index of the whole table: for 10M rows a second
 * beside the writers, and 2.4 s of the next call's first part, against 0.05 s (measured).
 */
async function compactOnly(table: NativeTable, { onRewritten }: OptimizeRequest): Promise<OptimizeResult> {
  const tags = await table.tags();
  const fragmentsBefore = await countFragments(table);
  await tags.create(compactionTag, await table.version());
  try {
    await watched(table, farFutureMs, onRewritten);
  } catch (error) {
    // Where nothing was to be put together no version became old, so there is no such error.
    if (!isPruningStoppedBy(compactionTag, error)) throw error;
  } finally {
    await tags.delete(compactionTag);
  }
  return { removedFragments: fragmentsBefore - (await countFragments(table)), removedVersions: 0, removedBytes: 0 };
}

/** One that a crash left, where start-up recovery does not look: on object stores. */
async function removeOwnTag(table: NativeTable): Promise<void> {
  const tags = await table.tags();
  if (compactionTag in (await tags.list())) await tags.delete(compactionTag);
}

const countFragments = async (table: NativeTable): Promise<number> => (await table.stats()).fragmentStats.numFragments;

async function watched(
  table: NativeTable,
  pruneBeforeMs: number,
  onRewritten: () => void,
): Promise<NativeOptimizeStats> {
  const before = await table.version();
  let isDone = false;
  const running = table.optimize(pruneBeforeMs, false).finally(() => {
    isDone = true;
  });
  // Its failure is reported where it is awaited below.
  running.catch(() => undefined);
  while (!isDone && (await table.version()) === before) await sleep(askEveryMs);
  if (!isDone || (await table.version()) !== before) onRewritten();
  return running;
}
