/**
 * A commit of this service on a file system: the manifest gets its name by a `link`, which fails if another program's version
 * has it. The engine and other programs commit in the same way.
 */
import { randomUUID } from 'node:crypto';
import {
  closeSync,
  constants,
  linkSync,
  mkdirSync,
  openSync,
  rmdirSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { codeOf } from '../../../kernel/errors.ts';
import { nextManifestName, readManifest } from '../../../lance-format/manifest/manifest-files.ts';
import type { NewVersion, VersionIdentity } from '../../../lance-format/manifest/next-manifest.ts';

/** What is new each time. */
export interface Fresh {
  nowMs(): number;
  /** Version 4, which is random. */
  uuid(): string;
}

/**
 * The id and the time of a new version. The time is a millisecond ago: a program that notes the time after the commit, in whole
 * milliseconds too, notes a later one, and such times decide what is pruned.
 */
export const newTransaction = (fresh: Fresh): VersionIdentity => ({
  transactionId: fresh.uuid(),
  committedAtMs: fresh.nowMs() - 1,
});

/** Names a deletion vector. The id is as random as the last 64 bits of a UUID are, of which two are not. */
export const randomId = (fresh: Fresh): bigint => BigInt(`0x${fresh.uuid().replaceAll('-', '').slice(-16)}`);

/**
 * Commits to a dataset, or to a branch of one, in `folder`. False where another program has made this version. Throws where the
 * version is certainly not there, with nothing left of it that can be seen. `after` is the path of the manifest before it, whose
 * way of naming is kept.
 */
export function commitVersion(folder: string, next: NewVersion, after: string): boolean {
  const { version, bytes, transaction, transactionFile } = next;
  const versionsFolder = join(folder, '_versions');
  const name = nextManifestName(after, version);
  const recorded = next.isRecorded
    ? []
    : [{ path: join(folder, '_transactions', transactionFile), content: transaction }];
  const draft = join(versionsFolder, `.tmp_${name}_${randomUUID()}`);
  try {
    writeFiles([...recorded, { path: draft, content: bytes }]);
    linkSync(draft, join(versionsFolder, name));
    writeHint(versionsFolder, version);
    return true;
  } catch (error) {
    // A file system over a network may have done what it says has failed.
    const stored = readManifest(versionsFolder, version);
    if (stored?.bytes.equals(bytes) === true) return true;
    removeFiles(recorded);
    if (stored === undefined) throw error;
    return false;
  } finally {
    removeIfPossible(draft); // no program takes it for a manifest, and recovery removes it
  }
}

/** Every hint is padded to the length of the longest: a shorter one would leave the end of a longer one behind it. */
const longestHint = '{"version":18446744073709551615}'.length;

/**
 * Spares readers a listing of the folder. It may be old, missing or torn, because the engine looks for newer versions in any
 * case. So it is written in place: to rename a draft to it frees the blocks of the file before, which can take many
 * milliseconds on a busy disk that discards.
 */
function writeHint(versionsFolder: string, version: number): void {
  try {
    const file = openSync(join(versionsFolder, 'latest_version_hint.json'), constants.O_WRONLY | constants.O_CREAT);
    try {
      writeSync(file, JSON.stringify({ version }).padEnd(longestHint), 0);
    } finally {
      closeSync(file);
    }
  } catch {
    // Nothing depends on it.
  }
}

/** A file that no manifest names yet. */
export interface NewFile {
  readonly path: string;
  readonly content: Uint8Array;
}

/** Writes all of them, or none. Throws the errors of `node:fs`. */
export function writeFiles(files: readonly NewFile[]): void {
  try {
    for (const { path, content } of files) inFolder(path, () => writeFileSync(path, content));
  } catch (error) {
    removeFiles(files);
    throw error;
  }
}

/** Removes the files that are there. */
export function removeFiles(files: readonly Pick<NewFile, 'path'>[]): void {
  for (const { path } of files) rmSync(path, { force: true });
}

/** A file, or a folder with all that is in it: for what does no harm if it stays, where a failure would. */
export function removeIfPossible(path: string): void {
  try {
    rmSync(path, { recursive: true, force: true });
  } catch {
    // Whatever is wrong with the disk, nothing refers to it.
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
    if (codeOf(error) !== 'ENOENT') throw error;
    mkdirSync(dirname(path), { recursive: true });
    make();
  }
}
