import { randomUUID } from 'node:crypto';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Session } from '@lancedb/lancedb';
import { LancegateError } from '../../../kernel/errors.ts';
import { type BranchName, type Location, ownLocation, type Properties, type TableId } from '../../../kernel/ids.ts';
import { branchFolder, stagingFolder } from '../../../lance-format/manifest/manifest-files.ts';
import { requireBoundedColumns } from '../../../lance-format/manifest/stored-columns.ts';
import type { ProposedManifest } from '../../port/change.ts';
import type { ChangeLimits } from '../../port/change-limits.ts';
import type {
  ClonedVersion,
  Engine,
  OpenRequest,
  RecoverRequest,
  Recovery,
  ResolvedLocation,
  Scratch,
  Space,
  StagedTable,
} from '../../port/engine.ts';
import { CommitLoop } from '../commit/commit-loop.ts';
import { FileWriter } from '../commit/file-writer.ts';
import { ManifestCommit } from '../commit/manifest-commit.ts';
import { Proposals } from '../commit/proposals.ts';
import { RowReplacement } from '../commit/row-replacement.ts';
import { Staging, StagingFolder } from '../commit/staging.ts';
import type { Fresh } from '../commit/version-commit.ts';
import { DiskSync, type FileSync } from '../durability/durability.ts';
import { type MachineStart, readMachineStart } from '../durability/machine-start.ts';
import { VersionsInRemoval } from '../durability/versions-in-removal.ts';
import type { BranchState } from '../head/branch-state.ts';
import { DatasetHead } from '../head/dataset-head.ts';
import { connectNative, type NativeConnection, type NativeTable, newSession } from '../native/native.ts';
import { engineCall } from '../native/translate-errors.ts';
import { BranchShadows } from '../shadow/branch-shadows.ts';
import { ColumnViews } from '../shadow/column-views.ts';
import { StagedNewTable } from '../shadow/new-tables.ts';
import { ShadowFolders } from '../shadow/shadow-folders.ts';
import type { BranchStorage, TableStorage } from '../storage/branch-storage.ts';
import { FolderStorage } from '../storage/folder-storage.ts';
import { StoreStorage } from '../storage/store-storage.ts';
import { BranchMirrors, mirrorsFolder } from '../store/branch-mirrors.ts';
import type { StorePlace } from '../store/open-store.ts';
import { IndexChoice } from './index-choice.ts';
import { LanceDataset } from './lance-dataset.ts';
import { OtherProcesses, type ProcessPools } from './other-processes.ts';
import { hasScheme, StorageRoot } from './storage-root.ts';
import type { OwnCommits, RequireReadable } from './surroundings.ts';

interface LanceEngineOptions extends ProcessPools {
  /** What the engine keeps in memory, for all datasets together. */
  readonly indexCacheBytes: number;
  readonly metadataCacheBytes: number;
  /** Absolute path or object-store URI. */
  readonly root: string;
  /** The engine reaches an object store by these; they may hold credentials, so they never leave this object. */
  readonly rootOptions: Properties;
  /** An absolute local path for intermediate results. */
  readonly scratchFolder: string;
  /** A folder on a file system in memory; a few MB at most are there. */
  readonly memoryFolder?: string | undefined;
  /** The object store of the root. A reader has no need of it: it opens datasets, and makes no commits there. */
  readonly store?: StorePlace | undefined;
  /** Only tests bring their own. */
  readonly fileSync?: FileSync;
  readonly machineStart?: MachineStart;
}

/** The real engine: LanceDB's native library, in process. */
export class LanceEngine implements Engine {
  readonly #root: StorageRoot;
  readonly #options: LanceEngineOptions;
  readonly #session: Session;
  readonly #stagingInMemory: StagingFolder | undefined;
  readonly #files = new FileWriter();
  readonly #otherProcesses: OtherProcesses;
  readonly #shadowFolders: ShadowFolders;
  readonly #inRemoval = new VersionsInRemoval();
  /** undefined in a reader of an object store. */
  readonly #stored: TableStorage | undefined;

  constructor(options: LanceEngineOptions) {
    this.#options = options;
    this.#root = new StorageRoot(options.root);
    this.#session = newSession(options.indexCacheBytes, options.metadataCacheBytes);
    this.#otherProcesses = new OtherProcesses(options);
    this.#stored = this.#openStorage(options);
    const { memoryFolder } = options;
    this.#shadowFolders = new ShadowFolders((folder) => this.#connect(folder), memoryFolder);
    this.#stagingInMemory = memoryFolder === undefined ? undefined : new StagingFolder(memoryFolder, 'in memory');
  }

