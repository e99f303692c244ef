/**
 * The moment of a commit that is made here: the manifest gets its name, by a `link` that fails if somebody else's version has
 * it. The engine and other programs commit on a file system in the same way.
 */
import { linkSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { writeIn } from './deletion-files.ts';
import { manifestNames, readManifest } from './manifest-files.ts';
import type { NextManifest } from './next-manifest.ts';

/** What is new each time. */
export interface Fresh {
  nowMs(): number;
  /** Version 4, which is random. */
  uuid(): string;
}

/**
 * A millisecond ago: whoever notes the time after the commit, in whole milliseconds too, notes a later one, and what is
 * pruned is told by such times.
 */
export const committedAtMs = (fresh: Fresh): number => fresh.nowMs() - 1;

/** For the name of a file of deletions: as random as the last 64 bits of a UUID are, of which two are not. */
export const randomId = (fresh: Fresh): bigint => BigInt(`0x${fresh.uuid().replaceAll('-', '').slice(-16)}`);

export class CommitLink {
  readonly #folder: string;
  readonly #versionsFolder: string;
  readonly #fresh: Fresh;

  /** `folder`: of the dataset, or of the branch in it. */
  constructor(folder: string, fresh: Fresh) {
    this.#folder = folder;
    this.#versionsFolder = join(folder, '_versions');
    this.#fresh = fresh;
  }

  /**
   * False where somebody else has made this version. Throws where the version is certainly not there, with nothing left of it
   * that can be seen. `after`: the path of the manifest before it, whose way of naming is kept.
   */
  commit({ version, bytes, transaction, transactionFile }: NextManifest, after: string): boolean {
    const name = manifestNames(version)[manifestNames(version - 1).indexOf(basename(after)) === 1 ? 1 : 0];
    const transactionPath = join(this.#folder, '_transactions', transactionFile);
    const draft = join(this.#versionsFolder, `.tmp_${name}_${this.#fresh.uuid()}`);
    try {
      writeIn(this.#folder, '_transactions', () => writeFileSync(transactionPath, transaction));
      writeFileSync(draft, bytes);
      linkSync(draft, join(this.#versionsFolder, name));
      this.#hint(version);
      return true;
    } catch (error) {
      // A file system over a network may have done what it says has failed.
      const stored = readManifest(this.#versionsFolder, version);
      if (stored?.bytes.equals(bytes) === true) return true;
      rmSync(transactionPath, { force: true });
      if (stored === undefined) throw error;
      return false;
    } finally {
      removeIfPossible(draft);
    }
  }

  /** Spares readers a listing of the folder. It may be old or missing, so nothing depends on whether it can be written. */
  #hint(version: number): void {
    const path = join(this.#versionsFolder, 'latest_version_hint.json');
    const draft = join(this.#versionsFolder, `.tmp_hint_${this.#fresh.uuid()}`);
    try {
      writeFileSync(draft, JSON.stringify({ version }));
      renameSync(draft, path);
    } catch {
      removeIfPossible(draft);
    }
  }
}

/** A draft that stays does no harm: nobody takes it for a manifest, and recovery removes it. */
function removeIfPossible(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch {
    // Whatever is wrong with the disk, the version is there or it is not.
  }
}
