/**
 * What the engine writes on its way into a dataset: new rows, compacted fragments, indexes. It writes them as a small dataset of
 * their own, from which the commit takes the files. Nothing of that dataset is durable or needed later: recovery of the branch
 * removes what a crash leaves, or the next process does, when it makes its folder in memory.
 *
 * Rows are staged in memory if the operating system has a file system there: the engine makes four folders and four files for
 * them, which takes a disk several times as long, and their removal makes others slower.
 */
import { randomUUID } from 'node:crypto';
import { lstatSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { IpcFile } from '../../../arrow/format/ipc-file.ts';
import type { Properties } from '../../../kernel/ids.ts';
import {
  listVersions,
  manifestNames,
  readManifest,
  stagingFolder,
} from '../../../lance-format/manifest/manifest-files.ts';
import { parseManifest } from '../../../lance-format/manifest/parse-manifest.ts';
import { transactionsBetween } from '../../../lance-format/transaction/transaction.ts';
import { connectNative, type NativeConnection, type NativeTable, newSession } from '../native/native.ts';
import { removeIfPossible } from './version-commit.ts';

/** The copy from there is on the event loop, 0.5 ms a MB. There are as many of them as commits at once. */
const mostBytesInMemory = 2 ** 20;

export interface StagedRows extends Pick<DatasetInStaging, 'discard'> {
  readonly manifest: Buffer;
  readonly rows: number;
  /** The paths of the data files. */
  readonly files: readonly string[];
}

/** What the engine made of a shadow; its files lie in `folder`. */
export interface StagedChange extends Pick<DatasetInStaging, 'discard' | 'folder'> {
  readonly manifest: Buffer;
  /** The transactions of the engine's commits to the shadow. */
  readonly transactions: readonly Uint8Array[];
}

export class Staging {
  readonly #onDisk: StagingFolder;
  readonly #memory: StagingFolder | undefined;

  /**
   * `folder` is that of the dataset, or of the branch in it; all datasets share `memory`. The engine reaches the files that a shadow
   * names by `storageOptions`. Only a worker computes in what is staged.
   */
  constructor(folder: string, memory?: StagingFolder, storageOptions: Properties = {}, isForWorker = false) {
    this.#onDisk = new StagingFolder(stagingFolder(folder), 'on disk', storageOptions, isForWorker);
    this.#memory = memory;
  }

  /** What fails in memory, such as where that is full, is tried where the dataset is. */
  async stage(file: IpcFile): Promise<StagedRows> {
    if (this.#memory === undefined || file.length > mostBytesInMemory) return this.#stageIn(this.#onDisk, file);
    return this.#stageIn(this.#memory, file).catch(() => this.#stageIn(this.#onDisk, file));
  }

  /** A dataset for as many appends as it takes. The caller discards it. */
  begin(): Promise<DatasetInStaging> {
    return this.#onDisk.use(randomUUID(), async (dataset) => dataset);
  }

  /** Has the engine change a shadow (`shadow-manifest.ts`), here or, by its name in the staging folder, in another process. */
  change(
    shadow: Buffer,
    run: (open: () => Promise<NativeTable>, name: string) => Promise<unknown>,
  ): Promise<StagedChange> {
    return this.#onDisk.use(randomUUID(), async ({ connection, name, folder, discard }) => {
      const versions = join(folder, '_versions');
      mkdirSync(versions, { recursive: true });
      writeFileSync(join(versions, manifestNames(1)[0]), shadow);
      await run(() => connection.openTable(name, []), name);
      const newest = listVersions(versions).at(-1) ?? 1;
      const manifest = readManifest(versions, newest)?.bytes ?? shadow;
      const transactions = newest === 1 ? [] : transactionsBetween(versions, 1, newest);
      return { manifest, folder, discard, transactions: transactions.filter((each) => each !== undefined) };
    });
  }

  /** Has a dataset of one version read, by its name in the staging folder or here. It is gone afterwards. */
  look<Result>(
    { version, bytes }: { readonly version: number; readonly bytes: Buffer },
    run: (name: string, open: () => Promise<NativeTable>) => Promise<Result>,
  ): Promise<Result> {
    return this.#onDisk.use(randomUUID(), async ({ connection, name, folder, discard }) => {
      const versions = join(folder, '_versions');
      mkdirSync(versions, { recursive: true });
      writeFileSync(join(versions, manifestNames(version)[0]), bytes);
      const result = await run(name, () => connection.openTable(name, []));
      discard();
      return result;
    });
  }

  #stageIn(staging: StagingFolder, file: IpcFile): Promise<StagedRows> {
    return staging.use(randomUUID(), async ({ connection, name, folder, discard }) => {
      (await connection.createTable(name, file, 'create', [])).close();
      return { ...rowsIn(readFileSync(join(folder, '_versions', manifestNames(1)[0])), folder), discard };
    });
  }
}

/** A dataset that is being staged. */
export interface DatasetInStaging {
  readonly connection: NativeConnection;
  readonly name: string;
  readonly folder: string;
  /** Its files may go a while later. */
  discard(): void;
}

/** A folder in which the engine makes datasets for the time of a commit. */
export class StagingFolder {
  readonly #path: string;
  readonly #isInMemory: boolean;
  readonly #begin: () => Promise<NativeConnection>;
  #connection: Promise<NativeConnection> | undefined;

  constructor(path: string, place: 'in memory' | 'on disk', storageOptions: Properties = {}, isForWorker = false) {
    this.#path = path;
    this.#isInMemory = place === 'in memory';
    // What is staged is never read, so nothing of it is to be kept.
    this.#begin = () => connectNative(path, storageOptions, newSession(0, 0), isForWorker);
  }

  /** The dataset is discarded if `work` fails. */
  async use<Result>(name: string, work: (dataset: DatasetInStaging) => Promise<Result>): Promise<Result> {
    const connection = await this.#connect();
    const folder = join(this.#path, `${name}.lance`);
    const discard = (): void => this.#discard(folder);
    try {
      return await work({ connection, name, folder, discard });
    } catch (error) {
      discard();
      throw error;
    }
  }

  #connect(): Promise<NativeConnection> {
    if (this.#isInMemory) makeOwnFolder(this.#path);
    else mkdirSync(this.#path, { recursive: true });
    this.#connection ??= this.#begin();
    return this.#connection;
  }

  /**
   * Never throws: the rows may be committed. Recovery, or the next process, removes what stays. In memory it gives the memory back
   * at once.
   */
  #discard(folder: string): void {
    if (this.#isInMemory) removeIfPossible(folder);
    else void rm(folder, { recursive: true, force: true }).catch(() => undefined);
  }
}

/** What this manifest of a staged dataset says of its rows. A shadow has files elsewhere, too. */
export function rowsIn(manifest: Buffer, folder: string): Omit<StagedRows, 'discard'> {
  const { fragments, files } = parseManifest(manifest);
  const own = files.filter(({ kind, baseId }) => kind === 'data' && baseId === undefined);
  return {
    manifest,
    rows: fragments.reduce((sum, fragment) => sum + fragment.rows, 0),
    files: own.map(({ path }) => join(folder, 'data', path)),
  };
}

/**
 * Makes the folder in memory again if it is gone: login managers remove it when a user leaves. Then any user may have made one of
 * its name, or a link, who could read and replace what is put there; this throws.
 */
export function makeOwnFolder(path: string): void {
  mkdirSync(path, { recursive: true, mode: 0o700 });
  const made = lstatSync(path);
  if (!made.isDirectory() || made.uid !== process.getuid?.())
    throw new Error('the folder in memory is not of this user');
}
