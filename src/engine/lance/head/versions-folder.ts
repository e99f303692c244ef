import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { branchFolder, manifestNames } from '../../../lance-format/manifest/manifest-files.ts';

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
export class VersionsFolder {
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
  /** In either scheme of names. */
  readonly paths: readonly string[];
  readonly nextPaths: readonly string[];
  readonly bytes: number | undefined;
}

/** undefined where there is no folder. A new one may get the number of one that was removed. */
function identityOf(folder: string): string | undefined {
  const found = statSync(folder, { bigint: true, throwIfNoEntry: false });
  return found?.isDirectory() ? `${found.ino} ${found.birthtimeNs}` : undefined;
}

/** Of the first of the files that is there. */
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
