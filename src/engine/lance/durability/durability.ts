import { closeSync, constants, fsync, openSync, readdirSync } from 'node:fs';
import { dirname, join, sep } from 'node:path';
import { promisify } from 'node:util';
import { codeOf, LancegateError } from '../../../kernel/errors.ts';
import {
  branchFolder,
  branchRecord,
  branchRecords,
  indexFolders,
  readManifest,
  storedFiles,
} from '../../../lance-format/manifest/manifest-files.ts';
import { type FileKind, parseManifest } from '../../../lance-format/manifest/parse-manifest.ts';
import { MalformedFile } from '../../../lance-format/protobuf.ts';

interface NeededFile {
  readonly path: string;
  readonly mayBeMissing: boolean;
}

export interface DurableBranch {
  /** The folder above every dataset; its own name is made durable too. */
  readonly rootPath: string;
  readonly datasetPath: string;
  readonly branch: string | undefined;
}

/**
 * Makes the versions of one branch survive a power cut. The engine itself never calls `fsync`: after a commit the new files
 * and their names are in memory only.
 *
 * The manifests say what has to be synced: the files that they name, less those synced before. The first call knows of none, so
 * it syncs all that the version needs, also what other programs wrote; for files that are on disk already that costs some
 * microseconds each. Later calls sync what the versions since then brought, usually two to four files, and their folders.
 *
 * The files and their names are synced in any order, because the operating system has them all by now and may write them in any
 * order. What counts is that all are on disk before the promise resolves.
 */
export class Durability {
  readonly #sync: FileSync;
  readonly #branch: DurableBranch;
  readonly #path: string;
  #files: ReadonlySet<string> = new Set();
  /** Files whose sync has begun before their version was there. */
  #ahead: ReadonlyMap<string, Promise<void>> = new Map();
  readonly #folders = new Set<string>();
  readonly #openedAt: number;
  #synced: number | undefined;

  /** `openedAt` is the version the branch was at when it was opened; 0 for one that is being made. */
  constructor(sync: FileSync, branch: DurableBranch, openedAt: number) {
    this.#sync = sync;
    this.#branch = branch;
    this.#path = branchFolder(branch.datasetPath, branch.branch);
    this.#openedAt = openedAt;
  }

  /**
   * Begins with files of a version that is not there yet, while the rest of it is made: `sync` waits for them and has less to
   * do. Harmless where the version never comes.
   */
  beginSync(paths: readonly string[]): void {
    const done = this.#syncAll(paths.map((path) => ({ path, mayBeMissing: false })));
    done.catch(() => undefined); // `sync` throws it
    this.#ahead = new Map([...this.#ahead, ...paths.map((path) => [path, done] as const)]);
  }

