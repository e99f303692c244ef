/**
 * New rows on their way into a dataset. The engine writes them as a small dataset of their own, so that only its data file
 * need be taken. Nothing of it is durable or needed later: what a crash leaves goes when the branch is recovered, or when
 * the next process makes its folder in memory.
 *
 * In memory, if the operating system has a file system there: the engine makes four folders and four files, which an ext4
 * that discards takes 5 ms for and tmpfs 1 ms (100 rows; 10 and 2 for 6,400), and whose removal makes others slower.
 */
import { copyFileSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { IpcFile } from '../../../arrow/format/ipc-file.ts';
import {
  listVersions,
  manifestNames,
  readManifest,
  stagingFolder,
} from '../../../lance-format/manifest/manifest-files.ts';
import { parseManifest } from '../../../lance-format/manifest/parse-manifest.ts';
import {
  type RewriteGroup,
  rewriteGroupsOf,
  transactionsBetween,
} from '../../../lance-format/transaction/transaction.ts';
import {
  connectNative,
  type NativeConnection,
  type NativeTable,
  nativeBtree,
  newSession,
  plainIndexName,
} from '../native/native.ts';
import { inFolder, removeIfPossible } from './version-commit.ts';

/** It is copied from there in a turn of the event loop, 0.5 ms a MB. There are as many of them as commits at once. */
const mostBytesInMemory = 2 ** 20;

/** A dataset of its own until its files are taken. */
export interface Staged extends Pick<StagingPlace, 'discard'> {
  readonly manifest: Buffer;
  readonly moveTo: MoveTo;
}

export interface StagedRows extends Staged {
  readonly rows: number;
}

/** What the engine made of a clone; its files lie in `folder`. */
interface StagedChange extends Pick<StagingPlace, 'discard' | 'folder'> {
  readonly manifest: Buffer;
}

export interface StagedFragments extends StagedChange {
  /** What was compacted; the other fragments are as they were. */
  readonly groups: readonly RewriteGroup[];
}

export interface StagedIndex extends StagedChange {
  readonly name: string;
}

export class Staging {
  readonly #beside: StagingFolder;
  readonly #memory: StagingFolder | undefined;
  readonly #newName: () => string;

  /** `newName`: never the same twice. `memory`: of all datasets together. */
  constructor(folder: string, newName: () => string, memory?: StagingFolder) {
    this.#beside = new StagingFolder(stagingFolder(folder), 'by renaming');
    this.#memory = memory;
    this.#newName = newName;
  }

  /** What fails in memory, such as where that is full, is tried where the dataset is. */
  async stage(file: IpcFile): Promise<StagedRows> {
    if (this.#memory === undefined || file.length > mostBytesInMemory) return this.#stageIn(this.#beside, file);
    return this.#stageIn(this.#memory, file).catch(() => this.#stageIn(this.#beside, file));
  }

  /** Has the engine compact the fragments of a clone (`shadow-manifest.ts`), as far as it thinks that they should be. */
  compact(clone: Buffer): Promise<StagedFragments> {
    return this.#inClone(clone, async (table) => {
      await table.optimize(0, false);
      return (transactions) => ({ groups: transactions.flatMap((each) => rewriteGroupsOf(each) ?? []) });
    });
  }

  /** Has the engine build the BTREE index of a column of a clone. */
  index(clone: Buffer, column: string): Promise<StagedIndex> {
    return this.#inClone(clone, async (table) => {
      await table.createIndex(nativeBtree(), column, true);
      return () => ({ name: plainIndexName(column) });
    });
  }

  /** `change` returns what its own transactions tell. */
  #inClone<Told>(
    clone: Buffer,
    change: (table: NativeTable) => Promise<(transactions: readonly Uint8Array[]) => Told>,
  ): Promise<StagedChange & Told> {
    return this.#beside.use(this.#newName(), async ({ connection, name, folder, discard }) => {
      const versions = join(folder, '_versions');
      mkdirSync(versions, { recursive: true });
      writeFileSync(join(versions, manifestNames(1)[0]), clone);
      const table = await connection.openTable(name, []);
      const told = await change(table).finally(() => table.close());
      const newest = listVersions(versions).at(-1) ?? 1;
      const manifest = readManifest(versions, newest)?.bytes ?? clone;
      const transactions = newest === 1 ? [] : transactionsBetween(versions, 1, newest);
      return { manifest, folder, discard, ...told(transactions.filter((each) => each !== undefined)) };
    });
  }

  #stageIn(staging: StagingFolder, file: IpcFile): Promise<StagedRows> {
    return staging.use(this.#newName(), async ({ connection, name, folder, moverOf, discard }) => {
      (await connection.createTable(name, file, 'create', [])).close();
      const manifest = readFileSync(join(folder, '_versions', manifestNames(1)[0]));
      const rows = parseManifest(manifest).fragments.reduce((sum, fragment) => sum + fragment.rows, 0);
      return { manifest, rows, moveTo: moverOf(manifest), discard };
    });
  }
}

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
