/**
 * Removes old versions of a branch without writing a byte: for a disk that is full of them. The engine's own call compacts
 * before it removes anything, and fails without space for that.
 *
 * It removes the files that a removed version names and no other manifest does, of any branch or detached. A file that no
 * manifest names stays for a week, because it may belong to a commit under way.
 *
 * The files of a version go before its manifest, oldest version first. So a crash leaves a version that the next call removes,
 * and no orphan files. That version cannot be read, but its retention had ended, or a client had asked for its removal. If a
 * manifest cannot be read, or has unknown feature flags, it might name any file, so nothing is removed (`MalformedFile`).
 */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { branchFolder, namesIn, versionOfManifestName } from '../../../lance-format/manifest/manifest-files.ts';
import { type FileKind, type Manifest, parseManifest } from '../../../lance-format/manifest/parse-manifest.ts';
import type { PruneRequest, PruneResult, VersionRange } from '../../port/upkeep.ts';
import { ConfirmedRemovals } from './confirmed-removals.ts';
import { filesOf, filesOfCommits, keyOf, knownManifest, namedFiles, orphanAfterMs } from './orphan-files.ts';
import type { VersionsInRemoval } from './versions-in-removal.ts';

export interface VersionPruning extends PruneRequest {
  readonly datasetPath: string;
  readonly branch: string | undefined;
  /** The versions of the branch that a tag names. */
  readonly tagged: ReadonlySet<number>;
  /** Branches start from them. */
  readonly parents: ReadonlySet<number>;
  /** Without it nothing is restored meanwhile. */
  readonly inRemoval?: VersionsInRemoval | undefined;
}

interface OldVersion {
  readonly manifestPath: string;
  readonly version: number;
  readonly committedAtMs: number;
}

/** `remove` removes a file or a folder and returns the bytes freed; only tests pass their own. */
export async function pruneVersions(pruning: VersionPruning, remove = removePath): Promise<PruneResult> {
  const folder = branchFolder(pruning.datasetPath, pruning.branch);
  const { supersededBeforeMs, keptFromVersion, within, tagged, parents } = pruning;
  const superseded = supersededVersions(await versionsIn(join(folder, '_versions')), supersededBeforeMs);
  const wanted = within === undefined ? superseded : superseded.filter(({ version }) => isWithin(within, version));
  const removable = wanted.filter(({ version }) => version < keptFromVersion && !parents.has(version));
  const old = removable.filter(({ version }) => !tagged.has(version));
  const isHeldByTag = old.length < removable.length;
  if (old.length === 0) return { removedVersions: 0, removedBytes: 0, isHeldByTag };
  const end = pruning.inRemoval?.begin(join(folder, '_versions'), new Set(old.map(({ version }) => version)));
  try {
    return { removedVersions: old.length, removedBytes: await removeAll(pruning, old, remove), isHeldByTag };
  } finally {
    end?.();
  }
}

export const isWithin = (ranges: readonly VersionRange[], version: number): boolean =>
  ranges.some(({ from, before }) => from <= version && version < before);

/** Returns the bytes freed. */
async function removeAll(
  { datasetPath, branch, supersededBeforeMs, confirm }: VersionPruning,
  old: readonly OldVersion[],
  remove: typeof removePath,
): Promise<number> {
  const folder = branchFolder(datasetPath, branch);
  const named = await namedFiles(datasetPath, new Set(old.map(({ manifestPath }) => manifestPath)));
  const removals = new ConfirmedRemovals(confirm);
  let removedBytes = 0;
  const removeNext = async (path: string): Promise<void> => {
    await removals.next();
    removedBytes += await remove(path);
  };
  // Many versions name the same file, and to remove what is gone takes as long as to remove what is there.
  const gone = new Set<string>();
  for (const { manifestPath } of old) {
    for (const { key, path } of ownFiles(parseManifest(readFileSync(manifestPath)), folder)) {
      if (named.has(key) || gone.has(key)) continue;
      gone.add(key);
      await removeNext(path);
    }
    await removeNext(manifestPath);
  }
  for (const path of oldOrphans(folder, named, supersededBeforeMs)) await removeNext(path);
  return removedBytes;
}

/** The orphan files of commits that were cut short. */
function* oldOrphans(
  folder: string,
  named: ReadonlySet<string | undefined>,
  supersededBeforeMs: number,
): Generator<string> {
  for (const { path, key } of filesOfCommits(folder)) {
    const writtenAtMs = statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Number.POSITIVE_INFINITY;
    if (!named.has(key) && writtenAtMs < supersededBeforeMs - orphanAfterMs) yield path;
  }
}

/** The versions before the newest one that was committed by then. */
function supersededVersions(versions: readonly OldVersion[], beforeMs: number): readonly OldVersion[] {
  const newest = versions.findLastIndex(({ committedAtMs }) => committedAtMs <= beforeMs);
  return versions.slice(0, Math.max(0, newest));
}

/** Oldest first. */
async function versionsIn(versionsFolder: string): Promise<readonly OldVersion[]> {
  const found: OldVersion[] = [];
  for (const name of namesIn(versionsFolder)) {
    const version = versionOfManifestName(name);
    if (version === undefined) continue;
    const manifestPath = join(versionsFolder, name);
    found.push({ manifestPath, version, committedAtMs: knownManifest(manifestPath).committedAtMs });
    await nextTurn();
  }
  return found.sort((a, b) => a.version - b.version);
}

const folderOf: Readonly<Partial<Record<FileKind, string>>> = {
  data: 'data',
  deletions: '_deletions',
  transaction: '_transactions',
  index: '_indices',
};

/** Files in the branch's own folder; others belong to another branch or dataset. */
function* ownFiles(manifest: Manifest, folder: string): Generator<{ readonly key: string; readonly path: string }> {
  for (const { kind, path, baseId } of filesOf(manifest)) {
    const within = folderOf[kind];
    if (baseId !== undefined || within === undefined || path.split('/').includes('..')) continue;
    const key = keyOf(kind, path);
    yield { key, path: join(folder, within, key.slice(kind.length + 1)) };
  }
}

/** 0 if the path no longer exists. */
export async function removePath(path: string): Promise<number> {
  const bytes = bytesOf(path);
  await rm(path, { force: true, recursive: true });
  return bytes;
}

function bytesOf(path: string): number {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) return 0;
  if (!found.isDirectory()) return found.size;
  return readdirSync(path).reduce((sum, name) => sum + bytesOf(join(path, name)), 0);
}
