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
import {
  areKnownToEngine,
  type Manifest,
  parseManifest,
  showFlags,
  transactionIn,
} from '../../../lance-format/manifest/parse-manifest.ts';
import { MalformedFile } from '../../../lance-format/protobuf.ts';
import type { KeptHistory, PruneRequest, PruneResult, VersionRange } from '../../port/upkeep.ts';
import { knownForMs } from '../store/branch-mirror.ts';
import { type FileSpans, ownFilesOf, type SpannedFile } from '../store/file-spans.ts';
import type { ObjectStore, StoredObject } from '../store/object-store.ts';
import { ConfirmedRemovals, removalsAtOnce } from './confirmed-removals.ts';
import { keptByRules, withinBytes } from './kept-history.ts';
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
  orphansSearchedAtMs: number;
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
  const versions = numbered(branch, listed);
  const removable = removableOf(branch, pruning, versions);
  const untagged = removable.filter(({ version }) => !tagged.has(version));
  const isHeldByTag = untagged.length < removable.length;
  const mustSearch = nowMs - branch.orphansSearchedAtMs > betweenOrphanSearchesMs;
  if (untagged.length === 0 && !mustSearch) return { removedVersions: 0, removedBytes: 0, isHeldByTag };
  await readManifests(branch, versions);
  const { kept, history } = historyOf(branch, pruning, versions, untagged);
  const old = untagged.filter(
    ({ version }) => !kept.has(version) && !inRemoval.isInUse(branch.versionsFolder, version),
  );
  const end = inRemoval.begin(branch.versionsFolder, new Set(old.map(({ version }) => version)));
  try {
    // What was restored until now is a version by now, and names what its original names.
    const known = new Map(listed.map((each) => [each.key, each]));
    const listedNow = await Array.fromAsync(branch.store.list({ prefix: versionsOf(branch), known }));
    const versionsNow = numbered(branch, listedNow);
    await readManifests(branch, versionsNow);
    const detached = await filesOfDetached(branch, listedNow);
    const gone = new Set(old.map(({ version }) => version));
    const stay = versionsNow.flatMap(({ version }) => (gone.has(version) ? [] : version));
    const files = branch.spans.filesBeside(stay, [...gone]);
    const removals = new ConfirmedRemovals(pruning.confirm);
    let removedBytes = 0;
    for (let start = 0; start < old.length; start += removalsAtOnce) {
      const some = old.slice(start, start + removalsAtOnce);
      removedBytes += await removeVersions(branch, some, { files, detached, removals });
    }
    if (mustSearch) await removeOrphans(branch, nowMs, { detached, removals });
    return { removedVersions: old.length, removedBytes, isHeldByTag, ...(history && { history }) };
  } finally {
    end();
  }
}

