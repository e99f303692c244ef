/** The files of tables are here. What differs between a file system and an object store is behind these two interfaces alone. */
import type { BranchName, Location, TableId } from '../../../kernel/ids.ts';
import type { readManifest } from '../../../lance-format/manifest/manifest-files.ts';
import type { StoredVersion, VersionPage } from '../../port/dataset.ts';
import type { ClonedVersion, RecoverRequest, Recovery, Space } from '../../port/engine.ts';
import type { PruneRequest, PruneResult } from '../../port/upkeep.ts';
import type { BranchCommits } from '../commit/branch-commits.ts';
import type { Confirm } from '../durability/confirmed-removals.ts';
import type { NamedVersions } from '../durability/prune-versions.ts';
import type { NewBranch } from '../durability/stored-branch.ts';
import type { HeadWatch } from '../head/head-watch.ts';
import type { ObjectStore } from '../store/object-store.ts';

/** A branch of a dataset. */
export interface BranchStorage {
  /** The local folder that manifests and deletion vectors are read from: that of the branch, or of its mirror. */
  readonly folder: string;
  readonly versionsFolder: string;
  readonly commits: BranchCommits;
  /** It has all files of the branch. */
  readonly store: ObjectStore;
  /** All keys of the branch begin with it; it ends with a slash. */
  readonly prefix: string;
  /** All keys of its dataset begin with it. */
  readonly datasetPrefix: string;
  /** Looks at the branch, and whether it may be read and written. `TableNotFound`, `TableBranchNotFound`, `TableDamaged`. */
  open(): Promise<HeadWatch>;
  /** 0 where there is none. */
  newestVersion(): Promise<number>;
  /** The manifest of a version, in the local folder; undefined where there is none. */
  take(version: number): Promise<ReturnType<typeof readManifest>>;
  /** As `take`, with the deletion vectors that the version names. */
  takeWithDeletions(version: number): Promise<ReturnType<typeof readManifest>>;
  /** As `take`, of a version in the local folder whose files are all there, as far as this can be seen without a request. */
  readWhole(version: number): ReturnType<typeof readManifest>;
  page(page: VersionPage): Promise<readonly StoredVersion[]>;
  /** False where nothing that began at this version may still be made. */
  mayFollow(version: number): Promise<boolean>;
  /** See `BranchHead.sync`. */
  sync(version: number, after?: number): Promise<void>;
  prune(request: PruneRequest & NamedVersions): Promise<PruneResult>;
  /** Reads the files of an index, so that they are in memory. Nothing where that is no use. */
  readIndex(uuid: string, version: number, signal: AbortSignal): Promise<void>;
  /** Another branch of the dataset is there as it should be. Durable when it resolves. */
  branchMade(branch: NewBranch): Promise<void>;
  branchDeleted(name: BranchName): Promise<void>;
}

/** All branches of all datasets below the storage root. */
export interface TableStorage {
  /** See `Engine.storageSession`. */
  readonly session: string;
  branch(location: Location, branch: BranchName | undefined): BranchStorage;
  /** See `LanceEngine.requireStorage`. */
  requireUsable(): Promise<void>;
  /** See `LanceEngine.reachStorage`. */
  reach(): Promise<void>;
  space(): Promise<Space | undefined>;
  isVacant(location: Location): Promise<boolean>;
  remove(location: Location, confirm: Confirm): Promise<void>;
  /** See `Locations.setAside`. */
  setAside(location: Location, table: TableId): Promise<Location>;
  bringBack(location: Location, table: TableId): Promise<void>;
  clone(from: ClonedVersion, to: Location): Promise<void>;
  recover(request: RecoverRequest): Promise<Recovery>;
  close(): void;
}
