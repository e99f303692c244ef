import type { BranchName } from '../../../kernel/ids.ts';
import { readManifest } from '../../../lance-format/manifest/manifest-files.ts';
import type { BranchHead, StoredVersion, VersionPage } from '../../port/dataset.ts';
import type { PruneRequest, PruneResult } from '../../port/upkeep.ts';
import { type NamedVersions, pruneVersions } from '../durability/prune-versions.ts';
import type { VersionsInRemoval } from '../durability/versions-in-removal.ts';
import { type BranchState, stateIn } from '../head/branch-state.ts';
import type { HeadWatch } from '../head/head-watch.ts';
import { translateEngineError } from '../native/translate-errors.ts';
import type { BranchMirror, VersionColumns } from '../store/branch-mirror.ts';
import type { ObjectStore } from '../store/object-store.ts';
import type { BranchStorage } from './branch-storage.ts';
import { StoreCommits } from './store-commits.ts';
import { versionPage } from './version-page.ts';

interface StoreBranchParts {
  readonly mirror: BranchMirror;
  readonly branch: BranchName | undefined;
  readonly inRemoval: VersionsInRemoval;
  /** The branch is gone. */
  readonly forgetBranch: (name: BranchName) => void;
}

/** A branch on an object store, which keeps what it has accepted. */
export class StoreBranch implements BranchStorage {
  readonly folder: string;
  readonly versionsFolder: string;
  readonly commits: StoreCommits;
  readonly store: ObjectStore;
  readonly prefix: string;
  readonly datasetPrefix: string;
  readonly #parts: StoreBranchParts;
  readonly #mirror: BranchMirror;

  constructor(parts: StoreBranchParts) {
    this.#parts = parts;
    this.#mirror = parts.mirror;
    this.folder = parts.mirror.folder;
    this.versionsFolder = parts.mirror.versionsFolder;
    this.commits = new StoreCommits(parts.mirror);
    this.store = parts.mirror.store;
    this.prefix = parts.mirror.prefix;
    this.datasetPrefix = parts.mirror.datasetPrefix;
  }

  async open(): Promise<HeadWatch> {
    await this.#mirror.open().catch((error: unknown) => {
      throw translateEngineError('local folder', error, '');
    });
    return new StoreWatch(this.#mirror, stateOf(this.#mirror, this.#mirror.known ?? 0));
  }

  async newestVersion(): Promise<number> {
    return (await this.#mirror.findNewest())?.version ?? 0;
  }

  take(version: number): Promise<ReturnType<typeof readManifest>> {
    return this.#mirror.take(version);
  }

  async takeWithDeletions(version: number): Promise<ReturnType<typeof readManifest>> {
    const taken = await this.take(version);
    await this.#mirror.takeDeletions(version);
    return taken;
  }

  readWhole(version: number): ReturnType<typeof readManifest> {
    return readManifest(this.versionsFolder, version);
  }

  page(page: VersionPage): Promise<readonly StoredVersion[]> {
    const read = async (version: number, key: string) => this.readWhole(version)?.bytes ?? this.store.get(key);
    return versionPage({ store: this.store, prefix: this.prefix, branch: this.#parts.branch, read }, page);
  }

  /** What the engine has not committed by now, it may commit yet; nothing here says so. */
  async mayFollow(version: number): Promise<boolean> {
    return (await this.#mirror.refresh()) > version;
  }

  async sync(): Promise<void> {}

  prune(request: PruneRequest & NamedVersions): Promise<PruneResult> {
    return pruneVersions(this.#mirror, { ...request, inRemoval: this.#parts.inRemoval });
  }

  async readIndex(): Promise<void> {}

  async branchMade(): Promise<void> {}

  async branchDeleted(name: BranchName): Promise<void> {
    this.#parts.forgetBranch(name);
  }
}

/** The state at a version whose manifest is in the mirror. */
function stateOf({ versionsFolder }: BranchMirror, version: number): BranchState {
  const file = readManifest(versionsFolder, version);
  return file === undefined ? { version, writeRefusal: undefined, hasRowIds: false } : stateIn(version, file);
}

class StoreWatch implements HeadWatch {
  readonly opensAtOnce = false;
  readonly opened: BranchState;
  readonly #mirror: BranchMirror;
  readonly #incarnation: number;

  constructor(mirror: BranchMirror, opened: BranchState) {
    this.#mirror = mirror;
    this.#incarnation = mirror.incarnation;
    this.opened = opened;
  }

  get isReplaced(): boolean {
    return this.#mirror.incarnation !== this.#incarnation;
  }

  async look(version: number, ...purpose: Parameters<BranchHead['refresh']>): Promise<BranchState | undefined> {
    const newest = await (purpose[0] === 'to write' ? this.#mirror.newestToWrite() : this.#mirror.refresh());
    return newest === version ? undefined : stateOf(this.#mirror, newest);
  }

  knows(version: number): boolean {
    return this.#mirror.known === version;
  }

  async follow(version: number): Promise<void> {
    if (!this.knows(version)) await this.#mirror.refresh();
  }

  made(version: number | undefined): void {
    if (this.#mirror.known !== version) this.#mirror.distrust();
  }

  get columns(): VersionColumns | undefined {
    return this.#mirror.columns;
  }

  keepColumns(columns: VersionColumns): void {
    this.#mirror.keepColumns(columns);
  }
}
