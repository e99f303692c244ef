/** Tables that are being made: on a file system in the staging folder of their location, on object stores at once in place. */
import { basename, join } from 'node:path';
import type { IpcFile } from '../../../arrow/format/ipc-file.ts';
import type { Properties } from '../../../kernel/ids.ts';
import { manifestNames, namesIn, stagingFolder } from '../../../lance-format/manifest/manifest-files.ts';
import { firstVersion, type LiftedFile } from '../../../lance-format/shadow/lifted-version.ts';
import { changesIn } from '../../../lance-format/transaction/transaction.ts';
import type { StagedTable } from '../../port/engine.ts';
import type { BranchCommits } from '../commit/branch-commits.ts';
import { type Fresh, newTransaction, removeFiles, removeIfEmpty, removeIfPossible } from '../commit/version-commit.ts';
import type { Durability } from '../durability/durability.ts';
import type { NativeConnection, NativeTable } from '../native/native.ts';
import { engineCall, locationTaken } from '../native/translate-errors.ts';

/** Where the engine writes a table. */
interface NewTableTarget {
  readonly connection: NativeConnection;
  readonly tableName: string;
  readonly storageOptions: Properties;
}

/** The engine's own table, made by the first append. */
class AppendedTable {
  readonly #target: NewTableTarget;
  #table: NativeTable | undefined;

  constructor(target: NewTableTarget) {
    this.#target = target;
  }

  append(file: IpcFile): Promise<void> {
    const { connection, tableName, storageOptions } = this.#target;
    return engineCall(this.#table === undefined ? 'create' : 'append', async () => {
      if (this.#table === undefined) {
        this.#table = await connection.createTable(tableName, file, 'create', [], { ...storageOptions });
      } else await this.#table.add(file, 'append');
    });
  }

  countRows(): Promise<number> {
    return engineCall('select', async () => (await this.#table?.countRows()) ?? 0);
  }

  version(): Promise<number> {
    return engineCall('create', async () => (await this.#table?.version()) ?? 0);
  }

  close(): void {
    this.#table?.close();
  }
}

export class RemoteNewTable implements StagedTable {
  readonly #table: AppendedTable;

  constructor(target: NewTableTarget) {
    this.#table = new AppendedTable(target);
  }

  append(file: IpcFile): Promise<void> {
    return this.#table.append(file);
  }

  countRows(): Promise<number> {
    return this.#table.countRows();
  }

  /** What an object store has accepted is committed, and durable. */
  commit(): Promise<number> {
    return this.#table.version();
  }

  discard(): void {
    this.#table.close();
  }
}

interface LocalNewTableParts extends Omit<NewTableTarget, 'tableName'> {
  /** The folder of the dataset. */
  readonly folder: string;
  /** In the staging folder; never the same twice. `connection` is to this folder. */
  readonly stagedName: string;
  readonly commits: BranchCommits;
  /** On a file system. */
  readonly durability: Durability | undefined;
  readonly fresh: Fresh;
}

export class LocalNewTable implements StagedTable {
  readonly #parts: LocalNewTableParts;
  readonly #table: AppendedTable;

  constructor(parts: LocalNewTableParts) {
    this.#parts = parts;
    this.#table = new AppendedTable({ ...parts, tableName: parts.stagedName });
  }

  append(file: IpcFile): Promise<void> {
    return this.#table.append(file);
  }

  countRows(): Promise<number> {
    return this.#table.countRows();
  }

  async commit(): Promise<number> {
    const { folder, commits, durability, fresh } = this.#parts;
    const staged = this.#stagedFolder;
    const versionsFolder = join(folder, '_versions');
    const removeManifest = (error: unknown): never => {
      removeFiles(manifestNames(1).map((name) => ({ path: join(versionsFolder, name) })));
      throw error;
    };
    try {
      const isMade = await engineCall('replace', async () => {
        const versions = join(staged, '_versions');
        const { path, version, result, steps } = changesIn(versions, 0, await this.#table.version());
        const first = { ...firstVersion({ result, steps, ...newTransaction(fresh) }), files: rowFilesIn(staged) };
        const naming = manifestNames(version)[1] === basename(path) ? 1 : 0;
        return commits.lift(first, staged, join(versionsFolder, manifestNames(0)[naming]));
      });
      if (!isMade) throw locationTaken();
      await engineCall('replace', async () => durability?.sync(1).catch(removeManifest));
      return 1;
    } finally {
      this.discard();
    }
  }

  discard(): void {
    this.#table.close();
    removeIfPossible(this.#stagedFolder);
    removeIfEmpty(stagingFolder(this.#parts.folder));
  }

  get #stagedFolder(): string {
    return join(stagingFolder(this.#parts.folder), `${this.#parts.stagedName}.lance`);
  }
}

/** All of the folder: blobs can have files beside those that the manifest names. */
const rowFilesIn = (staged: string): readonly LiftedFile[] =>
  namesIn(join(staged, 'data')).map((name) => ({ from: join('data', name), to: join('data', name) }));
