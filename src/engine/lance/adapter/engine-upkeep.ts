/** What the storage of one branch looks like, and the engine's own maintenance of it. */
import type { Field, Schema } from '../../../arrow/schema/schema.ts';
import { LancegateError } from '../../../kernel/errors.ts';
import type { BranchName } from '../../../kernel/ids.ts';
import { readManifest } from '../../../lance-format/manifest/manifest-files.ts';
import { parseManifest, type StoredFragment } from '../../../lance-format/manifest/parse-manifest.ts';
import { UnboundedColumns } from '../../../lance-format/manifest/stored-columns.ts';
import type { ManifestChange } from '../../port/change.ts';
import type { StoredBranch, StoredVersion, TableStatistics } from '../../port/dataset.ts';
import { plainIndexName } from '../../port/index-spec.ts';
import type { CompactionResult } from '../../port/reader-work.ts';
import type { StoredTag } from '../../port/stored-tags.ts';
import type { FragmentFacts, IndexFacts, Layout, OptimizeResult, PruneResult } from '../../port/upkeep.ts';
import { ConfirmedRemovals } from '../durability/confirmed-removals.ts';
import type { NamedVersions } from '../durability/prune-versions.ts';
import type { NewBranch } from '../durability/stored-branch.ts';
import type { NativeBranches, NativeIndex, NativeTable } from '../native/native.ts';
import { specOf } from '../native/native-index.ts';
import type { RequireReadable } from './surroundings.ts';

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
    indexes: indexes.map(factsOfIndex),
  };
}

/** Of a version without indexes, by its manifest alone; undefined for any other. */
export function plainLayoutOf(file: Buffer, schema: Schema): Layout | undefined {
  const { committedAtMs, fragments, files, indexes } = parseManifest(file);
  if (indexes.length > 0) return undefined;
  const rows = fragments.reduce((sum, fragment) => sum + fragment.rows - fragment.deletedRows, 0);
  const bytes = files.reduce((sum, { kind, sizeBytes = 0 }) => sum + (kind === 'data' ? sizeBytes : 0), 0);
  return { committedAtMs, rows, fragments: factsOf(fragments, schema), bytes, indexes: [] };
}

function factsOfIndex(index: NativeIndex): IndexFacts {
  const { name, columns, numIndexedRows: rows = 0, numUnindexedRows: unindexedRows = 0 } = index;
  const spec = specOf(index);
  const isPlain = spec?.options.type === 'BTREE' && name === plainIndexName(spec.column);
  return { name, columns, rows, unindexedRows, spec, isPlain };
}

function factsOf(fragments: readonly StoredFragment[], schema: Schema): readonly FragmentFacts[] {
  const mayMove = !schema.fields.some(holdsBlobs);
  return fragments.map(({ id, rows, deletedRows }) => ({ id: mayMove ? id : undefined, rows, deletedRows }));
}

/** By its metadata, also that of an extension type. */
const holdsBlobs = ({ metadata, children }: Field): boolean =>
  [...metadata].some(([key, value]) => key.includes('blob') || value.includes('blob')) || children.some(holdsBlobs);

const alike = (count: number, rows: number): readonly FragmentFacts[] =>
  Array.from({ length: count }, () => ({ rows: rows / count, deletedRows: 0 }));

export type VersionFacts = Pick<StoredVersion, 'version' | 'committedAtMs'>;

/** Ascending. The engine reads every manifest, 0.1 ms each. */
export async function versionsOf(table: NativeTable): Promise<readonly VersionFacts[]> {
  return (await table.listVersions())
    .map(({ version, timestamp }) => ({ version, committedAtMs: Math.floor(timestamp / 1_000) }))
    .sort((a, b) => a.version - b.version);
}

export async function namedVersions(
  table: NativeTable,
  branch: string | undefined,
  tags: readonly StoredTag[],
): Promise<NamedVersions> {
  const branches = Object.values(await (await table.branches()).list());
  const children = branches.filter(({ parentBranch }) => (parentBranch ?? undefined) === branch);
  return {
    tagged: new Set(tags.flatMap((tag) => (tag.branch === branch ? tag.version : []))),
    parents: new Set(children.map(({ parentVersion }) => parentVersion)),
  };
}

/**
 * As `Dataset.optimize`. The engine refuses to remove versions past one that a tag names, once it has compacted. Files that no
 * version names it leaves alone while they are younger than a week, because they may belong to a commit under way.
 */
