import { existsSync, statSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join, relative } from 'node:path';
import type { BranchName } from '../../../kernel/ids.ts';
import {
  branchFolder,
  indexFolders,
  listVersions,
  manifestNames,
  namesIn,
  readManifest,
  readWholeVersion,
  storedFiles,
} from '../../../lance-format/manifest/manifest-files.ts';
import { parseManifest } from '../../../lance-format/manifest/parse-manifest.ts';
import { hasTransactionOn } from '../../../lance-format/transaction/transaction.ts';
import type { BranchHead, StoredVersion, VersionPage } from '../../port/dataset.ts';
import type { PruneRequest, PruneResult } from '../../port/upkeep.ts';
import { type BranchCommits, FolderCommits } from '../commit/branch-commits.ts';
import type { FileWriter } from '../commit/file-writer.ts';
import { Durability, type DurableBranch, type FileSync, ignoreMissing } from '../durability/durability.ts';
import { type NamedVersions, pruneVersions } from '../durability/prune-versions.ts';
import type { PrunedBefore } from '../durability/pruned-before.ts';
import type { NewBranch } from '../durability/stored-branch.ts';
import type { VersionsInRemoval } from '../durability/versions-in-removal.ts';
import { type BranchState, inspectBranch, nothingLeft } from '../head/branch-state.ts';
import type { HeadWatch } from '../head/head-watch.ts';
import { nothingStored } from '../native/translate-errors.ts';
import type { ObjectStore } from '../store/object-store.ts';
import type { BranchStorage } from './branch-storage.ts';
import { versionPage } from './version-page.ts';

interface FolderBranchParts extends DurableBranch {
  readonly branch: BranchName | undefined;
  readonly fileSync: FileSync;
  readonly writer: FileWriter;
  /** It has all files below the root. */
  readonly store: ObjectStore;
  readonly inRemoval: VersionsInRemoval;
  readonly pruned: PrunedBefore;
}

/** A branch on a file system, which keeps what was written only once it is synced. */
export class FolderBranch implements BranchStorage {
  readonly folder: string;
  readonly versionsFolder: string;
  readonly commits: BranchCommits;
  readonly store: ObjectStore;
  readonly prefix: string;
  readonly datasetPrefix: string;
  readonly #parts: FolderBranchParts;
  #durability: Durability;
  /** A branch that is being made is synced at once, all files and their folders. */
  #isOpen = false;

