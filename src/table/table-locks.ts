import type { BranchName, TableRef } from '../kernel/ids.ts';
import { ReadWriteLock, type Release } from '../kernel/read-write-lock.ts';
import { firstOf } from '../kernel/request-scope.ts';
import { EmbeddedOwners, type TableOwners } from './table-owners.ts';

/** What refusals call the members of the queue of a lock or of a branch. */
export const writersOfTable = 'writers of this table';

interface LocksOfTable {
  /** Writers of branches share it. What changes the table as a whole (drop, publish, branches) holds it exclusively. */
  readonly table: ReadWriteLock;
  readonly branches: Map<string, ReadWriteLock>;
  readonly tags: ReadWriteLock;
}

/**
 * Every write of a table acquires these locks (P2, P5): the writers of one branch follow one another, writers of different
 * branches do not wait for each other, and what replaces or removes the table waits for all of them and keeps new ones out.
 *
 * A lock belongs to the table's name, not to its files: a merge that waited while the table was replaced finds the new one.
 * It orders the writers of this process only, which therefore has to own the name: it claims one that no process owns, before it waits
 * for the lock, and looks again when it has it. An embedded data folder has one process; the catalog's lock sees to it.
 */
export class TableLocks {
  readonly #locks = new Map<string, LocksOfTable>();
  readonly #maxWaitingPerTable: number;
  readonly #owners: Pick<TableOwners, 'hold' | 'isOwn'>;

  constructor(maxWaitingPerTable: number, owners: Pick<TableOwners, 'hold' | 'isOwn'> = new EmbeddedOwners()) {
    this.#maxWaitingPerTable = maxWaitingPerTable;
    this.#owners = owners;
  }

  /**
   * Acquires the lock of a writer that goes on to lock its branch. `SlowDown` when too many wait already; `WriterMoved` where
   * another replica owns the name; the signal's reason when it aborts first.
   */
  lockShared(table: TableRef, signal: AbortSignal): Promise<Release> {
    return this.#lockOwn(table, 'shared', signal);
  }

  /** Does what `lockShared` does; it waits for every writer of the table, and later writers wait for it. */
  lockExclusive(table: TableRef, signal: AbortSignal): Promise<Release> {
    return this.#lockOwn(table, 'exclusive', signal);
  }

  /** Does what `lockExclusive` does for a name that its owner is about to hand over. */
  lockLast(table: TableRef, signal: AbortSignal): Promise<Release> {
    return this.#lockTable(table, 'exclusive', signal);
  }

  isOwn(table: TableRef): boolean {
    return this.#owners.isOwn(table);
  }

  /** Says whether nothing holds or waits for a lock of the table. */
  isIdle(table: TableRef): boolean {
    return !this.#locks.has(keyOf(table));
  }

  /** Locks a branch for a holder of the table's shared lock. */
  async lockBranch(table: TableRef, branch: BranchName | undefined, signal: AbortSignal): Promise<Release> {
    const { branches } = this.#locksOf(keyOf(table));
    const name = branch ?? '';
    const lock = branches.get(name) ?? new ReadWriteLock(this.#maxWaitingPerTable, writersOfTable);
    branches.set(name, lock);
    const release = await lock.acquire('exclusive', signal);
    return () => {
      release();
      if (lock.isIdle && branches.get(name) === lock) branches.delete(name);
    };
  }

  /** Says whether somebody waits for the lock of the branch, which the caller holds. */
  isBranchWanted(table: TableRef, branch: BranchName | undefined): boolean {
    return this.#locksOf(keyOf(table)).branches.get(branch ?? '')?.isWaitedFor === true;
  }

  /**
   * Acquires the lock of what changes tags or removes versions, for a holder of the table's shared lock: a version that a tag
   * names is there. Its holder may lock a branch, and not the other way round.
   */
  lockTags(table: TableRef, signal: AbortSignal): Promise<Release> {
    return this.#locksOf(keyOf(table)).tags.acquire('exclusive', signal);
  }

  /** Runs `work` while no branch comes or goes, no tag changes, and no version is removed. */
  async whileTagsStand<Result>(table: TableRef, signal: AbortSignal, work: () => Promise<Result>): Promise<Result> {
    const leave = await this.lockShared(table, signal);
    try {
      const release = await this.lockTags(table, signal);
      try {
        return await work();
      } finally {
        release();
      }
    } finally {
      leave();
    }
  }

  /** How many wait for the exclusive lock of a table, over all tables. */
  get waitingExclusive(): number {
    return [...this.#locks.values()].reduce((sum, { table }) => sum + table.waitingExclusive, 0);
  }

  async #lockOwn(table: TableRef, mode: 'shared' | 'exclusive', signal: AbortSignal): Promise<Release> {
    for (;;) {
      signal.throwIfAborted();
      const holding = this.#owners.hold(table);
      if (holding !== undefined) await firstOf(holding, signal); // its handover may wait for whom this signal ends
      const release = await this.#lockTable(table, mode, signal);
      if (this.#owners.isOwn(table)) return release;
      release();
    }
  }

  async #lockTable(table: TableRef, mode: 'shared' | 'exclusive', signal: AbortSignal): Promise<Release> {
    const key = keyOf(table);
    const locks = this.#locksOf(key);
    const release = await locks.table.acquire(mode, signal);
    return () => {
      release();
      // Locks are made on demand and forgotten when they are idle, so their number is that of busy tables (P7).
      if (locks.table.isIdle && this.#locks.get(key) === locks) this.#locks.delete(key);
    };
  }

  #locksOf(key: string): LocksOfTable {
    const known = this.#locks.get(key);
    if (known !== undefined) return known;
    const locks = {
      table: new ReadWriteLock(this.#maxWaitingPerTable, writersOfTable),
      branches: new Map<string, ReadWriteLock>(),
      tags: new ReadWriteLock(this.#maxWaitingPerTable, writersOfTable),
    };
    this.#locks.set(key, locks);
    return locks;
  }
}

const keyOf = (table: TableRef): string => JSON.stringify([...table.namespace, table.name]);
