import { copyFileSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { parseManifest } from '../../../lance-format/manifest/parse-manifest.ts';
import { connectNative, type NativeConnection, newSession } from '../native/native.ts';
import { inFolder, removeIfPossible } from './new-files.ts';

/** How files get from there to where they are used: the file system may be another one. */
type Taking = 'by renaming' | 'by copying';

/** Puts the files of a staged dataset among those of another, and says where they are now. */
export type MoveTo = (datasetFolder: string) => readonly string[];

/** A dataset that is being staged. */
export interface StagingPlace {
  readonly connection: NativeConnection;
  readonly name: string;
  readonly folder: string;
  /** Of what the manifest says to lie in the folder itself: a clone has files elsewhere, too. All of it, or none. */
  moverOf(manifest: Buffer): MoveTo;
  /** Maybe in a while. */
  discard(): void;
}

/** A folder in which the engine makes datasets of a moment. */
export class StagingFolder {
  readonly #path: string;
  readonly #taking: Taking;
  #connection: Promise<NativeConnection> | undefined;

  constructor(path: string, taking: Taking) {
    this.#path = path;
    this.#taking = taking;
  }

  /** The dataset is discarded if `work` fails. */
  async use<Result>(name: string, work: (place: StagingPlace) => Promise<Result>): Promise<Result> {
    const connection = await this.#connect();
    const folder = join(this.#path, `${name}.lance`);
    const discard = (): void => this.#discard(folder);
    try {
      return await work({ connection, name, folder, moverOf: (manifest) => this.#mover(manifest, folder), discard });
    } catch (error) {
      discard();
      throw error;
    }
  }

  #connect(): Promise<NativeConnection> {
    // In memory somebody may have removed it: login managers do, of users who leave.
    mkdirSync(this.#path, { recursive: true, ...(this.#taking === 'by copying' && { mode: 0o700 }) });
    // What is staged is never read, so nothing of it is to be kept.
    this.#connection ??= connectNative(this.#path, {}, newSession(0, 0));
    return this.#connection;
  }

  /**
   * Never throws: the rows may be committed. What stays goes when whoever owns the folder looks after it. In memory it takes 0.05 ms,
   * and gives the memory back at once.
   */
  #discard(folder: string): void {
    if (this.#taking === 'by renaming') void rm(folder, { recursive: true, force: true }).catch(() => undefined);
    else removeIfPossible(folder);
  }

  #mover(manifest: Buffer, folder: string): MoveTo {
    const own = parseManifest(manifest).files.filter(({ kind, baseId }) => kind === 'data' && baseId === undefined);
    const take = this.#taking === 'by renaming' ? renameSync : copyFileSync;
    return (datasetFolder) => {
      const targets = own.map(({ path }) => join(datasetFolder, 'data', path));
      try {
        for (const [index, target] of targets.entries())
          inFolder(target, () => take(join(folder, 'data', own[index]!.path), target));
        return targets;
      } catch (error) {
        for (const target of targets) rmSync(target, { force: true });
        throw error;
      }
    };
  }
}
