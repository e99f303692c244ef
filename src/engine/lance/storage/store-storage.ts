import type { BranchName, Location } from '../../../kernel/ids.ts';
import type { ClonedVersion, RecoverRequest, Recovery } from '../../port/engine.ts';
import type { Fresh } from '../commit/version-commit.ts';
import { type Confirm, ConfirmedRemovals } from '../durability/confirmed-removals.ts';
import { recoverMirrored } from '../durability/recover-branch.ts';
import type { VersionsInRemoval } from '../durability/versions-in-removal.ts';
import type { BranchMirrors } from '../store/branch-mirrors.ts';
import type { BranchStorage, TableStorage } from './branch-storage.ts';
import { cloneVersion } from './clone-version.ts';
import { StoreBranch } from './store-branch.ts';

interface StoreStorageParts {
  readonly mirrors: BranchMirrors;
  readonly inRemoval: VersionsInRemoval;
  readonly fresh: Fresh;
}

/** All branches below a prefix of an object store. What that has accepted is durable, and its commits are atomic. */
export class StoreStorage implements TableStorage {
  readonly session = 'object store';
  readonly #parts: StoreStorageParts;
  readonly #mirrors: BranchMirrors;

  constructor(parts: StoreStorageParts) {
    this.#parts = parts;
    this.#mirrors = parts.mirrors;
  }

  branch(location: Location, branch: BranchName | undefined): BranchStorage {
    return new StoreBranch({
      mirror: this.#mirrors.of(location, branch),
      branch,
      inRemoval: this.#parts.inRemoval,
      forgetBranch: (gone) => this.#mirrors.forgetBranch(location, gone),
    });
  }

  requireUsable(): Promise<void> {
    return this.#mirrors.requireOneWinner();
  }

  reach(): Promise<void> {
    return this.#mirrors.requireAnswer();
  }

  /** Nothing says how much it can still take. */
  async space(): Promise<undefined> {}

  async isVacant(location: Location): Promise<boolean> {
    const { store, datasetPrefix } = this.#mirrors.of(location, undefined);
    for await (const _ of store.list({ prefix: datasetPrefix, most: 1 })) return false;
    return true;
  }

  async remove(location: Location, confirm: Confirm): Promise<void> {
    const { store, datasetPrefix } = this.#mirrors.of(location, undefined);
    await this.#mirrors.forget(location);
    const keys = await Array.fromAsync(store.list({ prefix: datasetPrefix }), ({ key }) => key);
    await new ConfirmedRemovals(confirm).next();
    await store.delete(keys);
  }

  /** A store cannot move what lies under a prefix. */
  async setAside(location: Location): Promise<Location> {
    await this.#mirrors.forget(location);
    return location;
  }

  async bringBack(): Promise<void> {}

  async clone({ location, branch, version }: ClonedVersion, to: Location): Promise<void> {
    const [source, target] = [this.branch(location, branch), this.branch(to, undefined)];
    const keyOf = (uri: string) => this.#mirrors.keyOf(uri);
    await cloneVersion({ from: source, version, to: target, keyOf, nowMs: this.#parts.fresh.nowMs() });
  }

  /** A commit of the process before may still be on its way: the number that it would take is taken. */
  recover({ location, branch, acknowledgedVersion }: RecoverRequest): Promise<Recovery> {
    return recoverMirrored(this.#mirrors.of(location, branch), branch, acknowledgedVersion);
  }

  close(): void {
    this.#mirrors.close();
  }
}
