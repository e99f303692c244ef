/**
 * One process writes to a table. The owner of a table's name is the only one that changes what has the name: creates, publishes,
 * drops, renames, and writes to every branch. In it `TableLocks` order the writers, as they do where there is one process alone.
 *
 * Ownership finds the writer and never makes a commit safe. A process that lost a name without noticing is stopped by commits at
 * exactly the predecessor, by `confirm`, and by the check in the transaction that records (docs/design/ownership.md).
 */
import type { TableRef } from '../kernel/ids.ts';

/** The other replicas reach it at the URL `address`, `http://HOST:PORT` or `https://HOST:PORT`. */
export interface ReplicaAddress {
  readonly id: string;
  readonly address: string;
}

export type Owner = { readonly kind: 'self' } | (ReplicaAddress & { readonly kind: 'replica' });

export interface OwnerQuestion {
  /** The request was forwarded to this replica, so it claims the name where no replica owns it. */
  readonly mustClaim: boolean;
  /** The request makes no table of the name: where nothing has the name, nothing is claimed, and this process says so. */
  readonly mustExist?: boolean;
  /** The last answer led to a replica that does not own the name or cannot be reached, so the catalog is asked again. */
  readonly isRepeated?: boolean;
}

export interface FindsOwner {
  /**
   * Who may write to the table now. `self` once this process has claimed the name and undone what its last owner left, or where
   * nothing has a name that must exist. To be asked for requests that the policy allows: a claim takes a row. A replica that is named may not own the name yet: it is the one that should claim it. `SlowDown` where that cannot be known now.
   */
  ownerOf(table: TableRef, question: OwnerQuestion): Promise<Owner>;
}

/** What this process does with a name that changes hands. */
export interface OwnedWork {
  /** Undoes and finishes what the last owner of the name, or of every name, left: before anything of this process writes to it. */
  takeOver(table: TableRef | 'every table'): Promise<void>;
  /**
   * Ends the work on the name, which nothing of this process begins meanwhile. `unsettled`: its next owner has to take it over.
   * `busy`: a table of the name is being created, or work had not ended when the signal aborted, so this process has to keep the name:
   * what is committed without it cannot be recorded.
   */
  handOver(table: TableRef, signal: AbortSignal): Promise<'settled' | 'unsettled' | 'busy'>;
  /** Another process may have written to what has the name: what is known of its branches does not hold any more. */
  forget(table: TableRef): Promise<void>;
  /** Nothing of this process waits for or holds a lock of the table, or builds an index of it for a client. */
  isIdle(table: TableRef): boolean;
}

export interface TableOwners extends FindsOwner {
  /** The caller calls it once, before any other method. */
  start(work: OwnedWork): Promise<void>;
  /**
   * Requests are taken now, at this URL. Nothing is claimed before it resolves. `reachStorage` resolves when the storage has
   * answered; what a process owns that does not reach it is left to others.
   */
  join(address: string, reachStorage: () => Promise<void>): Promise<void>;
  /** Returns the living replicas but this one, as of the last second. */
  others(): readonly ReplicaAddress[];
  /**
   * Resolves when this process owns the name, which it claims where no process does; undefined where it owns it already.
   * `WriterMoved` where another replica owns it.
   */
  hold(table: TableRef): Promise<void> | undefined;
  /** Says whether this process owns the name, as far as it knows. */
  isOwn(table: TableRef): boolean;
  /**
   * The caller asks before every commit, after the version that it follows is known. Resolves if this process owned the name at
   * a time after the call, and throws `WriterMoved` if not; undefined where no other process can own it.
   */
  confirm(table: TableRef): Promise<void> | undefined;
  /**
   * Holds several names, and takes them from other replicas too: those hand them over first. This process keeps them until the
   * result is disposed of. Throws the signal's reason when it aborts first.
   */
  acquire(tables: readonly TableRef[], signal: AbortSignal): Promise<Disposable>;
  /** Hands over every name that can be, while requests are still taken: others claim them from now on. */
  leave(): Promise<void>;
  /** Hands over every name. Resolves when none is owned any more. To be called when nothing is under way. */
  close(): Promise<void>;
}

/** One process has the whole catalog, whose lock sees to it: every name is its own, from the start to the end. */
export class EmbeddedOwners implements TableOwners {
  async ownerOf(): Promise<Owner> {
    return self;
  }

  others(): readonly ReplicaAddress[] {
    return [];
  }

  start(work: OwnedWork): Promise<void> {
    return work.takeOver('every table');
  }

  async join(): Promise<void> {}

  hold(): undefined {}

  isOwn(): boolean {
    return true;
  }

  confirm(): undefined {}

  async acquire(): Promise<Disposable> {
    return new DisposableStack();
  }

  async leave(): Promise<void> {}

  async close(): Promise<void> {}
}

export const self: Owner = { kind: 'self' };
