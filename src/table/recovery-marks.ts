import type { AcknowledgedBranch, OpenBranchCatalog, TableRecord } from '../catalog/port.ts';
import type { BranchHead, Snapshot } from '../engine/port/dataset.ts';
import type { BranchRecovery } from '../engine/port/engine.ts';
import { LancegateError } from '../kernel/errors.ts';
import { type BranchName, showTable, type TableId, type TableRef } from '../kernel/ids.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { OpenDatasets } from './open-datasets.ts';
import type { TableAccess } from './table-access.ts';
import type { TableLocks } from './table-locks.ts';
import { EmbeddedOwners, type TableOwners } from './table-owners.ts';

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
  readonly #owners: Pick<TableOwners, 'confirm'>;
  readonly #opened = new Map<string, Opened>();
  readonly #behind: Pick<BranchesBehind, 'requireNot' | 'forget'> | undefined;

  constructor(parts: {
    catalog: OpenBranchCatalog;
    engine: BranchRecovery;
    owners?: Pick<TableOwners, 'confirm'>;
    behind?: Pick<BranchesBehind, 'requireNot' | 'forget'>;
  }) {
    this.#behind = parts.behind;
    this.#catalog = parts.catalog;
    this.#engine = parts.engine;
    this.#owners = parts.owners ?? new EmbeddedOwners();
  }

  /**
   * To be called under the branch's lock with the dataset at its newest version, before every commit, after the caller has read
   * which version that is: this process owned the table since then. That version counts as acknowledged, whichever program wrote it,
   * so it is made durable first. `WriterMoved`; `InvalidTableState` for a branch that has gone back.
   */
  async beforeCommit(
    table: Pick<TableRecord, 'id' | 'ref'>,
    branch: BranchName | undefined,
    dataset: Snapshot & BranchHead,
  ): Promise<void> {
    await this.requireNotBehind(table, branch, dataset);
    if (!this.#opened.has(keyOf(table.id, branch))) await this.#mark(table.id, branch, dataset);
    await this.#owners.confirm(table.ref);
  }

  async #mark(tableId: TableId, branch: BranchName | undefined, dataset: Snapshot & BranchHead): Promise<void> {
    const key = keyOf(tableId, branch);
    await dataset.sync();
    const acknowledgedVersion = await dataset.version();
    const { storageSession } = this.#engine;
    await this.#catalog.markOpenForWriting({ tableId, branch, acknowledgedVersion, storageSession });
    this.#opened.set(key, { tableId, branch, durableVersion: acknowledgedVersion });
  }

  /** Checks what `beforeCommit` does, before versions are removed: the operator may need those of a branch that has gone back. */
  async requireNotBehind(
    { id, ref }: Pick<TableRecord, 'id' | 'ref'>,
    branch: BranchName | undefined,
    dataset: Snapshot & BranchHead,
  ): Promise<void> {
    await this.#behind?.requireNot({ tableId: id, ref, branch }, this.#opened.get(keyOf(id, branch)), dataset);
  }

  /** The caller is about to make a change that is no commit: it is not stopped by what the next owner commits. `WriterMoved`. */
  async confirm(table: TableRef): Promise<void> {
    await this.#owners.confirm(table);
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

  /**
   * Makes the dataset's version durable, and the one that recovery goes back to: for commits without a recorded transaction, such
   * as those of maintenance. To be called before older versions are pruned.
   */
  async acknowledge(tableId: TableId, branch: BranchName | undefined, dataset: Snapshot & BranchHead): Promise<void> {
    await this.afterCommit(tableId, branch, dataset);
    await this.#catalog.acknowledgeVersion(tableId, branch, await dataset.version());
  }

  /**
   * The caller does not know whether a commit was made. It may be on its way yet, and the next owner, or the next start, has to
   * fence it off (P6). So the branch stays on the list, unless this process looks first: then it enters it anew.
   */
  doubt(tableId: TableId, branch: BranchName | undefined): void {
    this.#opened.delete(keyOf(tableId, branch));
  }

  /** The caller holds the table's exclusive lock, and the branch is gone. */
  async remove(tableId: TableId, branch: BranchName): Promise<void> {
    await this.#catalog.closeBranch(tableId, branch, true);
    this.#behind?.forget(tableId); // other branches are found again by the next write to them
    this.#opened.delete(keyOf(tableId, branch));
  }

  /** Another process may have written to the table since, or it is gone. */
  forget(id: TableId): void {
    this.#behind?.forget(id);
    for (const [key, { tableId }] of this.#opened) if (tableId === id) this.#opened.delete(key);
  }

  /**
   * Does what `closeAll` does for one table. False where a branch stays on the list: its last commit may not be durable, or not
   * known.
   */
  async closeTable({ id, ref }: Pick<TableRecord, 'id' | 'ref'>): Promise<boolean> {
    for (const opened of this.#opened.values()) if (opened.tableId === id) await this.#close(opened);
    return (await this.#catalog.recoveryMarks(ref)).length === 0;
  }

  /** The caller knows that no commit is under way or will follow. */
  async closeAll(): Promise<void> {
    for (const opened of this.#opened.values()) await this.#close(opened);
  }

  async #close({ tableId, branch }: Opened): Promise<void> {
    await this.#catalog.closeBranch(tableId, branch);
    this.#opened.delete(keyOf(tableId, branch));
  }
}

const keyOf = (tableId: TableId, branch: BranchName | undefined): string => JSON.stringify([tableId, branch ?? '']);

interface MarkingDeps {
  readonly access: TableAccess;
  readonly datasets: OpenDatasets;
  readonly locks: TableLocks;
  readonly recoveryMarks: RecoveryMarks;
}

/**
 * The caller is about to stage files of a branch for a commit that comes later: what a crash leaves in staging is looked for in
 * the branches that are open for writing. Holds the branch's lock for milliseconds.
 */
export async function markBranch(
  { access, datasets, locks, recoveryMarks }: MarkingDeps,
  table: TableRecord,
  branch: BranchName | undefined,
  signal: AbortSignal,
): Promise<void> {
  const leave = await locks.lockShared(table.ref, signal);
  try {
    const unlock = await locks.lockBranch(table.ref, branch, signal);
    try {
      const record = await access.requireUnchanged(table);
      await recoveryMarks.beforeCommit(record, branch, await datasets.latest(record.location, branch));
    } finally {
      unlock();
    }
  } finally {
    leave();
  }
}

type KnownBranch = Pick<AcknowledgedBranch, 'tableId' | 'ref' | 'branch'>;

interface Parts {
  readonly catalog: Pick<OpenBranchCatalog, 'acknowledgedBranches'>;
  readonly engine: Pick<BranchRecovery, 'newestVersion'>;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'watchBranchesBehind'>;
}

/**
 * Knows the branches whose newest version on storage is older than one that was acknowledged: their files were put back from an
 * older backup than the catalog, or a manifest vanished. What came after is lost, and its numbers would be given out again, so
 * nothing is written to such a branch until an operator brings the files back, or registers the table anew.
 */
export class BranchesBehind {
  readonly #parts: Parts;
  readonly #known = new Map<string, KnownBranch>();

  constructor(parts: Parts) {
    this.#parts = parts;
    parts.metrics.watchBranchesBehind(() => this.#known.size);
  }

  get count(): number {
    return this.#known.size;
  }

  /** The caller is about to commit. `opened` is what this process has made durable; without it the catalog is asked. */
  async requireNot(
    of: KnownBranch,
    opened: { readonly durableVersion: number } | undefined,
    dataset: Snapshot & BranchHead,
  ): Promise<void> {
    const version = await dataset.version();
    if (this.#known.size === 0 && opened !== undefined && version >= opened.durableVersion) return;
    const [inCatalog] = await this.#parts.catalog.acknowledgedBranches(of);
    const acknowledged = Math.max(inCatalog?.acknowledgedVersion ?? 0, opened?.durableVersion ?? 0);
    if (version < acknowledged) await dataset.refresh('to read');
    const newest = await dataset.version();
    if (newest >= acknowledged) {
      this.#known.delete(keyOf(of.tableId, of.branch));
      return;
    }
    this.#note(of, newest, acknowledged);
    throw new LancegateError(
      'InvalidTableState',
      `the newest version on storage is ${newest}, and version ${acknowledged} was acknowledged: the files are older than the catalog, or a version vanished; nothing was written. Bring the files back, or register the table's location again with mode overwrite to go on from what is there`,
    );
  }

  /** Says at the start which are, before anybody writes to them. Branches that cannot be looked at are passed over. */
  async lookAtAll(): Promise<void> {
    const { catalog, engine } = this.#parts;
    for (const branch of await catalog.acknowledgedBranches()) {
      const newest = await engine.newestVersion(branch).catch(() => undefined);
      const { acknowledgedVersion: acknowledged } = branch;
      if (newest !== undefined && newest < acknowledged) this.#note(branch, newest, acknowledged);
    }
  }

  /** The table is gone from this process, or replaced. */
  forget(id: TableId): void {
    for (const [key, { tableId }] of this.#known) if (tableId === id) this.#known.delete(key);
  }

  #note(of: KnownBranch, newestVersion: number, acknowledgedVersion: number): void {
    if (this.#known.has(keyOf(of.tableId, of.branch))) return;
    this.#known.set(keyOf(of.tableId, of.branch), of);
    const fields = { table: showTable(of.ref), branch: of.branch ?? 'main', newestVersion, acknowledgedVersion };
    this.#parts.logger.error(
      fields,
      'a table went back to an older version than was acknowledged; nothing is written to it',
    );
  }
}
