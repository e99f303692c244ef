/**
 * Removes old versions of a branch without writing a byte, so also on a disk that is full of them: their manifests, and the files that
 * no other manifest of the branch names. The engine's own call compacts before it removes anything. If a manifest cannot be read, or
 * has unknown feature flags, it might name any file, so nothing is removed (`MalformedFile`).
 *
 * **A number that was taken stays taken** for as long as a write may be on its way that another process has begun before: after that it
 * would make a version in the past, and call it committed. The store refuses requests that arrive late, so a manifest is old enough by
 * the clock of the store (`numberTakenMs`) when none can be on its way (docs/design/storage-and-durability.md).
 */

import { paired } from '../../../kernel/paired.ts';
import { versionOfManifestKey } from '../../../lance-format/manifest/manifest-files.ts';
import { areKnownToEngine, parseManifest, showFlags } from '../../../lance-format/manifest/parse-manifest.ts';
import { MalformedFile } from '../../../lance-format/protobuf.ts';
import type { PruneRequest, PruneResult, VersionRange } from '../../port/upkeep.ts';
import { knownForMs } from '../store/branch-mirror.ts';
import { type FileSpans, ownFilesOf } from '../store/file-spans.ts';
import type { ObjectStore, StoredObject } from '../store/object-store.ts';
import { ConfirmedRemovals, removalsAtOnce } from './confirmed-removals.ts';
import { isOfCommits, orphanAfterMs } from './orphan-files.ts';
import type { VersionsInRemoval } from './versions-in-removal.ts';

/** A conditional write is sent again for a minute (`putUntilKnown`), and clocks differ. */
const roomMs = 5 * 60_000;
/** After its commit, whatever the retention is: after a last look a process may begin a write, which may then take its time. */
export const numberTakenMs = ({ refusedAfterMs }: Pick<ObjectStore, 'refusedAfterMs'>): number =>
  refusedAfterMs === 0 ? 0 : knownForMs + roomMs + refusedAfterMs;
/** Listing all files of a large branch takes many requests. */
const betweenOrphanSearchesMs = 24 * 3_600_000;
const requestsAtOnce = 32;

export interface PrunedBranch {
  readonly store: ObjectStore;
  /** All keys of the branch begin with it; it ends with a slash. */
  readonly prefix: string;
  readonly versionsFolder: string;
  /** It has the versions that were read before. */
  readonly spans: FileSpans;
  /** undefined where each removal of versions searches for them, too. */
  orphansSearchedAtMs: number | undefined;
  /**
   * What goes first. A crash after files leaves versions that cannot be read, which the next call removes; one after manifests leaves
   * files that nothing names, which stay for a week.
   */
  readonly firstToGo: 'files' | 'manifests';
  /** They are about to be removed. */
  forgetVersions(versions: Iterable<number>): void;
}

/** The versions of a branch that stay, whatever their age. */
export interface NamedVersions {
  readonly tagged: ReadonlySet<number>;
  /** Branches start from them, so what a branch reads of its parent's files stays, and its own manifests need not be read. */
  readonly parents: ReadonlySet<number>;
}

type Pruning = PruneRequest & NamedVersions & { readonly inRemoval: VersionsInRemoval };

interface NumberedObject extends StoredObject {
  readonly version: number;
}

export async function pruneVersions(branch: PrunedBranch, pruning: Pruning): Promise<PruneResult> {
  const { inRemoval, tagged, supersededBeforeMs: nowMs } = pruning;
  const listed = await Array.fromAsync(branch.store.list({ prefix: versionsOf(branch) }));
  const versions = listed.flatMap((each) => asVersion(branch, each)).sort((a, b) => a.version - b.version);
  const removable = removableOf(branch, pruning, versions);
  const old = removable.filter(({ version }) => !tagged.has(version));
  const isHeldByTag = old.length < removable.length;
  const searchedMs = branch.orphansSearchedAtMs;
  const mustSearch = searchedMs === undefined ? old.length > 0 : nowMs - searchedMs > betweenOrphanSearchesMs;
  if (old.length === 0 && !mustSearch) return { removedVersions: 0, removedBytes: 0, isHeldByTag };
  const end = inRemoval.begin(branch.versionsFolder, new Set(old.map(({ version }) => version)));
  try {
    const detached = await readManifests(branch, versions, listed);
    const removals = new ConfirmedRemovals(pruning.confirm);
    let removedBytes = 0;
    for (let start = 0; start < old.length; start += removalsAtOnce) {
      const some = old.slice(start, start + removalsAtOnce);
      removedBytes += await removeVersions(branch, versions, some, { detached, removals });
    }
    if (mustSearch) await removeOrphans(branch, nowMs, { detached, removals });
    return { removedVersions: old.length, removedBytes, isHeldByTag };
  } finally {
    end();
  }
}

