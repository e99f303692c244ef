import { lstat, mkdir, rename, rm, statfs } from 'node:fs/promises';
import { basename, dirname, join, relative, resolve, sep } from 'node:path';
import { codeOf, LancegateError } from '../../../kernel/errors.ts';
import { type BranchName, type Location, ownLocation, type TableId } from '../../../kernel/ids.ts';
import { localPath } from '../../../lance-format/manifest/manifest-files.ts';
import type { ClonedVersion, RecoverRequest, Recovery, Space } from '../../port/engine.ts';
import type { FileWriter } from '../commit/file-writer.ts';
import type { Fresh } from '../commit/version-commit.ts';
import { type Confirm, ConfirmedRemovals } from '../durability/confirmed-removals.ts';
import { Durability, type FileSync } from '../durability/durability.ts';
import type { MachineStart } from '../durability/machine-start.ts';
import { PrunedBefore } from '../durability/pruned-before.ts';
import { recoverBranch } from '../durability/recover-branch.ts';
import type { VersionsInRemoval } from '../durability/versions-in-removal.ts';
import { engineCall } from '../native/translate-errors.ts';
import { FolderStore } from '../store/folder-store.ts';
import type { ObjectStore } from '../store/object-store.ts';
import type { BranchStorage, TableStorage } from './branch-storage.ts';
import { cloneVersion } from './clone-version.ts';
import { FolderBranch } from './folder-branch.ts';

interface FolderStorageParts {
  /** An absolute path. */
  readonly rootPath: string;
  readonly fileSync: FileSync;
  readonly machineStart: MachineStart;
  readonly writer: FileWriter;
  readonly inRemoval: VersionsInRemoval;
  readonly fresh: Fresh;
}

/** All branches below a folder of this machine. */
export class FolderStorage implements TableStorage {
  readonly #parts: FolderStorageParts;
  readonly #store: ObjectStore;
  readonly #pruned = new PrunedBefore();

  constructor(parts: FolderStorageParts) {
    this.#parts = parts;
    const { rootPath, fileSync } = parts;
    const sync = () => new Durability(fileSync, { rootPath, datasetPath: rootPath, branch: undefined }, 0);
    this.#store = new FolderStore({
      root: rootPath,
      syncContent: (path) => fileSync.file(path),
      // By now it is done, and only not durable.
      syncName: (path) => engineCall('sync', () => sync().fileWritten(path)),
      syncRemovals: (folder) => engineCall('sync', () => sync().namesChanged(folder)),
    });
  }

  get session(): string {
    return this.#parts.machineStart.id;
  }

  branch(location: Location, branch: BranchName | undefined): BranchStorage {
    const [store, pruned, datasetPath] = [this.#store, this.#pruned, this.#pathOf(location)];
    return new FolderBranch({ ...this.#parts, store, pruned, datasetPath, branch });
  }

  async requireUsable(): Promise<void> {}

  async reach(): Promise<void> {}

  async space(): Promise<Space> {
    const { bavail, blocks, bsize, ffree, files } = await statfs(this.#parts.rootPath);
    return { freeBytes: bavail * bsize, totalBytes: blocks * bsize, freeFiles: ffree, totalFiles: files };
  }

  async isVacant(location: Location): Promise<boolean> {
    return lstat(this.#pathOf(location)).then(
      () => false,
      (error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return true;
        throw error;
      },
    );
  }

  async remove(location: Location, confirm: Confirm): Promise<void> {
    await new ConfirmedRemovals(confirm).next();
    await rm(this.#pathOf(location), { recursive: true, force: true });
  }

  /** It stays where it is if its folder is on another file system than the root. */
  async setAside(location: Location, table: TableId): Promise<Location> {
    const aside = asideOf(location, table);
    if (!(await this.isVacant(aside))) return aside;
    if (await this.isVacant(location)) return aside;
    await mkdir(dirname(this.#pathOf(aside)), { recursive: true });
    return (await this.#move(location, aside)) ? aside : location;
  }

  async bringBack(location: Location, table: TableId): Promise<void> {
    const aside = asideOf(location, table);
    if (await this.isVacant(aside)) return;
    if (!(await this.isVacant(location)))
      throw new LancegateError(
        'InvalidTableState',
        'another program has stored something where the table was; remove that, or register it under a name of its own',
      );
    await mkdir(dirname(this.#pathOf(location)), { recursive: true });
    await this.#move(aside, location);
  }

  /** False where the file system cannot. */
  async #move(from: Location, to: Location): Promise<boolean> {
    const [source, target] = [this.#pathOf(from), this.#pathOf(to)];
    try {
      await rename(source, target);
    } catch (error) {
      if (codeOf(error) !== 'EXDEV') throw error;
      return false;
    }
    const { fileSync, rootPath } = this.#parts;
    for (let folder = dirname(target); folder !== dirname(rootPath); folder = dirname(folder))
      await fileSync.folder(folder);
    await fileSync.folder(dirname(source));
    return true;
  }

  async clone({ location, branch, version }: ClonedVersion, to: Location): Promise<void> {
    const [source, target] = [this.branch(location, branch), this.branch(to, undefined)];
    const { rootPath, fresh } = this.#parts;
    const keyOf = (base: string) => {
      const path = localPath(base);
      return path === undefined ? undefined : below(rootPath, resolve(path));
    };
    await cloneVersion({ from: source, version, to: target, keyOf, nowMs: fresh.nowMs() });
  }

  async recover({ location, branch, acknowledgedVersion, storageSession }: RecoverRequest): Promise<Recovery> {
    const { rootPath, fileSync, machineStart } = this.#parts;
    const suspect = { rootPath, datasetPath: this.#pathOf(location), branch, acknowledgedVersion };
    const outlivedPowerCut = storageSession !== this.session;
    return recoverBranch({ ...suspect, outlivedPowerCut, machineStartedAtMs: machineStart.atMs }, fileSync);
  }

  close(): void {}

  #pathOf(location: Location): string {
    return join(this.#parts.rootPath, location);
  }
}

/** Below the root; no table can be made or registered there. */
export const trashFolder = '.lancegate-trash';

/** Each table has a folder of its own there, which no other takes. */
const asideOf = (location: Location, table: TableId): Location =>
  ownLocation(`${trashFolder}/${basename(location, '.lance')}-${table}.lance`);

/** undefined for a path that is not. */
const below = (rootPath: string, path: string): string | undefined =>
  path.startsWith(rootPath + sep) ? relative(rootPath, path) : undefined;
