/** Looking after one branch of a dataset: what its storage looks like, and the engine's one call that tidies it. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Field, Schema } from '../../../arrow/schema/schema.ts';
import { readManifest } from '../../../lance-format/manifest/manifest-files.ts';
import { parseManifest, type StoredFragment } from '../../../lance-format/manifest/parse-manifest.ts';
import type {
  FragmentFacts,
  Layout,
  OptimizeRequest,
  OptimizeResult,
  PruneRequest,
  PruneResult,
  VersionFacts,
} from '../../port/engine.ts';
import { pruneVersions } from '../durability/prune-versions.ts';
import type { VersionsFolder } from '../head/versions-folder.ts';
import type { NativeOptimizeStats, NativeTable } from '../native/native.ts';
import { isRefusedAsPinned } from '../native/translate-errors.ts';

/** What the engine calls the index of a column if it is given no name. */
export const plainIndexName = (column: string): string => `${column}_idx`;

/** `versionsFolder` where the table is on a file system. */
export async function layoutOf(
  table: NativeTable,
  schema: Schema,
  versionsFolder: string | undefined,
): Promise<Layout> {
  const { totalBytes, numRows, fragmentStats } = await table.stats();
  const indexes = await table.listIndices();
  const file = versionsFolder === undefined ? undefined : readManifest(versionsFolder, await table.version());
  const manifest = file && parseManifest(file.bytes);
  return {
    committedAtMs: manifest?.committedAtMs,
    rows: numRows,
    fragments: manifest ? factsOf(manifest.fragments, schema) : alike(fragmentStats.numFragments, numRows),
    bytes: totalBytes,
    indexes: indexes.map(({ name, indexType, columns, numUnindexedRows }) => ({
      columns,
      unindexedRows: numUnindexedRows ?? 0,
      isPlain: indexType === 'BTree' && columns.length === 1 && name === plainIndexName(columns[0] ?? ''),
    })),
  };
}

function factsOf(fragments: readonly StoredFragment[], schema: Schema): readonly FragmentFacts[] {
  const mayMove = !schema.fields.some(holdsBlobs) && !fragments.some(({ hasRowIds }) => hasRowIds);
  return fragments.map(({ id, rows, deletedRows }) => ({ id: mayMove ? id : undefined, rows, deletedRows }));
}

/** As `DataFields.holdBlobs`. */
const holdsBlobs = ({ metadata, children }: Field): boolean =>
  [...metadata].some(([key, value]) => key.includes('blob') || value.includes('blob')) || children.some(holdsBlobs);

const alike = (count: number, rows: number): readonly FragmentFacts[] =>
  Array.from({ length: count }, () => ({ rows: rows / count, deletedRows: 0 }));

export async function versionsOf(table: NativeTable): Promise<readonly VersionFacts[]> {
  return (await table.listVersions())
    .map(({ version, timestamp }) => ({ version, committedAtMs: Math.floor(timestamp / 1_000) }))
    .sort((a, b) => a.version - b.version);
}

export async function oldestTaggedAtMs(table: NativeTable): Promise<number | undefined> {
  const tags = await (await table.tags()).list();
  const tagged = new Set(Object.values(tags).map(({ version }) => version));
  if (tagged.size === 0) return undefined;
  return (await versionsOf(table)).find(({ version }) => tagged.has(version))?.committedAtMs;
}

export async function prune(
  table: NativeTable,
  { datasetPath, branch }: VersionsFolder,
  request: PruneRequest,
): Promise<PruneResult> {
  return pruneVersions({ datasetPath, branch, kept: await keptVersions(table, branch), ...request });
}

/** Versions that a tag of any branch names, or that a branch starts from. */
async function keptVersions(table: NativeTable, branch: string | undefined): Promise<ReadonlySet<number>> {
  const tags = Object.values(await (await table.tags()).list());
  const branches = Object.values(await (await table.branches()).list());
  const parents = branches.filter(({ parentBranch }) => (parentBranch ?? undefined) === branch);
  return new Set([...tags.map(({ version }) => version), ...parents.map(({ parentVersion }) => parentVersion)]);
}

export const optimize = (table: NativeTable, request: OptimizeRequest): Promise<OptimizeResult> =>
  request.leavesIndexes ? compactOnly(table, request) : doAll(table, request);

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

/** Older than every version: nothing is pruned, should the engine come to that. */
const beforeAllMs = 1;
/** How long after the beginning of the call the handle is pinned: before the first part is done, which takes 10 ms or more. */
const pinAfterMs: readonly number[] = [2, 20];

/**
 * The first of the engine's three parts alone. Each part begins by asking whether the handle stands at a version that was
 * checked out, and refuses if it does. So one is checked out while the first is under way: that commits all the same, and
 * the second refuses at once. What is spared is the second's reading of all versions, 0.5 s with 800 of them against 0.1 s
 * in all, and the third's writing of every BTREE anew, a second for 10 million rows (measured).
 *
 * Too early, and the first part refuses: then nothing was done, and it is tried once more. Too late, and the others have
 * begun, as they would in a whole call. The handle is to be the caller's own.
 */
async function compactOnly(table: NativeTable, { onRewritten }: OptimizeRequest): Promise<OptimizeResult> {
  const fragmentsBefore = await countFragments(table);
  const before = await table.version();
  for (const afterMs of pinAfterMs) {
    await compactPinned(table, before, afterMs);
    if ((await table.version()) === before) continue;
    onRewritten();
    break;
  }
  return { removedFragments: fragmentsBefore - (await countFragments(table)), removedVersions: 0, removedBytes: 0 };
}

async function compactPinned(table: NativeTable, version: number, afterMs: number): Promise<void> {
  const running = table.optimize(beforeAllMs, false);
  // Its failure is reported where it is awaited below.
  running.catch(() => undefined);
  try {
    await sleep(afterMs);
    await table.checkout(version);
    await running;
  } catch (error) {
    if (!isRefusedAsPinned(error)) throw error;
  } finally {
    await running.catch(() => undefined);
    await table.checkoutLatest();
  }
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
