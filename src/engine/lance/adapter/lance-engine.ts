import { randomUUID } from 'node:crypto';
import { mkdir, rm, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import type { Session } from '@lancedb/lancedb';
import { LancegateError } from '../../../kernel/errors.ts';
import type { BranchName, Location, Properties } from '../../../kernel/ids.ts';
import {
  branchFolder,
  listVersions,
  readManifest,
  readWholeVersion,
  stagingFolder,
} from '../../../lance-format/manifest/manifest-files.ts';
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
import { FolderCommits } from '../commit/branch-commits.ts';
import { FolderFiles, StoreFiles } from '../commit/branch-files.ts';
import { cloneVersion } from '../commit/clone.ts';
import { FileWriter } from '../commit/file-writer.ts';
import { ManifestCommit } from '../commit/manifest-commit.ts';
import { Proposals } from '../commit/proposals.ts';
import { RowReplacement } from '../commit/row-replacement.ts';
import { Staging, StagingFolder } from '../commit/staging.ts';
import { cloneStored } from '../commit/store-clone.ts';
import { StoreCommits } from '../commit/store-commits.ts';
import { type Fresh, withNotes } from '../commit/version-commit.ts';
import { ConfirmedRemovals } from '../durability/confirmed-removals.ts';
import { DiskSync, Durability, type DurableBranch, type FileSync } from '../durability/durability.ts';
import { type MachineStart, readMachineStart } from '../durability/machine-start.ts';
import { nothingRecovered, recoverBranch, recoverMirrored } from '../durability/recover-branch.ts';
import { VersionsInRemoval } from '../durability/versions-in-removal.ts';
import { inspectBranch } from '../head/branch-state.ts';
import { VersionsFolder } from '../head/dataset-head.ts';
import { connectNative, type NativeConnection, type NativeTable, newSession } from '../native/native.ts';
import { engineCall } from '../native/translate-errors.ts';
import { BranchShadows } from '../shadow/branch-shadows.ts';
import { ColumnViews } from '../shadow/column-views.ts';
import { LocalNewTable, RemoteNewTable } from '../shadow/new-tables.ts';
import { ShadowFolders } from '../shadow/shadow-folders.ts';
import { BranchMirror } from '../store/branch-mirror.ts';
import { BranchMirrors, mirrorsFolder } from '../store/branch-mirrors.ts';
import { type StorePlace, storeUnusable } from '../store/open-store.ts';
import { requireWhole } from './engine-upkeep.ts';
import { IndexChoice } from './index-choice.ts';
import { LanceDataset } from './lance-dataset.ts';
import { OtherProcesses, type ProcessPools } from './other-processes.ts';
import { StorageRoot } from './storage-root.ts';
import type { LocalBranch, OwnCommits, RequireBounded } from './surroundings.ts';

export interface LanceEngineOptions extends ProcessPools {
  /** What the engine keeps in memory, for all datasets together. */
  readonly indexCacheBytes: number;
  readonly metadataCacheBytes: number;
  /** Absolute path or object-store URI. */
  readonly root: string;
  /** How to reach an object store; may hold credentials, so it never leaves this object. */
  readonly rootOptions: Properties;
  /** An absolute local path for intermediate results. */
  readonly scratchFolder: string;
  /** A folder on a file system in memory; a few MB at most are there. */
  readonly memoryFolder?: string | undefined;
  /** The object store of the root. Without it the engine makes all commits there: a reader has no need of it. */
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
  readonly #fileSync: FileSync;
  readonly #machineStart: MachineStart;
  readonly #stagingInMemory: StagingFolder | undefined;
  readonly #files = new FileWriter();
  readonly #otherProcesses: OtherProcesses;
  readonly #shadowFolders: ShadowFolders;
  readonly #inRemoval = new VersionsInRemoval();
  /** Of branches on an object store. */
  readonly #mirrors: BranchMirrors | undefined;

  constructor(options: LanceEngineOptions) {
    this.#options = options;
    this.#fileSync = options.fileSync ?? new DiskSync();
    this.#machineStart = options.machineStart ?? readMachineStart(Date.now());
    this.#root = new StorageRoot(options.root);
    this.#session = newSession(options.indexCacheBytes, options.metadataCacheBytes);
    this.#otherProcesses = new OtherProcesses(options);
    this.#mirrors = mirrorsOf(options);
    const { memoryFolder } = options;
    this.#shadowFolders = new ShadowFolders((folder) => this.#connect(folder), memoryFolder);
    this.#stagingInMemory = memoryFolder === undefined ? undefined : new StagingFolder(memoryFolder, 'by copying');
  }

  /** Throws for an object store that would lose commits, and for one that cannot be reached, as `reachStorage` does. */
  async requireStorage(): Promise<void> {
    if (this.#mirrors !== undefined || this.#root.isLocal) return this.#mirrors?.requireOneWinner();
    const unused = `lancegate-probe-${randomUUID()}` as Location;
    await this.open({ location: unused }).catch(({ kind, cause }: LancegateError) => {
      if (kind !== 'TableNotFound') throw storeUnusable(this.#options.root, cause);
    });
  }

  async reachStorage(): Promise<void> {
    await this.#mirrors?.requireAnswer();
  }

  async newTable(location: Location, storageOptions: Properties): Promise<StagedTable> {
    const { folderUri, tableName } = this.#root.folderOf(location);
    const mirror = this.#mirrors?.of(location, undefined);
    if (!this.#root.isLocal && mirror === undefined) {
      const connection = await this.#connect(folderUri);
      return new RemoteNewTable({ connection, tableName, storageOptions });
    }
    const at = this.#branchAt(location, undefined);
    const folder = mirror?.folder ?? at.datasetPath;
    const within = stagingFolder(folder);
    await engineCall('create', async () => mkdir(within, { recursive: true }));
    const durability = mirror === undefined ? new Durability(this.#fileSync, at, 0) : undefined;
    const commits = mirror === undefined ? new FolderCommits(folder) : new StoreCommits(mirror);
    const connection = await this.#connect(within);
    const stagedName = randomUUID();
    return new LocalNewTable({ connection, storageOptions, folder, stagedName, commits, durability, fresh });
  }

  async open(request: OpenRequest): Promise<LanceDataset> {
    const { location, branch, version, isPrivate } = request;
    return engineCall('open', async () => {
      if (isPrivate === true) return new LanceDataset(await this.#openNewest(request), { branch });
      const requireBounded: RequireBounded = (of, at) => this.#requireBounded(location, of, at);
      if (branch !== undefined) await requireBounded(undefined);
      if (version !== undefined) return this.#openVersion(request, version, requireBounded);
      const processes = this.#otherProcesses.ofBranch(location, branch);
      const openNewest = () => this.#openNewest(request);
      const surroundings = { branch, openNewest, requireBounded, ...processes };
      const mirror = this.#mirrors?.of(location, branch);
      if (mirror !== undefined) {
        await engineCall('local folder', () => mirror.open());
        const commits = this.#ownCommits(request, mirror);
        const onBranchDeleted = (gone: BranchName) => this.#mirrors?.forgetBranch(location, gone, this.#forgetShadows);
        const parts = { ...surroundings, mirror, commits, onBranchDeleted };
        return new LanceDataset(openNewest, parts);
      }
      const state = this.#root.isLocal ? await inspectBranch(this.#branchAt(location, branch), true) : undefined;
      const table = await this.#openNewest(request);
      const local = this.#localBranch(request, await table.version());
      return new LanceDataset(table, { ...surroundings, state, ...local });
    });
  }

  async #openVersion(request: OpenRequest, version: number, requireBounded: RequireBounded): Promise<LanceDataset> {
    const { location, branch } = request;
    const at = this.#root.isLocal ? this.#branchAt(location, branch) : undefined;
    const state = at && (await inspectBranch(at, true));
    if (at !== undefined && state !== undefined) requireWhole(at, { branch, version });
    await requireBounded(branch, version);
    const table = await this.#openNewest(request);
    await table.checkout(version);
    const { readInReader } = this.#otherProcesses.ofBranch(location, branch);
    return new LanceDataset(table, { readInReader, state });
  }

  async makeFirst(location: Location, proposed: ProposedManifest, limits: ChangeLimits): Promise<boolean> {
    return engineCall('restore', async () => {
      const mirror = this.#mirrors?.of(location, undefined);
      const durability = new Durability(this.#fileSync, this.#branchAt(location, undefined), 0);
      const { manifestCommit } = this.#ownCommits({ location, branch: undefined }, mirror ?? durability);
      if ((await manifestCommit.makeFirst(proposed, limits)) === 'overtaken') return false;
      if (mirror === undefined) await durability.sync(1);
      return true;
    });
  }

  async clone({ location, branch, version }: ClonedVersion, to: Location): Promise<void> {
    if (!this.#root.isLocal) return this.#cloneStored({ location, branch, version }, to);
    const [from, target] = [this.#root.pathOf(location), this.#root.pathOf(to)];
    const request = { rootPath: this.#root.path, from, to: target, branch, version };
    await engineCall('replace', () => cloneVersion(request, this.#fileSync, fresh));
  }

  async #cloneStored({ location, branch, version }: ClonedVersion, to: Location): Promise<void> {
    const mirrors = this.#mirrors;
    if (mirrors === undefined) throw new LancegateError('Unsupported', 'this service clones no table on this storage');
    const [from, target] = [mirrors.of(location, branch), mirrors.of(to, undefined)];
    const request = { from, version, to: target, keyOf: (uri: string) => mirrors.keyOf(uri) };
    await engineCall('replace', () => cloneStored(request, fresh));
  }

  async scratch(): Promise<Scratch> {
    const name = randomUUID();
    const folder = join(this.#options.scratchFolder, name);
    await mkdir(folder, { recursive: true });
    const connection = await this.#connect(folder, {});
    return {
      create: (table, file) =>
        engineCall('create', async () => {
          const processes = this.#otherProcesses.ofScratch(`${name}/${table}.lance` as Location);
          const rowIds = { new_table_enable_stable_row_ids: 'true' };
          return new LanceDataset(await connection.createTable(table, file, 'create', [], rowIds), processes);
        }),
      discard: async () => {
        connection.close();
        await rm(folder, { recursive: true, force: true });
      },
    };
  }

  async space(): Promise<Space | undefined> {
    if (!this.#root.isLocal) return undefined;
    return engineCall('open', async () => {
      const { bavail, blocks, bsize, ffree, files } = await statfs(this.#root.path);
      return { freeBytes: bavail * bsize, totalBytes: blocks * bsize, freeFiles: ffree, totalFiles: files };
    });
  }

  async remove(location: Location, confirm?: () => Promise<void>): Promise<void> {
    const removals = new ConfirmedRemovals(confirm);
    if (this.#root.isLocal) {
      this.#shadowFolders.forgetBelow(this.#root.pathOf(location));
      await removals.next();
      return this.#root.remove(location);
    }
    await this.#mirrors?.forget(location, this.#forgetShadows);
    const { folderUri, tableName } = this.#root.folderOf(location);
    const connection = await this.#connect(folderUri);
    await removals.next();
    await engineCall('remove', () => connection.dropTable(tableName, [])).catch(ignoreMissing);
  }

  async isVacant(location: Location): Promise<boolean> {
    if (this.#root.isLocal) return !(await this.#root.exists(location));
    return this.open({ location }).then(
      (dataset) => {
        dataset.close();
        return false;
      },
      () => true,
    );
  }

  get storageSession(): string {
    return this.#root.isLocal ? this.#machineStart.id : 'object store';
  }

  /**
   * What an object store has accepted is durable, and its commits are atomic. But a commit of the process before may still be on its
   * way: the number that it would take is taken.
   */
  async recover({ location, branch, acknowledgedVersion, storageSession }: RecoverRequest): Promise<Recovery> {
    const mirror = this.#mirrors?.of(location, branch);
    if (mirror !== undefined) return engineCall('sync', () => recoverMirrored(mirror, branch, acknowledgedVersion));
    if (!this.#root.isLocal) return nothingRecovered(acknowledgedVersion);
    const suspect = {
      ...this.#branchAt(location, branch),
      acknowledgedVersion,
      outlivedPowerCut: storageSession !== this.storageSession,
      machineStartedAtMs: this.#machineStart.atMs,
    };
    return engineCall('sync', () => recoverBranch(suspect, this.#fileSync));
  }

  async newestVersion({ location, branch }: Pick<RecoverRequest, 'location' | 'branch'>): Promise<number | undefined> {
    const mirror = this.#mirrors?.of(location, branch);
    if (mirror !== undefined) return (await mirror.findNewest())?.version ?? 0;
    if (!this.#root.isLocal) return undefined;
    return listVersions(join(branchFolder(this.#root.pathOf(location), branch), '_versions')).at(-1) ?? 0;
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
    this.#mirrors?.close();
  }

  /** As `RequireBounded`, of the dataset: the engine also reads main where a branch is opened, and the newest version before another. */
  async #requireBounded(location: Location, branch: BranchName | undefined, version?: number): Promise<void> {
    const mirror = this.#mirrors?.of(location, branch);
    if (mirror === undefined && !this.#root.isLocal) return;
    const versions = mirror?.versionsFolder ?? join(branchFolder(this.#root.pathOf(location), branch), '_versions');
    const newest = (await this.newestVersion({ location, branch })) ?? 0;
    for (const each of version === undefined ? [newest] : [newest, version]) {
      const file = (await mirror?.take(each)) ?? readManifest(versions, each);
      if (file !== undefined) requireBoundedColumns(file.bytes);
    }
  }

  async #openNewest({ location, branch }: OpenRequest): Promise<NativeTable> {
    const { folderUri, tableName } = this.#root.folderOf(location);
    const connection = await this.#connect(folderUri);
    const main = await connection.openTable(tableName, []);
    return branch === undefined ? main : (await main.branches()).checkout(branch);
  }

  #localBranch(request: OpenRequest, openedAt: number): { local?: LocalBranch; commits?: OwnCommits } {
    if (!this.#root.isLocal) return {};
    const at = this.#branchAt(request.location, request.branch);
    const versions = new VersionsFolder(at.datasetPath, request.branch);
    versions.standsAt(openedAt);
    const durability = new Durability(this.#fileSync, at, openedAt);
    const local = { versions, durability };
    return { local, commits: this.#ownCommits(request, durability) };
  }

  #ownCommits({ location, branch }: OpenRequest, by: Durability | BranchMirror): OwnCommits {
    const isMirrored = by instanceof BranchMirror;
    const folder = isMirrored ? by.folder : branchFolder(this.#root.pathOf(location), branch);
    const commits = isMirrored
      ? new StoreCommits(by)
      : new FolderCommits(folder, this.#files, (paths) => by.beginSync(paths));
    const versionsFolder = join(folder, '_versions');
    const staging = new Staging(folder, this.#stagingInMemory, this.#options.rootOptions);
    const readWhole = (version: number) =>
      isMirrored ? readManifest(versionsFolder, version) : readWholeVersion(folder, version);
    const { changeInReader, readInReader, ...builds } = this.#otherProcesses.ofShadows(location, branch);
    const connect = (at: string) => this.#connect(at);
    const views = new ColumnViews({ stagingFolder: stagingFolder(folder), connect, readInReader });
    const folders = this.#shadowFolders;
    const { notes, parts } = withNotes({ commits, fresh });
    const proposals = new Proposals({
      branch,
      objectPath: this.#root.objectPathOf(location, branchFolder('', branch)),
      files: isMirrored ? new StoreFiles(by) : new FolderFiles(folder),
      older: (version) => readWhole(version)?.bytes,
      ...{ staging, uri: commits.uri, tryVersion: this.#otherProcesses.trialsOf(location, branch) },
    });
    return {
      ...{ versionsFolder, notes },
      inRemoval: this.#inRemoval,
      replacement: new RowReplacement({
        folder,
        staging,
        readStaged: (name, rows) => views.read(name, rows),
        ...parts,
      }),
      manifestCommit: new ManifestCommit({ folder, inRemoval: this.#inRemoval, readWhole, proposals, ...parts }),
      shadows: new BranchShadows({ branchFolder: folder, versionsFolder, folders, changeInReader, views, ...parts }),
      preparation: { folder, staging, ...builds, ...parts },
      indexChoice: new IndexChoice(versionsFolder),
    };
  }

  readonly #forgetShadows = (folder: string): void => this.#shadowFolders.forgetBelow(folder);

  #branchAt(location: Location, branch: BranchName | undefined): DurableBranch {
    return { rootPath: this.#root.path, datasetPath: this.#root.pathOf(location), branch };
  }

  /** A connection is a URI and a session: opening one costs under a millisecond and nothing stays open. */
  #connect(folderUri: string, options = this.#options.rootOptions): Promise<NativeConnection> {
    return connectNative(folderUri, options, this.#session, this.#options.readerChanges === undefined);
  }
}

const mirrorsOf = ({ store, root, scratchFolder }: LanceEngineOptions): BranchMirrors | undefined =>
  store && new BranchMirrors(store, root.replace(/\/+$/, ''), mirrorsFolder(scratchFolder), fresh);

const fresh: Fresh = { uuid: randomUUID, nowMs: Date.now };

/** Dropping what is not there is what was wanted. Other failures are the caller's to see. */
function ignoreMissing(error: unknown): void {
  const cause = error instanceof Error ? error.cause : undefined;
  if (cause instanceof Error && /was not found|Not found/.test(cause.message)) return;
  throw error;
}
