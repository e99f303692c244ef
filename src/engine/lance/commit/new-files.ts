import { mkdirSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

/** A file that nobody knows of yet. */
export interface NewFile {
  readonly path: string;
  readonly content: Uint8Array;
}

/** All of them, or none. Throws the errors of `node:fs`. */
export function writeFiles(files: readonly NewFile[]): void {
  try {
    for (const { path, content } of files) inFolder(path, () => writeFileSync(path, content));
  } catch (error) {
    removeFiles(files);
    throw error;
  }
}

/** Those that are there. */
export function removeFiles(files: readonly NewFile[]): void {
  for (const { path } of files) rmSync(path, { force: true });
}

/** A file, or a folder with all that is in it: for what does no harm if it stays, where a failure would. */
export function removeIfPossible(path: string): void {
  try {
    rmSync(path, { recursive: true, force: true });
  } catch {
    // Whatever is wrong with the disk, nobody refers to it.
  }
}

export function removeIfEmpty(folder: string): void {
  try {
    rmdirSync(folder);
  } catch {
    // Something else is in it, or it is gone.
  }
}

/** A dataset that was only created, and a branch without commits of its own, do not have all folders. */
export function inFolder(path: string, make: () => void): void {
  try {
    make();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    mkdirSync(dirname(path), { recursive: true });
    make();
  }
}