/** Those that a tag names are among them. */
function removableOf(
  { store, versionsFolder }: PrunedBranch,
  { inRemoval, within, parents, keptFromVersion, supersededBeforeMs }: Pruning,
  versions: readonly NumberedObject[],
): readonly NumberedObject[] {
  const beforeMs = supersededBeforeMs - numberTakenMs(store);
  const newest = versions.findLastIndex(({ modifiedAtMs }) => modifiedAtMs <= beforeMs);
  return versions
    .slice(0, Math.max(0, newest))
    .filter(({ version }) => within === undefined || isWithin(within, version))
    .filter(({ version }) => version < keptFromVersion && !parents.has(version))
    .filter(({ version }) => !inRemoval.isInUse(versionsFolder, version));
}

const isWithin = (ranges: readonly VersionRange[], version: number): boolean =>
  ranges.some(({ from, before }) => from <= version && version < before);

/** Returns the files that other manifests than those of versions name. */
async function readManifests(
  branch: PrunedBranch,
  versions: readonly NumberedObject[],
  listed: readonly StoredObject[],
): Promise<ReadonlySet<string>> {
  const { store, spans } = branch;
  const unseen = versions.filter(({ version }) => !spans.has(version));
  for (let start = 0; start < unseen.length; start += requestsAtOnce) {
    const some = unseen.slice(start, start + requestsAtOnce);
    const manifests = await Promise.all(some.map(({ key }) => store.get(key)));
    for (const [{ version }, bytes] of paired(some, manifests)) {
      if (bytes !== undefined) spans.add(version, requireKnown(bytes));
    }
  }
  const detached = listed.filter(({ key }) => key.endsWith('.manifest') && asVersion(branch, { key }).length === 0);
  const named = await Promise.all(detached.map(async ({ key }) => store.get(key)));
  return new Set(
    named.flatMap((bytes) =>
      bytes === undefined ? [] : ownFilesOf(parseManifest(requireKnown(bytes))).map(({ within }) => within),
    ),
  );
}

interface Removing {
  /** Files that other manifests than those of versions name. */
  readonly detached: ReadonlySet<string>;
  readonly removals: ConfirmedRemovals;
}

/** Returns the bytes freed. `old` are the oldest that are left. */
async function removeVersions(
  branch: PrunedBranch,
  versions: readonly NumberedObject[],
  old: readonly NumberedObject[],
  { detached, removals }: Removing,
): Promise<number> {
  const { store, spans, firstToGo } = branch;
  const gone = new Set(old.map(({ version }) => version));
  const kept = versions.map(({ version }) => version).filter((version) => !gone.has(version) && spans.has(version));
  branch.forgetVersions(gone);
  const unnamed = [...spans.takeUnnamed(kept, [...gone])].filter(([within]) => !detached.has(within));
  const files = await keysOf(branch, unnamed);
  const manifests = old.map(({ key }) => key);
  for (const keys of firstToGo === 'files' ? [files, manifests] : [manifests, files]) {
    await removals.forEach(keys, (some) => store.delete(some));
  }
  const manifestBytes = old.reduce((sum, { bytes }) => sum + bytes, 0);
  return unnamed.reduce((sum, [, bytes]) => sum + bytes, manifestBytes);
}

/** Includes all that is in a folder. */
async function keysOf(
  { store, prefix }: PrunedBranch,
  unnamed: readonly (readonly [within: string, bytes: number])[],
): Promise<readonly string[]> {
  const keys = await Promise.all(
    unnamed.map(async ([within]) => {
      if (!within.endsWith('/')) return [`${prefix}${within}`];
      return (await Array.fromAsync(store.list({ prefix: `${prefix}${within}` }))).map(({ key }) => key);
    }),
  );
  return keys.flat();
}

/** What commits have left that were cut short long ago. */
async function removeOrphans(branch: PrunedBranch, nowMs: number, { detached, removals }: Removing): Promise<void> {
  const { store, prefix, spans } = branch;
  for (const folder of ['data', '_deletions', '_transactions', '_versions', '_indices']) {
    const orphans: string[] = [];
    for await (const { key, modifiedAtMs } of store.list({ prefix: `${prefix}${folder}/` })) {
      const within = key.slice(prefix.length);
      const [, name = ''] = within.split('/');
      const isNamed = [within, `${folder}/${name}/`].some((each) => spans.names(each) || detached.has(each));
      if (!isNamed && isOfCommits(folder, name) && modifiedAtMs < nowMs - orphanAfterMs) orphans.push(key);
    }
    await removals.forEach(orphans, (keys) => store.delete(keys));
  }
  if (branch.orphansSearchedAtMs !== undefined) branch.orphansSearchedAtMs = nowMs;
}

const versionsOf = ({ prefix }: PrunedBranch): string => `${prefix}_versions/`;

function asVersion<Listed extends Pick<StoredObject, 'key'>>(
  branch: PrunedBranch,
  listed: Listed,
): (Listed & { version: number })[] {
  const version = versionOfManifestKey(versionsOf(branch), listed.key);
  return version === undefined ? [] : [{ ...listed, version }];
}

function requireKnown(manifest: Buffer): Buffer {
  const { featureFlags } = parseManifest(manifest);
  if (areKnownToEngine(featureFlags)) return manifest;
  throw new MalformedFile(`feature flags ${showFlags(featureFlags)} are not known`);
}
