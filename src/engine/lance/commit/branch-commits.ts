/** Versions of a branch are made here, on a file system or on an object store. */
import { copyFileSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { codeOf, isOutcomeUnknown } from '../../../kernel/errors.ts';
import { listVersions } from '../../../lance-format/manifest/manifest-files.ts';
import type { NewVersion } from '../../../lance-format/manifest/next-manifest.ts';
import type { LiftedFile } from '../../../lance-format/shadow/lifted-version.ts';
import type { FileWriter, Pace } from './file-writer.ts';
import { commitVersion, inFolder, removeIfPossible } from './version-commit.ts';

/** A file that a version is to name. */
export interface CommitFile {
  /** The absolute path of a file, or of a folder with all that is in it; or the content. */
  readonly from: string | Uint8Array;
  /** The path is one in the folder of the branch. */
  readonly to: string;
}

/** A file that the engine wrote in a shadow in this folder. */
export const liftedFrom = (folder: string, { from, to }: LiftedFile): CommitFile => ({ from: join(folder, from), to });

/** Files on their way to where a version can name them, or there. */
export interface PlacedFiles {
  /** Once they are there. */
  readonly done: Promise<void> | undefined;
  /**
   * No version names them: those that had a path are there again, and the others are gone. Once it resolves, files may get the same
   * names again. Never rejects.
   */
  takeBack(): Promise<void>;
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
  /** The engine finds the branch there; its shadows have it as a base path. */
  readonly uri: string;
  /** All files, or none. `pace`: as `FileWriter.write`. */
  place(files: readonly CommitFile[], pace?: Pace): PlacedFiles;
  /** False where another program has made this version. `after`: path of the manifest before it. `files`: those that it names. */
  make(next: NewVersion, after: string, files?: Promise<unknown>, turn?: VersionTurn): Promise<boolean>;
  /** The newest version after another program's commit. What led to it is in the folder then. */
  newest(): Promise<number | undefined>;
}

/** A version as it is built from the head before it. */
export interface BuiltVersion extends NewVersion {
  /** What it names that is not there yet. */
  readonly files?: readonly CommitFile[];
}

/** As `BranchCommits.make`, with the files of the version. `arriving`: others, which are on their way already. */
export async function makeVersion(
  commits: BranchCommits,
  next: BuiltVersion,
  after: string,
  arriving?: Promise<unknown>,
  turn?: VersionTurn,
): Promise<boolean> {
  const placed = commits.place(next.files ?? []);
  const all = placed.done === undefined ? arriving : Promise.all([placed.done, arriving]);
  let mayBeMade = false;
  try {
    mayBeMade = await commits.make(next, after, all, turn);
    return mayBeMade;
  } catch (error) {
    mayBeMade = isOutcomeUnknown(error);
    throw error;
  } finally {
    if (!mayBeMade) await placed.takeBack();
  }
}

/** On a file system, files get their names by renaming, in one turn of the event loop with the commit. */
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

  /** A new name takes less time than a trip through the thread pool. */
  place(files: readonly CommitFile[], pace?: Pace): PlacedFiles {
    const placed = files.map(({ from, to }) => ({ from, path: join(this.uri, to) }));
    const moves = placed.flatMap(({ from, path }) => (typeof from === 'string' ? { from, path } : []));
    const written = placed.flatMap(({ from, path }) => (typeof from === 'string' ? [] : { content: from, path }));
    const takeBack = async (): Promise<void> => {
      for (const { from, path } of moves) moveBack(path, from);
      for (const { path } of written) removeIfPossible(path);
    };
    try {
      for (const { from, path } of moves) inFolder(path, () => move(from, path));
    } catch (error) {
      void takeBack();
      throw error;
    }
    const writing = written.length === 0 ? undefined : this.#files?.write(written, pace);
    return { done: writing?.then(() => this.#beginSync?.(written.map(({ path }) => path))), takeBack };
  }

  async make(next: NewVersion, after: string, files?: Promise<unknown>): Promise<boolean> {
    if (files !== undefined) await files;
    return commitVersion(this.uri, next, after);
  }

  async newest(): Promise<number | undefined> {
    return listVersions(join(this.uri, '_versions')).at(-1);
  }
}

/** What is staged in memory is on another file system. */
function move(from: string, to: string): void {
  try {
    renameSync(from, to);
  } catch (error) {
    if (codeOf(error) !== 'EXDEV') throw error;
    copyFileSync(from, to);
  }
}

/** What was not moved is where it was. */
function moveBack(path: string, from: string): void {
  try {
    renameSync(path, from);
  } catch {
    removeIfPossible(path);
  }
}
