/** What the storage of one branch looks like, and the engine's own maintenance of it. */
import type { Field, Schema } from '../../../arrow/schema/schema.ts';
import { readManifest } from '../../../lance-format/manifest/manifest-files.ts';
import { parseManifest, type StoredFragment } from '../../../lance-format/manifest/parse-manifest.ts';
import type {
  FragmentFacts,
  Layout,
  OptimizeResult,
  PruneRequest,
  PruneResult,
  VersionFacts,
} from '../../port/engine.ts';
import { pruneVersions } from '../durability/prune-versions.ts';
import type { VersionsFolder } from '../head/dataset-head.ts';
import { type NativeTable, plainIndexName } from '../native/native.ts';

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

/** By its metadata, also that of an extension type. */
const holdsBlobs = ({ metadata, children }: Field): boolean =>
  [...metadata].some(([key, value]) => key.includes('blob') || value.includes('blob')) || children.some(holdsBlobs);

const alike = (count: number, rows: number): readonly FragmentFacts[] =>
  Array.from({ length: count }, () => ({ rows: rows / count, deletedRows: 0 }));

export async function versionsOf(table: NativeTable): Promise<readonly VersionFacts[]> {
  return (await table.listVersions())
    .map(({ version, timestamp }) => ({ version, committedAtMs: Math.floor(timestamp / 1_000) }))
    .sort((a, b) => a.version - b.version);
}

async function oldestTaggedAtMs(table: NativeTable): Promise<number | undefined> {
  const { tagged } = await namedVersions(table, undefined);
  if (tagged.size === 0) return undefined;
  return (await versionsOf(table)).find(({ version }) => tagged.has(version))?.committedAtMs;
}

export async function prune(
  table: NativeTable,
  { datasetPath, branch }: VersionsFolder,
  request: PruneRequest,
): Promise<PruneResult> {
  return pruneVersions({ datasetPath, branch, ...(await namedVersions(table, branch)), ...request });
}

/** Versions that are not to be removed. */
interface NamedVersions {
  /** By a tag of any branch. */
  readonly tagged: ReadonlySet<number>;
  /** Branches start from them. */
  readonly parents: ReadonlySet<number>;
}

async function namedVersions(table: NativeTable, branch: string | undefined): Promise<NamedVersions> {
  const tags = Object.values(await (await table.tags()).list());
  const branches = Object.values(await (await table.branches()).list());
  const children = branches.filter(({ parentBranch }) => (parentBranch ?? undefined) === branch);
  return {
    tagged: new Set(tags.map(({ version }) => version)),
    parents: new Set(children.map(({ parentVersion }) => parentVersion)),
  };
}

/** A time before that of all versions. The engine takes 0 as none given. */
const beforeAllMs = 1;

/**
 * As `Dataset.optimize`. The engine refuses to remove versions past one that a tag names, once it has compacted. Files that no
 * version names it leaves alone while they are younger than a week, because they may belong to a commit under way.
 */
export async function optimize(table: NativeTable, supersededBeforeMs: number): Promise<OptimizeResult> {
  const oldMs = supersededBeforeMs === 0 ? 0 : newestAt(await versionsOf(table), supersededBeforeMs);
  const taggedAtMs = oldMs === 0 ? undefined : await oldestTaggedAtMs(table);
  const beforeMs = Math.min(oldMs, taggedAtMs ?? oldMs);
  const { compaction, prune } = await table.optimize(Math.max(beforeAllMs, Math.floor(beforeMs)), false);
  return {
    removedFragments: compaction.fragmentsRemoved - compaction.fragmentsAdded,
    removedVersions: prune.oldVersionsRemoved,
    removedBytes: prune.bytesRemoved,
    isHeldByTag: beforeMs < oldMs,
  };
}

/** When the version that was the newest at that time was committed: older ones were superseded. 0 if there was none. */
const newestAt = (versions: readonly VersionFacts[], atMs: number): number =>
  versions.findLast(({ committedAtMs }) => committedAtMs <= atMs)?.committedAtMs ?? 0;
