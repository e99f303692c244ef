/**
 * One process has its temporary files here. The engine writes the vectors of an index build there, and leaves them if it is
 * killed; so the folder is that process's alone, for its owner only, below the scratch folder, which each start empties. Who
 * makes it removes it once the process has ended, however it ended.
 */
import { mkdtempSync, rmdirSync, rmSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * Makes it below `otherwise` where the disk of the scratch folder is full: a process without room for temporary files can do
 * nothing.
 */
export function makeProcessFolder(scratchFolder: string, otherwise: string): string | undefined {
  return makeWithin(scratchFolder) ?? makeWithin(otherwise);
}

/** If it cannot be removed, the next start removes it. */
export async function removeProcessFolder(path: string): Promise<void> {
  await rm(path, { recursive: true, force: true }).catch(() => undefined);
}

/** The variables that make a process keep its temporary files in this folder. */
export const temporaryFilesIn = (path: string): Readonly<Record<string, string>> => ({
  TMPDIR: path,
  TMP: path,
  TEMP: path,
});

function makeWithin(folder: string): string | undefined {
  let path: string | undefined;
  try {
    path = mkdtempSync(join(folder, 'process-')); // of mode 0700
    rmdirSync(mkdtempSync(join(path, 'session-'))); // the engine makes one with each session, and aborts where it cannot
    return path;
  } catch {
    if (path !== undefined) rmSync(path, { recursive: true, force: true });
    return undefined; // the disk is full, or the folder is missing
  }
}
