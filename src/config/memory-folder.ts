/** A folder for short-lived files that are never written to a disk. Linux has one; elsewhere there is none. */
import { lstatSync, mkdirSync, rmSync, statfsSync, statSync } from 'node:fs';
import { join } from 'node:path';

/** Every Linux system has this folder of POSIX shared memory, and so have containers unless they are configured otherwise. */
export const sharedMemory = '/dev/shm';
/** statfs(2) calls it `TMPFS_MAGIC`. Anything else that is mounted there may be a disk. */
const tmpfs = 0x01021994;

/**
 * Makes an empty folder, for its owner only, that belongs to the holder of this data folder: to be called once this process
 * holds it. What a process left there that was killed is removed. undefined where there is no such file system, or another
 * user owns the folder; nothing depends on it.
 */
export function makeMemoryFolder(dataFolder: string, within = sharedMemory): string | undefined {
  try {
    if (statfsSync(within).type !== tmpfs) return undefined;
    // As unique as the data folder is, also where containers share this file system.
    const { dev, ino } = statSync(dataFolder);
    const path = join(within, `lancegate-${dev}-${ino}`);
    if (!isOurs(path)) return undefined;
    rmSync(path, { recursive: true, force: true });
    mkdirSync(path, { mode: 0o700 });
    return path;
  } catch {
    return undefined;
  }
}

/** If it cannot be removed, the next start will find it. */
export function removeMemoryFolder(path: string): void {
  try {
    rmSync(path, { recursive: true, force: true });
  } catch {
    // It is empty or nearly so, and nothing depends on it.
  }
}

/** Any user may make a folder there, of any name. */
function isOurs(path: string): boolean {
  const there = lstatSync(path, { throwIfNoEntry: false });
  return there === undefined || (there.isDirectory() && there.uid === process.getuid?.());
}
