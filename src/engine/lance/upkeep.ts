/** Looking after one branch of a dataset: what its storage looks like, and the engine's one call that tidies it. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Layout, OptimizeRequest, OptimizeResult, VersionFacts } from '../port.ts';
import type { NativeTable } from './native.ts';

export async function layoutOf(table: NativeTable): Promise<Layout> {
  const { totalBytes, numRows, fragmentStats } = await table.stats();
  const indexes = await table.listIndices();
  return {
    rows: numRows,
    fragments: fragmentStats.numFragments,
    longestFragment: fragmentStats.lengths.max,
    bytes: totalBytes,
    indexes: indexes.map(({ columns, numUnindexedRows }) => ({ columns, unindexedRows: numUnindexedRows ?? 0 })),
  };
}

export async function versionsOf(table: NativeTable): Promise<readonly VersionFacts[]> {
  return (await table.listVersions())
    .map(({ version, timestamp }) => ({ version, committedAtMs: Math.floor(timestamp / 1_000) }))
    .sort((a, b) => a.version - b.version);
}

export async function oldestTaggedAtMs(table: NativeTable): Promise<number | undefined> {
  const tags = Object.values(await (await table.tags()).list());
  if (tags.length === 0) return undefined;
  const tagged = new Set(tags.map(({ version }) => version));
  return (await versionsOf(table)).find(({ version }) => tagged.has(version))?.committedAtMs;
}

/** Often enough that writers wait no longer than they have to; each question takes about as long as a millisecond. */
const askEveryMs = 2;

/**
 * The engine does its three parts in one call and does not say when the first is done, but the table then stands at the
 * version with the new fragments: so that is asked for meanwhile. Files that no version names are left alone while they are
 * younger than a week, because they may belong to a commit of somebody else that is under way.
 */
export async function optimize(
  table: NativeTable,
  { pruneBeforeMs, onRewritten }: OptimizeRequest,
): Promise<OptimizeResult> {
  const before = await table.version();
  let isDone = false;
  const running = table.optimize(Math.max(1, Math.floor(pruneBeforeMs)), false).finally(() => {
    isDone = true;
  });
  // Its failure is reported where it is awaited below.
  running.catch(() => undefined);
  while (!isDone && (await table.version()) === before) await sleep(askEveryMs);
  const isRewritten = !isDone;
  if (isRewritten) onRewritten();
  const { compaction, prune } = await running;
  if (!isRewritten) onRewritten();
  return {
    removedFragments: compaction.fragmentsRemoved,
    addedFragments: compaction.fragmentsAdded,
    removedVersions: prune.oldVersionsRemoved,
    removedBytes: prune.bytesRemoved,
  };
}
