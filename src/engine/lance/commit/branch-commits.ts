/** Where the versions of a branch are made: on a file system, or on an object store. */
import { existsSync, renameSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { listVersions, manifestNames, readManifest } from '../../../lance-format/manifest/manifest-files.ts';
import type { NewVersion } from '../../../lance-format/manifest/next-manifest.ts';
import type { LiftedVersion } from '../../../lance-format/shadow/lifted-version.ts';
import type { FileWriter, Pace } from './file-writer.ts';
import type { StagedRows } from './staging.ts';
import { commitVersion, inFolder, type NewFile, removeFiles, removeIfPossible } from './version-commit.ts';

/** The files of staged rows, on their way to where a version can name them, or there. */
export interface PlacedRows {
  /** Once they are there. */
  readonly done: Promise<void> | undefined;
  /** No version names them. */
  remove(): void;
  /** To where they were staged, in the folder of that dataset. */
  moveBack(folder: string): void;
}

/** How a version is made while others are about to follow it, or after one that is still being made. */
export interface VersionTurn {
  /** The files of the version are there, and the version is yet to be made. Not called where that takes no time. */
  planned(): void;
  /** Awaited directly before it is made. False where the version before it was not made: then this one must not be. */
  isNext(): Promise<boolean>;
}

/**
 * Commits of one branch. A version is made by one call that fails if another program has made it, and then, or after an error, nothing
 * of it can be seen; an error of which that is not certain is `Internal`.
 */
export interface BranchCommits {
  /** Where the engine finds the branch: the base path of its shadows. */
  readonly uri: string;
  /** All files, or none. `path` is in the folder of the branch, or of its mirror. `pace`: as `FileWriter.write`. */
  write(files: readonly NewFile[], pace?: Pace): Promise<void>;
  /** What `write` wrote; never throws. */
  remove(files: readonly NewFile[]): void;
  place(staged: StagedRows): PlacedRows;
  /** False where another program has made this version. `after`: path of the manifest before it. `files`: those that it names. */
  make(next: NewVersion, after: string, files?: Promise<unknown>, turn?: VersionTurn): boolean | Promise<boolean>;
  /** As `make`, with the files of a shadow in the folder `from`. They are there again where the version is not made. */
  lift(lifted: LiftedVersion, from: string, after: string): boolean | Promise<boolean>;
  /** The newest version after another program's commit. What led to it is in the folder then. */
  newest(): number | undefined | Promise<number | undefined>;
}

export interface HeadManifest {
  readonly version: number;
  readonly bytes: Buffer;
  /** The path of the manifest. */
  readonly path: string;
}

/** Hardly any other program commits so often in so short a time. */
export const mostAttempts = 8;

/**
 * As `BranchCommits.lift`, of what may follow any version: after a commit of another program `make` runs again. `version`: the newest
 * one that is known. Returns the version made; undefined if `make` returns nothing, or if too many others came first.
 */
export async function liftOnHead(
  { folder, commits }: { readonly folder: string; readonly commits: BranchCommits },
  version: number,
  from: string,
  make: (head: HeadManifest) => LiftedVersion | undefined,
): Promise<number | undefined> {
  let newest: number | undefined = version;
  for (let attempt = 0; attempt < mostAttempts && newest !== undefined; attempt += 1) {
    const head = readManifest(join(folder, '_versions'), newest);
    const lifted = head && make({ version: newest, ...head });
    if (head === undefined || lifted === undefined) return undefined;
    if (await commits.lift(lifted, from, head.path)) return lifted.version;
    newest = await commits.newest();
  }
  return undefined;
}

/** On a file system: files get their names by renaming, in one turn of the event loop with the commit. */
export class FolderCommits implements BranchCommits {
  readonly uri: string;
  readonly #files: FileWriter | undefined;
  readonly #beginSync: ((paths: readonly string[]) => void) | undefined;

  /** `folder`: of the dataset, or of the branch in it. `beginSync` begins to make files durable that no version names yet. */
  constructor(folder: string, files?: FileWriter, beginSync?: (paths: readonly string[]) => void) {
    this.uri = folder;
    this.#files = files;
    this.#beginSync = beginSync;
  }

  async write(files: readonly NewFile[], pace?: Pace): Promise<void> {
    await this.#files?.write(files, pace);
    if (files.length > 0) this.#beginSync?.(files.map(({ path }) => path));
  }

  remove(files: readonly NewFile[]): void {
    removeFiles(files);
  }

  place(staged: StagedRows): PlacedRows {
    const paths = staged.moveTo(this.uri);
    return {
      done: undefined,
      remove: () => removeFiles(paths.map((path) => ({ path }))),
      moveBack: (folder) => {
        for (const path of paths) renameSync(path, join(folder, 'data', basename(path)));
      },
    };
  }

  make(next: NewVersion, after: string, files?: Promise<unknown>): boolean | Promise<boolean> {
    if (files === undefined) return commitVersion(this.uri, next, after);
    return files.then(() => commitVersion(this.uri, next, after));
  }

  lift(lifted: LiftedVersion, from: string, after: string): boolean {
    if (manifestNames(lifted.version).some((name) => existsSync(join(dirname(after), name)))) return false;
    const targets = lifted.files.map(({ to }) => join(this.uri, to));
    let isMade = false;
    try {
      this.#move(lifted, from);
      this.#beginSync?.(targets.filter((path) => statSync(path).isFile()));
      isMade = commitVersion(this.uri, lifted, after);
      return isMade;
    } finally {
      if (!isMade) this.#moveBack(lifted, from);
    }
  }

  newest(): number | undefined {
    return listVersions(join(this.uri, '_versions')).at(-1);
  }

  /** A new name takes less time than a trip through the thread pool. */
  #move({ files }: LiftedVersion, from: string): void {
    for (const file of files) {
      const to = join(this.uri, file.to);
      inFolder(to, () => renameSync(join(from, file.from), to));
    }
  }

  /** What was not moved is where it was. */
  #moveBack({ files }: LiftedVersion, from: string): void {
    for (const file of files) {
      const path = join(this.uri, file.to);
      try {
        renameSync(path, join(from, file.from));
      } catch {
        removeIfPossible(path);
      }
    }
  }
}