  constructor(parts: FolderBranchParts) {
    this.#parts = parts;
    this.folder = branchFolder(parts.datasetPath, parts.branch);
    this.versionsFolder = join(this.folder, '_versions');
    this.#durability = new Durability(parts.fileSync, parts, 0);
    this.commits = new FolderCommits(this.folder, parts.writer, (paths) => {
      if (this.#isOpen) this.#durability.beginSync(paths);
    });
    this.store = parts.store;
    this.datasetPrefix = `${relative(parts.rootPath, parts.datasetPath)}/`;
    this.prefix = `${relative(parts.rootPath, this.folder)}/`;
  }

  async open(): Promise<HeadWatch> {
    const state = await inspectBranch(this.#parts, true);
    if (state === undefined) throw nothingStored(this.#parts.branch);
    this.#durability = new Durability(this.#parts.fileSync, this.#parts, state.version);
    this.#isOpen = true;
    return new FolderWatch(new VersionsFolder(this.#parts.datasetPath, this.#parts.branch), state);
  }

  async newestVersion(): Promise<number> {
    return listVersions(this.versionsFolder).at(-1) ?? 0;
  }

  async take(version: number): Promise<ReturnType<typeof readManifest>> {
    return readManifest(this.versionsFolder, version);
  }

  takeWithDeletions(version: number): Promise<ReturnType<typeof readManifest>> {
    return this.take(version);
  }

  readWhole(version: number): ReturnType<typeof readManifest> {
    return readWholeVersion(this.folder, version);
  }

  async page(page: VersionPage): Promise<readonly StoredVersion[]> {
    const { store, prefix } = this;
    const read = (_version: number, key: string) => store.get(key);
    const versions = await versionPage({ store, prefix, branch: this.#parts.branch, read }, page);
    return versions.map(({ manifestTag: _, ...version }) => version);
  }

  /** The engine writes the transaction of a commit first. */
  async mayFollow(version: number): Promise<boolean> {
    return hasTransactionOn(this.versionsFolder, version);
  }

  sync(version: number, after?: number): Promise<void> {
    return this.#durability.sync(version, after);
  }

  prune(request: PruneRequest & NamedVersions): Promise<PruneResult> {
    const { store, prefix, versionsFolder } = this;
    const { pruned, inRemoval } = this.#parts;
    return pruned.remember(versionsFolder, (known) => {
      const branch = Object.assign(known, { store, prefix, versionsFolder, firstToGo: 'files' as const });
      return pruneVersions(branch, { ...request, inRemoval });
    });
  }

  async readIndex(uuid: string, version: number, signal: AbortSignal): Promise<void> {
    const file = readManifest(this.versionsFolder, version);
    if (file === undefined) return; // pruned meanwhile
    const manifest = parseManifest(file.bytes);
    const folders = indexFolders(manifest, this.folder);
    const unlisted = folders.flatMap((each) => namesIn(each).map((name) => join(each, name)));
    const stored = storedFiles(manifest, this.folder).filter(({ kind }) => kind === 'index');
    for (const path of [...stored.map((each) => each.path), ...unlisted]) {
      if (path.split('/').includes(uuid)) await readThrough(path, signal);
    }
  }

  branchMade({ name, version }: NewBranch): Promise<void> {
    return this.#durability.branchMade(name, version);
  }

  branchDeleted(): Promise<void> {
    return this.#durability.branchDeleted();
  }
}

/** Watches for a dataset that was opened at this state of its branch. */
class FolderWatch implements HeadWatch {
  readonly opened: BranchState;
  readonly opensAtOnce = true;
  readonly columns = undefined;
  readonly #folder: VersionsFolder;

  constructor(folder: VersionsFolder, opened: BranchState) {
    this.#folder = folder;
    this.opened = opened;
    folder.standsAt(opened.version);
  }

  get isReplaced(): boolean {
    return this.#folder.isReplaced;
  }

  /** Both purposes look, which takes microseconds. */
  async look(version: number, ..._purpose: Parameters<BranchHead['refresh']>): Promise<BranchState | undefined> {
    const change = this.#folder.changeFrom(version);
    if (change === 'none') return undefined;
    this.#folder.distrust();
    this.#folder.remember();
    const state = await inspectBranch(this.#folder, change === 'files');
    if (state === undefined) throw nothingLeft(this.#folder.datasetPath);
    this.#folder.trust();
    this.#folder.standsAt(state.version);
    return state;
  }

  knows(): boolean {
    return true;
  }

  async follow(version: number): Promise<void> {
    this.#folder.standsAt(version);
  }

  made(version: number | undefined): void {
    if (version === undefined) return;
    this.#folder.remember();
    this.#folder.standsAt(version);
  }

  keepColumns(): void {}
}

const readBytes = 2 ** 20;

/** Nothing for a file that is gone meanwhile. */
async function readThrough(path: string, signal: AbortSignal): Promise<void> {
  const file = await open(path).catch(ignoreMissing);
  if (file === undefined) return;
  try {
    const buffer = Buffer.allocUnsafe(readBytes);
    do signal.throwIfAborted();
    while ((await file.read(buffer, 0, readBytes)).bytesRead > 0);
  } finally {
    await file.close();
  }
}

/** `files`: also the folders of the rows, or the manifest in use, have changed. */
type FolderChange = 'none' | 'versions' | 'files';

/** The folders of the rows, below the branch's folder. */
const rowFolders = ['data', '_deletions'] as const;

/**
 * Says whether a dataset on a file system may have versions that are not known yet, or has lost known ones. It costs five
 * synchronous `stat` calls, some microseconds; the engine's own look takes up to some milliseconds, and every request needs one.
 *
 * A new version has two signs, and either counts. The folder's modification time misses a commit within one tick of the clock;
 * the next manifest misses commits whose manifests were pruned again. A loss shows as a folder with another inode, or a manifest
 * of another size.
 */
class VersionsFolder {
  readonly datasetPath: string;
  readonly branch: string | undefined;
  readonly path: string;
  /** The folder that holds this one and those of the rows. */
  readonly #above: string;
  #modifiedNs: bigint | undefined;
  #isTrusted = true;
  #manifest: StoredManifest | undefined;
  /** What `#above` held when the folders of the rows were last found unchanged. */
  #entries: string | undefined;
  readonly #rowFolders = new Map<string, number>();
  readonly #identity: string | undefined;

  constructor(datasetPath: string, branch: string | undefined) {
    this.datasetPath = datasetPath;
    this.branch = branch;
    this.#above = branchFolder(datasetPath, branch);
    this.path = join(this.#above, '_versions');
    this.#identity = identityOf(this.path);
  }

  /** Whether this is another folder than the one that was opened: that of another table or branch. One that is missing is not. */
  get isReplaced(): boolean {
    const identity = identityOf(this.path);
    return identity !== undefined && identity !== this.#identity;
  }

  /** What has changed in the folder since `remember`. */
  changeFrom(version: number): FolderChange {
    if (!this.#isTrusted || this.#haveRowFoldersChanged() || this.#hasManifestChanged(version)) return 'files';
    const modifiedNs = this.#modified();
    const isSame = modifiedNs !== undefined && modifiedNs === this.#modifiedNs && !this.#hasNext(version);
    return isSame ? 'none' : 'versions';
  }

  /** The caller calls this before the engine looks, or after it committed: what changes later is noticed. */
  remember(): void {
    this.#modifiedNs = this.#modified();
  }

  /** The caller calls this when the dataset is checked out at another version; a later change of its manifest is noticed. */
  standsAt(version: number): void {
    const paths = this.#manifestPaths(version);
    this.#manifest = { version, paths, nextPaths: this.#manifestPaths(version + 1), bytes: sizeOf(paths) };
  }

  /** Until `trust` is called, everything counts as changed. */
  distrust(): void {
    this.#isTrusted = false;
  }

  /** All files of the rows were found, so the folders of now are the right ones. */
  trust(): void {
    this.#isTrusted = true;
    this.#rowFolders.clear();
    this.#entries = undefined;
  }

  #modified(): bigint | undefined {
    return statSync(this.path, { bigint: true, throwIfNoEntry: false })?.mtimeNs;
  }

  #manifestPaths(version: number): readonly string[] {
    return manifestNames(version).map((name) => join(this.path, name));
  }

  #hasNext(version: number): boolean {
    const known = this.#manifest?.version === version ? this.#manifest.nextPaths : undefined;
    return (known ?? this.#manifestPaths(version + 1)).some((path) => existsSync(path));
  }

  #hasManifestChanged(version: number): boolean {
    return this.#manifest?.version === version && this.#manifest.bytes !== sizeOf(this.#manifest.paths);
  }

  /** A new folder, such as the first deletion creates, is no change. To replace one changes the folder above them. */
  #haveRowFoldersChanged(): boolean {
    const entries = entriesOf(this.#above);
    if (entries !== undefined && entries === this.#entries) return false;
    const haveChanged = rowFolders.some((name) => this.#hasFolderChanged(name));
    this.#entries = haveChanged ? undefined : entries;
    return haveChanged;
  }

  #hasFolderChanged(name: string): boolean {
    const inode = statSync(join(this.#above, name), { throwIfNoEntry: false })?.ino;
    const known = this.#rowFolders.get(name);
    if (known === undefined && inode !== undefined) this.#rowFolders.set(name, inode);
    return known !== undefined && known !== inode;
  }
}

interface StoredManifest {
  readonly version: number;
  /** The manifest has one of these paths, by either scheme of names. */
  readonly paths: readonly string[];
  readonly nextPaths: readonly string[];
  readonly bytes: number | undefined;
}

/** undefined where there is no folder. A new one may get the number of one that was removed. */
function identityOf(folder: string): string | undefined {
  const found = statSync(folder, { bigint: true, throwIfNoEntry: false });
  return found?.isDirectory() ? `${found.ino} ${found.birthtimeNs}` : undefined;
}

/** The size of the first of the files that is there. */
function sizeOf(paths: readonly string[]): number | undefined {
  for (const path of paths) {
    const found = statSync(path, { throwIfNoEntry: false });
    if (found !== undefined) return found.size;
  }
  return undefined;
}

/** Another text once an entry of the folder was added, removed or replaced, or the folder itself. */
function entriesOf(folder: string): string | undefined {
  const found = statSync(folder, { bigint: true, throwIfNoEntry: false });
  return found && `${found.ino} ${found.mtimeNs}`;
}
