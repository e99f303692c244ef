import type { OpenBranchCatalog } from '../catalog/port.ts';
import type { BranchHead, Snapshot } from '../engine/port/dataset.ts';
import type { BranchRecovery } from '../engine/port/engine.ts';
import type { BranchName, TableId } from '../kernel/ids.ts';

interface Opened {
  readonly tableId: TableId;
  readonly branch: BranchName | undefined;
  /** This version and all before it are durable. */
  readonly durableVersion: number;
}

/**
 * Keeps the recovery marks: the catalog's list of branches that this process may be writing to, which recovery reads at the next
 * start. A branch is entered before its first commit, and removed when this process stops in order. In between it costs nothing.
 */
export class RecoveryMarks {
  readonly #catalog: OpenBranchCatalog;
  readonly #engine: BranchRecovery;
  readonly #opened = new Map<string, Opened>();

  constructor(parts: { catalog: OpenBranchCatalog; engine: BranchRecovery }) {
    this.#catalog = parts.catalog;
    this.#engine = parts.engine;
  }

  /**
   * To be called under the branch's lock with the dataset at its newest version, before every commit. That version counts as
   * acknowledged, whichever program wrote it, so it is made durable first.
   */
  async beforeCommit(tableId: TableId, branch: BranchName | undefined, dataset: Snapshot & BranchHead): Promise<void> {
    const key = keyOf(tableId, branch);
    if (this.#opened.has(key)) return;
    await dataset.sync();
    const acknowledgedVersion = await dataset.version();
    const { storageSession } = this.#engine;
    await this.#catalog.markOpenForWriting({ tableId, branch, acknowledgedVersion, storageSession });
    this.#opened.set(key, { tableId, branch, durableVersion: acknowledgedVersion });
  }

  /**
   * Makes the dataset's version durable, and the one that recovery goes back to: for commits without a recorded transaction, such
   * as those of maintenance. To be called before older versions are pruned.
   */
  async acknowledge(tableId: TableId, branch: BranchName | undefined, dataset: Snapshot & BranchHead): Promise<void> {
    await this.afterCommit(tableId, branch, dataset);
    await this.#catalog.acknowledgeVersion(tableId, branch, await dataset.version());
  }

  /** Under the table's exclusive lock, when the branch is gone: one of the same name has versions of its own. */
  async close(tableId: TableId, branch: BranchName | undefined): Promise<void> {
    await this.#catalog.closeBranch(tableId, branch);
    this.#opened.delete(keyOf(tableId, branch));
  }

  /**
   * To be called after every commit, before it is acknowledged: resolves once it is durable (P3), with all versions before it.
   * Those that another dataset instance has committed are among them: a maintenance job releases the lock before it has synced its
   * own, and recovery does not look at versions before the acknowledged one. If it fails, what was written may be lost although it
   * can be read, so the branch stays on the list for the next start.
   */
  async afterCommit(tableId: TableId, branch: BranchName | undefined, dataset: Snapshot & BranchHead): Promise<void> {
    const key = keyOf(tableId, branch);
    const version = await dataset.version();
    try {
      await dataset.sync(this.#opened.get(key)?.durableVersion);
    } catch (error) {
      this.#opened.delete(key);
      throw error;
    }
    const opened = this.#opened.get(key);
    if (opened === undefined || opened.durableVersion >= version) return;
    this.#opened.set(key, { ...opened, durableVersion: version });
  }

  /** Once no commit is under way or will follow. */
  async closeAll(): Promise<void> {
    for (const { tableId, branch } of this.#opened.values()) await this.close(tableId, branch);
  }
}

const keyOf = (tableId: TableId, branch: BranchName | undefined): string => JSON.stringify([tableId, branch ?? '']);