  #openStorage({ root, store, scratchFolder, fileSync, machineStart }: LanceEngineOptions): TableStorage | undefined {
    const inRemoval = this.#inRemoval;
    if (store !== undefined) {
      const mirrors = new BranchMirrors(store, root.replace(/\/+$/, ''), mirrorsFolder(scratchFolder), fresh);
      return new StoreStorage({ mirrors, inRemoval, fresh });
    }
    if (hasScheme(root)) return undefined;
    return new FolderStorage({
      ...{ rootPath: this.#root.path, writer: this.#files, inRemoval, fresh },
      fileSync: fileSync ?? new DiskSync(),
      machineStart: machineStart ?? readMachineStart(Date.now()),
    });
  }

  get #storage(): TableStorage {
    if (this.#stored === undefined) throw new LancegateError('Internal', 'a reader of a store makes no commits');
    return this.#stored;
  }

  /** Throws for an object store that would lose commits, and for one that cannot be reached, as `reachStorage` does. */
  requireStorage(): Promise<void> {
    return this.#storage.requireUsable();
  }

  reachStorage(): Promise<void> {
    return this.#storage.reach();
  }

  async newTable(location: Location, storageOptions: Properties): Promise<StagedTable> {
    const storage = this.#storage.branch(location, undefined);
    const within = stagingFolder(storage.folder);
    await engineCall('create', async () => mkdir(within, { recursive: true }));
    const connection = await this.#connect(within);
    return new StagedNewTable({ connection, storageOptions, storage, stagedName: randomUUID(), fresh });
  }