  /**
   * Everything that `version` and those after `durable` need; by default those since the last call, or since the branch was
   * opened here. Throws the errors of `node:fs`, and `MalformedFile`.
   */
  async sync(version: number, durable: number | undefined = this.#synced): Promise<void> {
    if (durable !== undefined && version <= durable) return;
    const between = this.#filesBetween(durable ?? this.#openedAt, version);
    const newest = this.#filesOf(version);
    if (newest === undefined) throw new MalformedFile(`the manifest of version ${version} is missing`);
    const ahead = this.#ahead;
    this.#ahead = new Map(); // if one has failed, the next call begins anew
    const needed = [...between, ...newest].filter(({ path }) => !this.#files.has(path));
    // The failure of a version that never came is no failure.
    const begun = needed.map(({ path }) => ahead.get(path));
    await Promise.all([...begun, this.#syncAll(needed.filter(({ path }) => !ahead.has(path)))]);
    this.#files = new Set(newest.map(({ path }) => path));
    this.#synced = version;
  }

  /** A branch is two things: its first version, and the file that says it exists. */
  async branchMade(name: string, version: number): Promise<void> {
    const { rootPath, datasetPath } = this.#branch;
    await new Durability(this.#sync, { rootPath, datasetPath, branch: name }, version).sync(version);
    await this.fileWritten(branchRecord(datasetPath, name));
  }

  branchDeleted(): Promise<void> {
    const { datasetPath } = this.#branch;
    return this.namesChanged(branchRecords(datasetPath), join(datasetPath, 'tree'));
  }

  /** A file beside the versions: its content and its name. */
  fileWritten(path: string): Promise<void> {
    return this.#syncAll([{ path, mayBeMissing: false }]);
  }

  /** Names went from these folders. */
  async namesChanged(...folders: readonly string[]): Promise<void> {
    await Promise.all(folders.map((folder) => this.#sync.folder(folder).catch(ignoreMissing)));
  }

  async #syncAll(files: readonly NeededFile[]): Promise<void> {
    const paths = new Map(files.map(({ path, mayBeMissing }) => [path, mayBeMissing]));
    const folders = this.#foldersOf([...paths.keys()]);
    await Promise.all([
      ...[...paths].map(([path, mayBeMissing]) => this.#sync.file(path).catch(mayBeMissing ? ignoreMissing : rethrow)),
      ...[...folders].map((folder) => this.#sync.folder(folder).catch(ignoreMissing)),
    ]);
    for (const folder of folders) this.#folders.add(folder);
  }

  /** Versions before the newest one can be read too, unless they have been pruned already. */
  #filesBetween(before: number, version: number): readonly NeededFile[] {
    const files: NeededFile[] = [];
    for (let next = before + 1; next < version; next += 1) files.push(...(this.#filesOf(next) ?? []));
    return files.map(({ path }) => ({ path, mayBeMissing: true }));
  }

  #filesOf(version: number): readonly NeededFile[] | undefined {
    const found = readManifest(join(this.#path, '_versions'), version);
    if (found === undefined) return undefined;
    const manifest = parseManifest(found.bytes);
    const indexFiles = indexFolders(manifest, this.#path).flatMap(filesIn);
    return [
      { path: found.path, mayBeMissing: false },
      ...storedFiles(manifest, this.#path).map(({ path, kind }) => ({ path, mayBeMissing: !holdsRows.has(kind) })),
      ...indexFiles.map((path) => ({ path, mayBeMissing: true })),
    ];
  }

  /** The folders that got a new name, and those above that were not known to be durable themselves. */
  #foldersOf(files: readonly string[]): ReadonlySet<string> {
    const folders = new Set<string>();
    for (const file of files) {
      let folder = dirname(file);
      folders.add(folder);
      while (!this.#folders.has(folder) && isBelow(this.#branch.rootPath, folder)) {
        folder = dirname(folder);
        folders.add(folder);
      }
    }
    return folders;
  }
}

/** Without one of these a version cannot be read. Some programs leave out or prune the others. */
const holdsRows: ReadonlySet<FileKind> = new Set(['data', 'deletions', 'rowIds']);

/** Also true for the root itself: the folder that holds its name is synced with it. */
const isBelow = (root: string, folder: string): boolean => folder === root || folder.startsWith(root + sep);

const filesIn = (folder: string): readonly string[] => {
  try {
    return readdirSync(folder).map((name) => join(folder, name));
  } catch (error) {
    // An index whose whole content is in the manifest has no folder.
    return ignoreMissing(error) ?? [];
  }
};

export function ignoreMissing(error: unknown): undefined {
  if (codeOf(error) !== 'ENOENT') throw error;
}

function rethrow(error: unknown): never {
  throw error;
}

/** Makes what was written survive a power cut. A missing file or folder is `ENOENT`. */
export interface FileSync {
  /** The content of a file. */
  file(path: string): Promise<void>;
  /** The names in a folder, not what they name. */
  folder(path: string): Promise<void>;
}

/**
 * `fsync` on this machine's file system. Opening is synchronous: it takes microseconds, a trip through the thread pool more.
 *
 * After a failed `fsync` Linux counts the lost pages as clean, and the next `fsync` of the same file succeeds. So the first
 * failure is remembered, and from then on nothing is reported durable until the process is started again and start-up
 * recovery has looked at what is on the disk.
 */
export class DiskSync implements FileSync {
  readonly #syncDescriptor: (descriptor: number) => Promise<void>;
  #failure: unknown;

  constructor(syncDescriptor: (descriptor: number) => Promise<void> = promisify(fsync)) {
    this.#syncDescriptor = syncDescriptor;
  }

  file(path: string): Promise<void> {
    return this.#sync(path, constants.O_RDONLY);
  }

  folder(path: string): Promise<void> {
    return this.#sync(path, constants.O_RDONLY | constants.O_DIRECTORY);
  }

  async #sync(path: string, flags: number): Promise<void> {
    const descriptor = openSync(path, flags | constants.O_NONBLOCK);
    try {
      await this.#syncDescriptor(descriptor);
    } catch (error) {
      if (!isNotSyncable(error)) this.#failure ??= error;
    } finally {
      closeSync(descriptor);
    }
    if (this.#failure !== undefined) throw diskFailed(this.#failure);
  }
}

/** What has nothing to sync, or no way to: folders on some file systems, pipes. Opening those must not wait, either. */
const isNotSyncable = (error: unknown): boolean => codeOf(error) === 'EINVAL';

const diskFailed = (cause: unknown): LancegateError =>
  new LancegateError('Internal', 'the disk failed to keep what was written; this service must be restarted', { cause });
