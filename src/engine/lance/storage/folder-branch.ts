import { open } from 'node:fs/promises';
import { join, relative } from 'node:path';
import type { BranchName } from '../../../kernel/ids.ts';
import {
  branchFolder,
  indexFolders,
  listVersions,
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
import type { NewBranch } from '../durability/stored-branch.ts';
import type { VersionsInRemoval } from '../durability/versions-in-removal.ts';
import { type BranchState, inspectBranch, nothingLeft } from '../head/branch-state.ts';
import type { HeadWatch } from '../head/head-watch.ts';
import { VersionsFolder } from '../head/versions-folder.ts';
import { nothingStored } from '../native/translate-errors.ts';
import { FileSpans } from '../store/file-spans.ts';
import type { ObjectStore } from '../store/object-store.ts';
import type { BranchStorage } from './branch-storage.ts';
import { versionPage } from './version-page.ts';

interface FolderBranchParts extends DurableBranch {
  readonly branch: BranchName | undefined;
  readonly fileSync: FileSync;
  readonly writer: FileWriter;
  /** Of the root. */
  readonly store: ObjectStore;
  readonly inRemoval: VersionsInRemoval;
}

/** On a file system, which keeps what was written only once it is synced. */
export class FolderBranch implements BranchStorage {
  readonly folder: string;
  readonly versionsFolder: string;
  readonly commits: BranchCommits;
  readonly store: ObjectStore;
  readonly prefix: string;
  readonly datasetPrefix: string;
  readonly #parts: FolderBranchParts;
  #durability: Durability;
  /** Of a branch that is being made all files are synced at once, with their folders. */
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
    const known = { spans: new FileSpans(), orphansSearchedAtMs: undefined, forgetVersions: () => undefined };
    const branch = { store, prefix, versionsFolder, ...known, firstToGo: 'files' } as const;
    return pruneVersions(branch, { ...request, inRemoval: this.#parts.inRemoval });
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

/** Of a dataset that was opened at this state of its branch. */
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
