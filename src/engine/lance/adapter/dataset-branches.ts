import type { BranchName } from '../../../kernel/ids.ts';
import { UnboundedColumns } from '../../../lance-format/manifest/stored-columns.ts';
import type { Branches, StoredBranch } from '../../port/dataset.ts';
import { type Confirm, ConfirmedRemovals } from '../durability/confirmed-removals.ts';
import { clearStoredBranch, placeStoredIndexes } from '../durability/stored-branch.ts';
import type { DatasetHead } from '../head/dataset-head.ts';
import type { NativeBranches } from '../native/native.ts';
import { engineCall } from '../native/translate-errors.ts';
import type { BranchStorage } from '../storage/branch-storage.ts';
import type { Surroundings } from './surroundings.ts';

type Hooks = Pick<Surroundings, 'onBranchDeleted' | 'requireReadable'>;

/** The engine makes and removes branches; what it leaves undone of that is done here. */
export class DatasetBranches implements Branches {
  readonly #head: DatasetHead;
  readonly #storage: BranchStorage | undefined;
  readonly #hooks: Hooks;

  constructor(head: DatasetHead, storage: BranchStorage | undefined, hooks: Hooks) {
    this.#head = head;
    this.#storage = storage;
    this.#hooks = hooks;
  }

  create(...[name, from, confirm]: Parameters<Branches['create']>): Promise<void> {
    return engineCall('new branch', async () => {
      this.#head.requireWritable();
      await this.#hooks.requireReadable?.(from.branch, from.version);
      if (this.#storage !== undefined) await clearStoredBranch(this.#storage, name, confirm);
      const branches = await this.#native();
      const table = await branches.create(name, from.branch ?? null, from.version ?? null);
      const version = await table.version().finally(() => table.close());
      if (this.#storage === undefined) return;
      const made = { name, parent: from.branch, version };
      try {
        await placeStoredIndexes(this.#storage, made, confirm);
      } catch (error) {
        await this.delete(name, confirm);
        throw error;
      }
      await this.#storage.branchMade(made);
    });
  }

  list(): Promise<readonly StoredBranch[]> {
    return engineCall('branch', async () => {
      const branches = await this.#native();
      const listed = Object.entries(await branches.list()).map(
        async ([name, { parentBranch, parentVersion, manifestSize }]) => ({
          name: name as BranchName,
          parentBranch: (parentBranch ?? undefined) as BranchName | undefined,
          parentVersion,
          createdAtSeconds: await this.#createdAtSeconds(branches, name as BranchName),
          manifestBytes: manifestSize,
        }),
      );
      return Promise.all(listed);
    });
  }

  delete(name: BranchName, confirm?: Confirm): Promise<void> {
    return engineCall('branch', async () => {
      const branches = await this.#native();
      await new ConfirmedRemovals(confirm).next();
      await branches.delete(name);
      this.#hooks.onBranchDeleted?.(name);
      await this.#storage?.branchDeleted(name);
    });
  }

  async #native(): Promise<NativeBranches> {
    return (await this.#head.table()).branches();
  }

  /**
   * The engine's listing has no times; a branch begins with a version of its own, which has one (in microseconds). 0 for a branch of
   * another program that native code must not read.
   */
  async #createdAtSeconds(branches: NativeBranches, name: BranchName): Promise<number> {
    try {
      await this.#hooks.requireReadable?.(name);
    } catch (error) {
      if (error instanceof UnboundedColumns) return 0;
      throw error;
    }
    const table = await branches.checkout(name);
    try {
      const versions = await table.listVersions();
      return Math.floor(Math.min(...versions.map(({ timestamp }) => timestamp)) / 1_000_000);
    } finally {
      table.close();
    }
  }
}