export async function optimize(
  table: NativeTable,
  compact: CompactUntil,
  supersededBeforeMs: number,
  confirm?: () => Promise<void>,
): Promise<OptimizeResult> {
  const before = supersededBeforeMs === 0 ? [] : await versionsOf(table);
  const { removedFragments } = await compact(0);
  const oldMs = newestAt(before, supersededBeforeMs);
  if (oldMs === 0) return { removedFragments, removedVersions: 0, removedBytes: 0, isHeldByTag: false };
  await new ConfirmedRemovals(confirm).next();
  return { removedFragments, ...(await pruneByEngine(table, compact, before, oldMs)) };
}

/** Compacts, and removes versions that were superseded before; none for 0. */
type CompactUntil = (supersededBeforeMs: number) => Promise<CompactionResult>;

/** The engine has no call that only removes; this one finds nothing that it has not compacted just before. */
async function pruneByEngine(
  table: NativeTable,
  compact: CompactUntil,
  versions: readonly VersionFacts[],
  oldMs: number,
): Promise<PruneResult> {
  const tags = Object.values(await (await table.tags()).list());
  const tagged = new Set(tags.map(({ version }) => version)); // of any branch: too many is harmless
  const taggedAtMs = versions.find(({ version }) => tagged.has(version))?.committedAtMs;
  const beforeMs = Math.min(oldMs, taggedAtMs ?? oldMs);
  const { removedVersions, removedBytes } = await compact(beforeMs);
  return { removedVersions, removedBytes, isHeldByTag: beforeMs < oldMs };
}

/** When the version that was the newest at that time was committed: older ones were superseded. 0 if there was none. */
const newestAt = (versions: readonly VersionFacts[], atMs: number): number =>
  versions.findLast(({ committedAtMs }) => committedAtMs <= atMs)?.committedAtMs ?? 0;

export async function statisticsOf(table: NativeTable): Promise<TableStatistics> {
  const { totalBytes, numRows, numIndices, fragmentStats } = await table.stats();
  const { numFragments, numSmallFragments, lengths } = fragmentStats;
  return {
    bytes: totalBytes,
    rows: numRows,
    indexes: numIndices,
    fragments: numFragments,
    smallFragments: numSmallFragments,
    fragmentRows: lengths,
  };
}

export async function branchesOf(
  dataset: NativeTable,
  requireReadable: RequireReadable | undefined,
): Promise<readonly StoredBranch[]> {
  const branches = await dataset.branches();
  return Promise.all(
    Object.entries(await branches.list()).map(async ([name, { parentBranch, parentVersion, manifestSize }]) => ({
      name: name as BranchName,
      parentBranch: (parentBranch ?? undefined) as BranchName | undefined,
      parentVersion,
      createdAtSeconds: await createdAtSeconds(branches, name, requireReadable),
      manifestBytes: manifestSize,
    })),
  );
}

/**
 * The engine's listing has no times; a branch begins with a version of its own, which has one (in microseconds). 0 for a branch of
 * another program that native code must not read.
 */
async function createdAtSeconds(
  branches: NativeBranches,
  name: string,
  requireReadable: RequireReadable = async () => {},
): Promise<number> {
  const isBounded = await requireReadable(name as BranchName).then(() => true, falseIfUnbounded);
  if (!isBounded) return 0;
  const table = await branches.checkout(name);
  try {
    const versions = await table.listVersions();
    return Math.floor(Math.min(...versions.map(({ timestamp }) => timestamp)) / 1_000_000);
  } finally {
    table.close();
  }
}

function falseIfUnbounded(error: unknown): false {
  if (error instanceof UnboundedColumns) return false;
  throw error;
}

/**
 * As `Dataset.commitManifest`, by the engine, on a handle of its own: reads of others go on with another. The engine has no fence of its
 * own: to restore the newest version takes the number, too, and no commit of its own follows that.
 */
export async function commitManifest(
  openNewest: (() => Promise<NativeTable>) | undefined,
  change: ManifestChange,
  newest: number,
): Promise<{ readonly version: number }> {
  if ((change.kind !== 'restore' && change.kind !== 'fence') || openNewest === undefined) throw onlyByEngine();
  const table = await openNewest();
  try {
    await table.checkout(change.kind === 'fence' ? newest : change.version);
    await table.restore();
    return { version: await table.version() };
  } finally {
    table.close();
  }
}

const onlyByEngine = (): LancegateError =>
  new LancegateError(
    'Unsupported',
    'the table has features that only the engine can change, and the engine cannot change the metadata of a schema',
  );

export async function createBranch(
  dataset: NativeTable,
  name: BranchName,
  from: { branch: BranchName | undefined; version: number | undefined },
): Promise<NewBranch> {
  const branches = await dataset.branches();
  const made = await branches.create(name, from.branch ?? null, from.version ?? null);
  try {
    return { name, parent: from.branch, version: await made.version() };
  } finally {
    made.close();
  }
}
