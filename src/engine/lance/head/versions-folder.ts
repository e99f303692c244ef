import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { branchFolder, manifestNames } from '../../../lance-format/manifest/manifest-files.ts';

/** `files`: also the folders of the rows, or the manifest in use, have changed. */
export type FolderChange = 'none' | 'versions' | 'files';

/** The folders of the rows, below the branch's folder. */
const rowFolders = ['data', '_deletions'] as const;

/**
 * Says whether a dataset on a file system may have versions that we have not seen, or has lost what we have seen. It costs six
 * `stat` calls: some microseconds, and synchronous, since a trip through the thread pool costs more than the calls
 * themselves. The engine's own look takes 0.4 ms when idle and up to 10 ms beside large merges, and every merge needs one.
 *
 * Two signs are needed of a new version. The folder's modification time alone misses a commit within one tick of the clock;
 * the absence of the next manifest alone misses commits whose manifests were pruned again. Either sign alone counts as a
 * change. A loss shows as a folder with another inode, or a manifest of another size.
 */
export class VersionsFolder {
  readonly datasetPath: string;
  readonly branch: string | undefined;
  readonly path: string;
  #modifiedNs: bigint | undefined;
  #isTrusted = true;
  #manifest: { readonly version: number; readonly bytes: number | undefined } | undefined;
  readonly #rowFolders = new Map<string, number>();

  constructor(datasetPath: string, branch: string | undefined) {
    this.datasetPath = datasetPath;
    this.branch = branch;
    this.path = join(branchFolder(datasetPath, branch), '_versions');
  }

  /** Since `remember`. */
  changeFrom(version: number): FolderChange {
    if (!this.#isTrusted || this.#haveRowFoldersChanged() || this.#hasManifestChanged(version)) return 'files';
    const modifiedNs = this.#modified();
    const isSame = modifiedNs !== undefined && modifiedNs === this.#modifiedNs && !this.#hasManifest(version + 1);
    return isSame ? 'none' : 'versions';
  }

  /** To be called before the engine looks, or after it committed: what changes later is noticed. */
  remember(): void {
    this.#modifiedNs = this.#modified();
  }

  /** To be called when the dataset is checked out at another version; a later change of its manifest is noticed. */
  standsAt(version: number): void {
    this.#manifest = { version, bytes: this.#manifestBytes(version) };
  }

  /** Until `trust` is called, everything counts as changed. */
  distrust(): void {
    this.#isTrusted = false;
  }

  /** All files of the rows were found, so the folders of now are the right ones. */
  trust(): void {
    this.#isTrusted = true;
    this.#rowFolders.clear();
  }

  #modified(): bigint | undefined {
    return statSync(this.path, { bigint: true, throwIfNoEntry: false })?.mtimeNs;
  }

  #hasManifest(version: number): boolean {
    return manifestNames(version).some((name) => existsSync(join(this.path, name)));
  }

  #hasManifestChanged(version: number): boolean {
    return this.#manifest?.version === version && this.#manifest.bytes !== this.#manifestBytes(version);
  }

  #manifestBytes(version: number): number | undefined {
    for (const name of manifestNames(version)) {
      const found = statSync(join(this.path, name), { throwIfNoEntry: false });
      if (found !== undefined) return found.size;
    }
    return undefined;
  }

  /** A new folder, such as the first deletion creates, is no change. */
  #haveRowFoldersChanged(): boolean {
    return rowFolders.some((name) => {
      const inode = statSync(join(this.path, '..', name), { throwIfNoEntry: false })?.ino;
      const known = this.#rowFolders.get(name);
      if (known === undefined && inode !== undefined) this.#rowFolders.set(name, inode);
      return known !== undefined && known !== inode;
    });
  }
}