/** Says what stays for its own sake of `untagged`, which could go. */
function historyOf(
  { spans }: PrunedBranch,
  { history: asked, supersededBeforeMs }: Pruning,
  versions: readonly NumberedObject[],
  untagged: readonly NumberedObject[],
): { readonly kept: ReadonlySet<number>; readonly history?: KeptHistory } {
  if (asked === undefined) return { kept: new Set() };
  const known = versions.map(({ version, modifiedAtMs: madeAtMs }) => ({
    ...{ version, madeAtMs },
    takesAway: spans.takesAway(version),
  }));
  const byRules = keptByRules(known, asked);
  const wanted = untagged.filter(({ version }) => byRules.has(version));
  const could = new Set(untagged.map(({ version }) => version));
  const others = versions.flatMap(({ version }) => (could.has(version) ? [] : version));
  const files = spans.filesBeside(
    others,
    wanted.map(({ version }) => version),
  );
  const sized = wanted.map(({ version, bytes }) => ({
    version,
    bytes: (files.get(version) ?? []).reduce((sum, file) => sum + file.bytes, bytes),
  }));
  const left = withinBytes(sized, asked.mostBytes(sized.reduce((sum, { bytes }) => sum + bytes, 0)));
  const oldest = versions.find(({ version }) => version === left.versions[0]);
  const cutToMs = left.versions.length < wanted.length ? (oldest?.modifiedAtMs ?? supersededBeforeMs) : undefined;
  return {
    kept: new Set(left.versions),
    history: { versions: left.versions.length, bytes: left.bytes, cutToMs },
  };
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

/** Reads those that are not known, each once for as long as it stays. */
async function readManifests(branch: PrunedBranch, versions: readonly NumberedObject[]): Promise<void> {
  const { spans } = branch;
  if (versions.some(({ version, tag }) => spans.isOther(version, tag))) spans.clear();
  const unseen = versions.filter(({ version }) => !spans.has(version));
  for (let start = 0; start < unseen.length; start += requestsAtOnce) {
    const some = unseen.slice(start, start + requestsAtOnce);
    const read = await Promise.all(some.map(async ({ key }) => readVersion(branch, key)));
    for (const [{ version, tag }, found] of paired(some, read)) {
      if (found !== undefined) spans.add(version, tag, found.manifest, found.transaction);
    }
  }
}

/** Returns the files that other manifests than those of versions name. */
async function filesOfDetached(branch: PrunedBranch, listed: readonly StoredObject[]): Promise<ReadonlySet<string>> {
  const detached = listed.filter(({ key }) => key.endsWith('.manifest') && asVersion(branch, { key }).length === 0);
  const named = await Promise.all(detached.map(async ({ key }) => branch.store.get(key)));
  return new Set(
    named.flatMap((bytes) => (bytes === undefined ? [] : ownFilesOf(requireKnown(bytes)).map(({ within }) => within))),
  );
}

/** undefined where it is gone. Without its transaction, a version is only known by how many rows it left. */
async function readVersion({ store, prefix }: PrunedBranch, key: string) {
  const bytes = await store.get(key);
  if (bytes === undefined) return undefined;
  const manifest = requireKnown(bytes);
  const stored = transactionIn(bytes);
  const transaction = typeof stored === 'string' ? await store.get(`${prefix}_transactions/${stored}`) : stored;
  return { manifest, transaction };
}

interface Removing {
  /** Those that no version names that stays, by the last one that names them. */
  readonly files: ReturnType<FileSpans['filesBeside']>;
  /** Files that other manifests than those of versions name. */
  readonly detached: ReadonlySet<string>;
  readonly removals: ConfirmedRemovals;
}

/** Returns the bytes freed. `old` are the oldest that go and are left. */
async function removeVersions(
  branch: PrunedBranch,
  old: readonly NumberedObject[],
  { files: byLast, detached, removals }: Removing,
): Promise<number> {
  const { store, spans, firstToGo } = branch;
  const gone = old.map(({ version }) => version);
  branch.forgetVersions(gone);
  const unnamed = [0, ...gone]
    .flatMap((version) => byLast.get(version) ?? [])
    .filter(({ within }) => !detached.has(within) && spans.names(within));
  spans.forget(gone, unnamed);
  const files = await keysOf(branch, unnamed);
  const manifests = old.map(({ key }) => key);
  for (const keys of firstToGo === 'files' ? [files, manifests] : [manifests, files]) {
    await removals.forEach(keys, (some) => store.delete(some));
  }
  const manifestBytes = old.reduce((sum, { bytes }) => sum + bytes, 0);
  return unnamed.reduce((sum, { bytes }) => sum + bytes, manifestBytes);
}

/** Includes all that is in a folder. */
async function keysOf({ store, prefix }: PrunedBranch, unnamed: readonly SpannedFile[]): Promise<readonly string[]> {
  const keys = await Promise.all(
    unnamed.map(async ({ within }) => {
      if (!within.endsWith('/')) return [`${prefix}${within}`];
      return (await Array.fromAsync(store.list({ prefix: `${prefix}${within}` }))).map(({ key }) => key);
    }),
  );
  return keys.flat();
}

/** What commits have left that were cut short long ago. */
async function removeOrphans(
  branch: PrunedBranch,
  nowMs: number,
  { detached, removals }: Omit<Removing, 'files'>,
): Promise<void> {
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
  branch.orphansSearchedAtMs = nowMs;
}

const numbered = (branch: PrunedBranch, listed: readonly StoredObject[]): readonly NumberedObject[] =>
  listed.flatMap((each) => asVersion(branch, each)).sort((a, b) => a.version - b.version);

const versionsOf = ({ prefix }: PrunedBranch): string => `${prefix}_versions/`;

function asVersion<Listed extends Pick<StoredObject, 'key'>>(
  branch: PrunedBranch,
  listed: Listed,
): (Listed & { version: number })[] {
  const version = versionOfManifestKey(versionsOf(branch), listed.key);
  return version === undefined ? [] : [{ ...listed, version }];
}

function requireKnown(bytes: Buffer): Manifest {
  const manifest = parseManifest(bytes);
  if (areKnownToEngine(manifest.featureFlags)) return manifest;
  throw new MalformedFile(`feature flags ${showFlags(manifest.featureFlags)} are not known`);
}
