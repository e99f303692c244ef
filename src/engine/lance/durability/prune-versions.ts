/**
 * Removes old versions of a branch without writing a byte: for a disk that is full of them. The engine's own call compacts
 * before it removes anything, and fails without space for that (docs/adr/0022).
 *
 * It removes the files that a removed version names and no other manifest does, of any branch or detached. A file that no
 * manifest names stays while it is young, because it may belong to a commit under way. Names are compared, not paths: every
 * data file, deletion vector and index has a unique name, and several paths may lead to one dataset.
 *
 * The files of a version go before its manifest, oldest version first. So a crash leaves a version that the next call removes,
 * and no orphan files. That version cannot be read, but its retention had ended. If a manifest cannot be read, or has unknown
 * feature flags, it might name any file, so nothing is removed (`MalformedFile`).
 *
 * Reads the manifests one by one and yields to the event loop after each.
 */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { branchFolder, namesIn, versionOfManifestName } from '../../../lance-format/manifest/manifest-files.ts';
import {
  areKnownToEngine,
  type FileKind,
  type Manifest,
  parseManifest,
  showFlags,
} from '../../../lance-format/manifest/parse-manifest.ts';
import { MalformedFile } from '../../../lance-format/protobuf.ts';
import type { PruneResult } from '../../port/engine.ts';
import { filesOfCommits, foldersUnder } from './orphan-files.ts';

export interface VersionPruning {
  readonly datasetPath: string;
  readonly branch: string | undefined;
  /** Versions that the next one took the place of before this time are removed. */
  readonly supersededBeforeMs: number;
  /** This version and later ones stay. */
  readonly keptFromVersion: number;
  readonly tagged: ReadonlySet<number>;
  /** Branches start from them. */
  readonly parents: ReadonlySet<number>;
}

interface OldVersion {
  readonly manifestPath: string;
  readonly version: number;
  readonly committedAtMs: number;
}

/** `remove` removes a file or a folder and returns the bytes freed; only tests pass their own. */
export async function pruneVersions(pruning: VersionPruning, remove = removePath): Promise<PruneResult> {
  const folder = branchFolder(pruning.datasetPath, pruning.branch);
  const { supersededBeforeMs, keptFromVersion, tagged, parents } = pruning;
  const superseded = supersededVersions(await versionsIn(join(folder, '_versions')), supersededBeforeMs);
  const removable = superseded.filter(({ version }) => version < keptFromVersion && !parents.has(version));
  const old = removable.filter(({ version }) => !tagged.has(version));
  const isHeldByTag = old.length < removable.length;
  if (old.length === 0) return { removedVersions: 0, removedBytes: 0, isHeldByTag };
  const named = await namesKept(pruning.datasetPath, new Set(old.map(({ manifestPath }) => manifestPath)));
  let removedBytes = 0;
  for (const { manifestPath } of old) {
    for (const { key, path } of ownFiles(parseManifest(readFileSync(manifestPath)), folder)) {
      if (!named.has(key)) removedBytes += await remove(path);
    }
    removedBytes += await remove(manifestPath);
  }
  for (const path of oldOrphans(folder, named, supersededBeforeMs)) removedBytes += await remove(path);
  return { removedVersions: old.length, removedBytes, isHeldByTag };
}

/** As the engine does, with some days to spare: no commit takes so long. */
const commitAtMostMs = 7 * 24 * 3_600_000;

/** Files of commits that were cut short. */
function oldOrphans(folder: string, kept: ReadonlySet<string>, supersededBeforeMs: number): readonly string[] {
  const names = new Set([...kept].map((key) => basename(key)));
  const orphans = [...filesOfCommits(folder)].filter((path) => !names.has(basename(path)));
  return orphans.filter(
    (path) => (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Infinity) < supersededBeforeMs - commitAtMostMs,
  );
}

/** Those before the newest version that was committed by then. */
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

async function namesKept(datasetPath: string, removed: ReadonlySet<string>): Promise<ReadonlySet<string>> {
  const named = new Set<string>();
  for (const folder of [datasetPath, ...foldersUnder(join(datasetPath, 'tree'))]) {
    const versionsFolder = join(folder, '_versions');
    for (const name of namesIn(versionsFolder)) {
      const path = join(versionsFolder, name);
      if (!name.endsWith('.manifest') || removed.has(path)) continue;
      const manifest = knownManifest(path);
      for (const { kind, path: file } of filesOf(manifest)) named.add(keyOf(kind, file));
      await nextTurn();
    }
  }
  return named;
}

function knownManifest(path: string): Manifest {
  const manifest = parseManifest(readFileSync(path));
  if (areKnownToEngine(manifest.featureFlags)) return manifest;
  throw new MalformedFile(`feature flags ${showFlags(manifest.featureFlags)} are not known`);
}

const filesOf = ({ files, indexFolders }: Manifest) => [...files, ...indexFolders];

/** An index is a folder and is removed as a whole. */
const keyOf = (kind: FileKind, path: string): string => `${kind}/${kind === 'index' ? path.split('/', 1)[0] : path}`;

const folderOf: Readonly<Partial<Record<FileKind, string>>> = {
  data: 'data',
  deletions: '_deletions',
  transaction: '_transactions',
  index: '_indices',
};

/** Files in the branch's own folder; others belong to another branch or dataset. */
function* ownFiles(manifest: Manifest, folder: string): Generator<{ readonly key: string; readonly path: string }> {
  for (const { kind, path, baseId } of filesOf(manifest)) {
    const place = folderOf[kind];
    if (baseId !== undefined || place === undefined || path.split('/').includes('..')) continue;
    const key = keyOf(kind, path);
    yield { key, path: join(folder, place, key.slice(kind.length + 1)) };
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
