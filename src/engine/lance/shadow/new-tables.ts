/** Tables that are being made, in the staging folder of their location. */
import { basename, join } from 'node:path';
import type { IpcFile } from '../../../arrow/format/ipc-file.ts';
import type { Properties } from '../../../kernel/ids.ts';
import { manifestNames, namesIn, stagingFolder } from '../../../lance-format/manifest/manifest-files.ts';
import { firstVersion } from '../../../lance-format/shadow/lifted-version.ts';
import { changesIn } from '../../../lance-format/transaction/transaction.ts';
import type { StagedTable } from '../../port/engine.ts';
import { makeVersion } from '../commit/branch-commits.ts';
import { rowFile } from '../commit/staged-rows.ts';
import { type Fresh, newTransaction, removeFiles, removeIfEmpty, removeIfPossible } from '../commit/version-commit.ts';
import type { NativeConnection, NativeTable } from '../native/native.ts';
import { engineCall, locationTaken } from '../native/translate-errors.ts';
import type { BranchStorage } from '../storage/branch-storage.ts';

interface NewTableParts {
  /** It leads to the staging folder. */
  readonly connection: NativeConnection;
  readonly storageOptions: Properties;
  readonly storage: Pick<BranchStorage, 'folder' | 'versionsFolder' | 'commits' | 'sync'>;
  /** The table has this name in the staging folder; it is never the same twice. */
  readonly stagedName: string;
  readonly fresh: Fresh;
}

/** The first append makes the engine's own table of it. */
export class StagedNewTable implements StagedTable {
  readonly #parts: NewTableParts;
  #table: NativeTable | undefined;

  constructor(parts: NewTableParts) {
    this.#parts = parts;
  }

  append(file: IpcFile): Promise<void> {
    const { connection, stagedName, storageOptions } = this.#parts;
    return engineCall(this.#table === undefined ? 'create' : 'append', async () => {
      if (this.#table === undefined) {
        this.#table = await connection.createTable(stagedName, file, 'create', [], { ...storageOptions });
      } else await this.#table.add(file, 'append');
    });
  }

  countRows(): Promise<number> {
    return engineCall('select', async () => (await this.#table?.countRows()) ?? 0);
  }

  async commit(): Promise<number> {
    const { storage, fresh } = this.#parts;
    const { versionsFolder } = storage;
    const staged = this.#stagedFolder;
    const removeManifest = (error: unknown): never => {
      removeFiles(manifestNames(1).map((name) => ({ path: join(versionsFolder, name) })));
      throw error;
    };
    try {
      const isMade = await engineCall('replace', async () => {
        const versions = join(staged, '_versions');
        const { path, version, result, steps } = changesIn(versions, 0, (await this.#table?.version()) ?? 0);
        // All of the folder: blobs can have files beside those that the manifest names.
        const files = namesIn(join(staged, 'data')).map((name) => rowFile(join(staged, 'data', name)));
        const first = { ...firstVersion({ result, steps, ...newTransaction(fresh) }), files };
        const naming = manifestNames(version)[1] === basename(path) ? 1 : 0;
        return makeVersion(storage.commits, first, join(versionsFolder, manifestNames(0)[naming]));
      });
      if (!isMade) throw locationTaken();
      await engineCall('replace', () => storage.sync(1).catch(removeManifest));
      return 1;
    } finally {
      this.discard();
    }
  }

  discard(): void {
    this.#table?.close();
    removeIfPossible(this.#stagedFolder);
    removeIfEmpty(stagingFolder(this.#parts.storage.folder));
  }

  get #stagedFolder(): string {
    return join(stagingFolder(this.#parts.storage.folder), `${this.#parts.stagedName}.lance`);
  }
}
