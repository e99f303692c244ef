/**
 * Removes old versions of a branch on an object store, by its listing: their manifests, and then the files that no other version names.
 * So a crash leaves no version that cannot be read, and files that the removal of orphans finds.
 *
 * **A number that was taken stays taken** for as long as a write may be on its way that another process has begun before: after that it
 * would make a version in the past, and call it committed. The store refuses requests that arrive late, so a manifest is old enough by
 * the clock of the store (`numberTakenMs`) when none can be on its way (docs/design/storage-and-durability.md).
 */
import { versionOfManifestKey } from '../../../lance-format/manifest/manifest-files.ts';
import { areKnownToEngine, parseManifest, showFlags } from '../../../lance-format/manifest/parse-manifest.ts';
import { MalformedFile } from '../../../lance-format/protobuf.ts';
import type { PruneRequest, PruneResult } from '../../port/upkeep.ts';
import { type BranchMirror, knownForMs } from '../store/branch-mirror.ts';
import { ownFilesOf } from '../store/file-spans.ts';
import type { ObjectStore, StoredObject } from '../store/object-store.ts';
import { ConfirmedRemovals } from './confirmed-removals.ts';
import { isOfCommits, orphanAfterMs } from './orphan-files.ts';
import { isWithin } from './prune-versions.ts';
import type { VersionsInRemoval } from './versions-in-removal.ts';

/** A conditional write is sent again for a minute (`putUntilKnown`), and clocks differ. */
const roomMs = 5 * 60_000;
/** After its commit, whatever the retention is: after a last look a process may begin a write, which may then take its time. */
export const numberTakenMs = ({ refusedAfterMs }: Pick<ObjectStore, 'refusedAfterMs'>): number =>
  knownForMs + roomMs + refusedAfterMs;
/** Listing all files of a large branch takes many requests. */
const betweenOrphanSearchesMs = 24 * 3_600_000;
const requestsAtOnce = 32;

interface StorePruning extends PruneRequest {
  readonly mirror: BranchMirror;
  /** The versions of the branch that a tag names. */
  readonly tagged: ReadonlySet<number>;
  /** Branches start from them. */
  readonly parents: ReadonlySet<number>;
  readonly inRemoval: VersionsInRemoval;
}

interface NumberedObject extends StoredObject {
  readonly version: number;
}

export async function pruneStore(pruning: StorePruning): Promise<PruneResult> {
  const { mirror, inRemoval, tagged } = pruning;
  const listed = await Array.fromAsync(mirror.store.list({ prefix: versionsOf(mirror) }));
  const versions = listed.flatMap((each) => asVersion(mirror, each)).sort((a, b) => a.version - b.version);
  const removable = removableOf(pruning, versions);
  const old = removable.filter(({ version }) => !tagged.has(version));
  const isHeldByTag = old.length < removable.length;
  const mustSearch = pruning.supersededBeforeMs - mirror.orphansSearchedAtMs > betweenOrphanSearchesMs;
  if (old.length === 0 && !mustSearch) return { removedVersions: 0, removedBytes: 0, isHeldByTag };
  const end = inRemoval.begin(mirror.versionsFolder, new Set(old.map(({ version }) => version)));
  try {
    const detached = await readManifests(mirror, versions, listed);
    const removals = new ConfirmedRemovals(pruning.confirm);
    const removedBytes = await removeVersions(mirror, versions, old, { detached, removals });
    if (mustSearch) await removeOrphans(mirror, pruning.supersededBeforeMs, { detached, removals });
    return { removedVersions: old.length, removedBytes, isHeldByTag };
  } finally {
    end();
  }
}

/** Those that a tag names are among them. */
function removableOf(
  { mirror, inRemoval, within, parents, keptFromVersion, supersededBeforeMs }: StorePruning,
  versions: readonly NumberedObject[],
): readonly NumberedObject[] {
  const beforeMs = supersededBeforeMs - numberTakenMs(mirror.store);
  const newest = versions.findLastIndex(({ modifiedAtMs }) => modifiedAtMs <= beforeMs);
  return versions
    .slice(0, Math.max(0, newest))
    .filter(({ version }) => within === undefined || isWithin(within, version))
    .filter(({ version }) => version < keptFromVersion && !parents.has(version))
    .filter(({ version }) => !inRemoval.isInUse(mirror.versionsFolder, version));
}

/** Returns the files that other manifests than those of versions name. */
async function readManifests(
  mirror: BranchMirror,
  versions: readonly NumberedObject[],
  listed: readonly StoredObject[],
): Promise<ReadonlySet<string>> {
  const unseen = versions.filter(({ version }) => !mirror.spans.has(version));
  for (let start = 0; start < unseen.length; start += requestsAtOnce) {
    const some = unseen.slice(start, start + requestsAtOnce);
    const manifests = await Promise.all(some.map(({ key }) => mirror.store.get(key)));
    for (const [index, bytes] of manifests.entries()) {
      if (bytes !== undefined) mirror.spans.add(some[index]!.version, requireKnown(bytes));
    }
  }
  const detached = listed.filter(({ key }) => key.endsWith('.manifest') && asVersion(mirror, { key }).length === 0);
  const named = await Promise.all(detached.map(async ({ key }) => mirror.store.get(key)));
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

/** Returns the bytes freed. */
async function removeVersions(
  mirror: BranchMirror,
  versions: readonly NumberedObject[],
  old: readonly NumberedObject[],
  { detached, removals }: Removing,
): Promise<number> {
  const gone = new Set(old.map(({ version }) => version));
  const kept = versions.map(({ version }) => version).filter((version) => !gone.has(version));
  await removals.forEach(old, async (some) => {
    mirror.forgetVersions(some.map(({ version }) => version));
    await mirror.store.delete(some.map(({ key }) => key));
  });
  const unnamed = [...mirror.spans.takeUnnamed(kept, [...gone])].filter(([within]) => !detached.has(within));
  await removals.forEach(await keysOf(mirror, unnamed), (keys) => mirror.store.delete(keys));
  const manifestBytes = old.reduce((sum, { bytes }) => sum + bytes, 0);
  return unnamed.reduce((sum, [, bytes]) => sum + bytes, manifestBytes);
}

/** Also of all that is in a folder. */
async function keysOf(
  { store, prefix }: BranchMirror,
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
async function removeOrphans(mirror: BranchMirror, nowMs: number, { detached, removals }: Removing): Promise<void> {
  const { store, prefix, spans } = mirror;
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
  mirror.orphansSearchedAtMs = nowMs;
}

const versionsOf = ({ prefix }: BranchMirror): string => `${prefix}_versions/`;

function asVersion<Listed extends Pick<StoredObject, 'key'>>(
  mirror: BranchMirror,
  listed: Listed,
): (Listed & { version: number })[] {
  const version = versionOfManifestKey(versionsOf(mirror), listed.key);
  return version === undefined ? [] : [{ ...listed, version }];
}

function requireKnown(manifest: Buffer): Buffer {
  const { featureFlags } = parseManifest(manifest);
  if (areKnownToEngine(featureFlags)) return manifest;
  throw new MalformedFile(`feature flags ${showFlags(featureFlags)} are not known`);
}