  async open(request: OpenRequest): Promise<LanceDataset> {
    const { location, branch, version, isPrivate } = request;
    return engineCall('open', async () => {
      const storage = this.#stored?.branch(location, branch);
      if (isPrivate === true) return new LanceDataset(new DatasetHead(await this.#openNewest(request)), { branch });
      if (storage === undefined) return this.#openVersion(request, version);
      const requireReadable: RequireReadable = (of, at) => this.#requireReadable(location, of, at);
      if (branch !== undefined) await requireReadable(undefined);
      const watch = await storage.open();
      if (version !== undefined) {
        await requireReadable(branch, version);
        return this.#openVersion(request, version, watch.opened);
      }
      const openNewest = () => this.#openNewest(request);
      const head = new DatasetHead(watch.opensAtOnce ? await openNewest() : openNewest, watch);
      return new LanceDataset(head, {
        ...{ branch, openNewest, storage, requireReadable },
        ...this.#otherProcesses.ofBranch(location, branch),
        commits: this.#ownCommits(request, storage, head),
        onBranchDeleted: (gone) => this.#forgetShadows(location, gone),
      });
    });
  }

  /** Such a dataset has no more than the engine's table. */
  async #openVersion(request: OpenRequest, version?: number, state?: BranchState): Promise<LanceDataset> {
    const table = await this.#openNewest(request);
    if (version !== undefined) await table.checkout(version);
    const { readInReader } = this.#otherProcesses.ofBranch(request.location, request.branch);
    const head = new DatasetHead(table, undefined, state);
    return new LanceDataset(head, { branch: request.branch, readInReader });
  }

  async makeFirst(location: Location, proposed: ProposedManifest, limits: ChangeLimits): Promise<boolean> {
    return engineCall('restore', async () => {
      const storage = this.#storage.branch(location, undefined);
      const proposals = this.#proposals({ location }, storage, this.#staging(storage));
      if (!(await proposals.makeFirst(proposed, limits))) return false;
      await storage.sync(1);
      return true;
    });
  }

  async clone(from: ClonedVersion, to: Location): Promise<void> {
    await engineCall('replace', () => this.#storage.clone(from, to));
  }

  async scratch(): Promise<Scratch> {
    const name = randomUUID();
    const folder = join(this.#options.scratchFolder, name);
    await mkdir(folder, { recursive: true });
    const connection = await this.#connect(folder, {});
    return {
      create: (table, file) =>
        engineCall('create', async () => {
          const processes = this.#otherProcesses.ofScratch(ownLocation(`${name}/${table}.lance`));
          const rowIds = { new_table_enable_stable_row_ids: 'true' };
          const made = await connection.createTable(table, file, 'create', [], rowIds);
          return new LanceDataset(new DatasetHead(made), processes);
        }),
      discard: async () => {
        connection.close();
        await rm(folder, { recursive: true, force: true });
      },
    };
  }

  space(): Promise<Space | undefined> {
    return engineCall('open', () => this.#storage.space());
  }

  async remove(location: Location, confirm?: () => Promise<void>): Promise<void> {
    this.#forgetShadows(location, undefined);
    await this.#storage.remove(location, confirm);
  }

  async setAside(location: Location, table: TableId): Promise<Location> {
    this.#forgetShadows(location, undefined);
    return engineCall('replace', () => this.#storage.setAside(location, table));
  }

  bringBack(location: Location, table: TableId): Promise<void> {
    return engineCall('replace', () => this.#storage.bringBack(location, table));
  }

  isVacant(location: Location): Promise<boolean> {
    return this.#storage.isVacant(location);
  }

  get storageSession(): string {
    return this.#storage.session;
  }

  recover(request: RecoverRequest): Promise<Recovery> {
    return engineCall('sync', () => this.#storage.recover(request));
  }

  newestVersion({ location, branch }: Pick<RecoverRequest, 'location' | 'branch'>): Promise<number> {
    return this.#storage.branch(location, branch).newestVersion();
  }

  uriOf(location: Location): string {
    return this.#root.uriOf(location);
  }

  objectPathOf(location: Location, path: string): string {
    return this.#root.objectPathOf(location, path);
  }

  locationOf(pathOrUri: string, parameter?: string): Location {
    return this.#root.locationOf(pathOrUri, parameter);
  }

  resolve(location: Location): Promise<ResolvedLocation | undefined> {
    return this.#root.resolve(location);
  }

  /** Once nothing is under way. Datasets that are open can be read. */
  async close(): Promise<void> {
    await this.#shadowFolders.close();
    await this.#files.close();
    this.#stored?.close();
  }

  /** As `RequireReadable`, of the dataset: the engine also reads main where a branch is opened, and the newest version before another. */
  async #requireReadable(location: Location, branch: BranchName | undefined, version?: number): Promise<void> {
    const storage = this.#storage.branch(location, branch);
    const newest = await storage.take(await storage.newestVersion());
    if (newest !== undefined) requireBoundedColumns(newest.bytes);
    if (version === undefined) return;
    await storage.take(version);
    const whole = storage.readWhole(version);
    if (whole === undefined) throw new LancegateError('TableVersionNotFound', 'the table has no such version');
    requireBoundedColumns(whole.bytes);
  }

  async #openNewest({ location, branch }: OpenRequest): Promise<NativeTable> {
    const { folderUri, tableName } = this.#root.folderOf(location);
    const connection = await this.#connect(folderUri);
    const main = await connection.openTable(tableName, []);
    return branch === undefined ? main : (await main.branches()).checkout(branch);
  }

  #staging({ folder }: BranchStorage, { rootOptions, readerChanges } = this.#options): Staging {
    return new Staging(folder, this.#stagingInMemory, rootOptions, readerChanges === undefined);
  }

  #proposals({ location, branch }: OpenRequest, storage: BranchStorage, staging: Staging): Proposals {
    const { versionsFolder, commits, store, prefix } = storage;
    return new Proposals({
      ...{ branch, store, prefix, staging, versionsFolder, commits },
      objectPath: this.#root.objectPathOf(location, branchFolder('', branch)),
      older: (version) => storage.readWhole(version)?.bytes,
      tryVersion: this.#otherProcesses.trialsOf(location, branch),
    });
  }

  #ownCommits(request: OpenRequest, storage: BranchStorage, head: DatasetHead): OwnCommits {
    const { folder, versionsFolder, commits } = storage;
    const staging = this.#staging(storage);
    const { changeInReader, readInReader, ...builds } = this.#otherProcesses.ofShadows(
      request.location,
      request.branch,
    );
    const connect = (at: string) => this.#connect(at);
    const views = new ColumnViews({ stagingFolder: stagingFolder(folder), connect, readInReader });
    const loop = new CommitLoop({ head, versionsFolder, commits, fresh });
    const parts = { versionsFolder, staging, loop, commits, uri: commits.uri, fresh };
    return {
      loop,
      replacement: new RowReplacement({ ...parts, readStaged: (name, rows) => views.read(name, rows) }),
      manifestCommit: new ManifestCommit({
        ...{ versionsFolder, loop, inRemoval: this.#inRemoval },
        readWhole: (version) => storage.readWhole(version),
        proposals: this.#proposals(request, storage, staging),
      }),
      shadows: new BranchShadows({
        ...{ ...parts, branchFolder: folder, changeInReader, views, folders: this.#shadowFolders },
      }),
      preparation: { folder, ...parts, ...builds },
      indexChoice: new IndexChoice(versionsFolder),
    };
  }

  #forgetShadows(location: Location, branch: BranchName | undefined): void {
    this.#shadowFolders.forgetBelow(this.#storage.branch(location, branch).folder);
  }

  /** A connection is a URI and a session: opening one costs under a millisecond and nothing stays open. */
  #connect(folderUri: string, options = this.#options.rootOptions): Promise<NativeConnection> {
    return connectNative(folderUri, options, this.#session, this.#options.readerChanges === undefined);
  }
}

const fresh: Fresh = { uuid: randomUUID, nowMs: Date.now };
