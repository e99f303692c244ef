/** Several replicas share, besides the catalog, which of them live, and which writes to a table (docs/design/ownership.md). */
import type { TableRef } from '../kernel/ids.ts';
import type { Catalog } from './port.ts';

export interface Replica {
  readonly id: string;
  /** The URL at which the other replicas reach it. */
  readonly address: string;
  /** It hands over what it owns, and is to be given nothing. */
  readonly isLeaving: boolean;
}

/** How long a replica owns what it owns, from now on by the clock of the database. */
export interface Lease {
  readonly replica: string;
  readonly address: string;
  readonly isLeaving: boolean;
  readonly durationMs: number;
}

/** The replica lives. */
export type NameOwner = Pick<Replica, 'id' | 'address'>;

export interface OwnedName {
  readonly ref: TableRef;
  /** Each claim of the name raises it. */
  readonly epoch: number;
}

export interface Claim {
  readonly epoch: number;
  /** The last owner has left nothing to undo. */
  readonly isSettled: boolean;
}

/** A replica believes to own these. */
export interface OwnedNames {
  readonly replica: string;
  epochOf(ref: TableRef): number | undefined;
}

/** It knows which replica lives until when. A replica that has not renewed its lease in time is gone. */
export interface ReplicaCatalog {
  renewLease(lease: Lease): Promise<void>;
  endLease(replica: string): Promise<void>;
  /** Replicas are ordered by id. */
  liveReplicas(): Promise<readonly Replica[]>;
  forgetEndedReplicas(): Promise<void>;
}

/** It knows which replica writes to a table. Only the clock of the database decides whether a lease has expired. */
export interface OwnerCatalog {
  /** undefined where no living replica owns the name, or one that leaves was given it and has not claimed it. */
  findOwner(ref: TableRef): Promise<NameOwner | undefined>;
  /** Says whether a table or a create has the name. */
  isTaken(ref: TableRef): Promise<boolean>;
  /** Returns the claim, or the living replica that owns the name already. Also succeeds where the replica owns the name itself. */
  claimName(ref: TableRef, replica: string): Promise<Claim | NameOwner>;
  /** Says whether the replica owns the name in this epoch, by a lease that has not expired. */
  isOwner(name: OwnedName, replica: string): Promise<boolean>;
  /**
   * `isSettled`: its next owner finds nothing to undo. `successor` is the replica that owns the name then, where it is settled; without it,
   * the one that last asked for the name. The new owner is not told: it finds out when it is asked for the name, or when another replica
   * wants it. Nothing happens where the replica has lost the name.
   */
  releaseName(name: OwnedName, replica: string, isSettled: boolean, successor?: string): Promise<void>;
  /** Asks the other replicas that own some of these names to hand them over. */
  wantNames(refs: readonly TableRef[], replica: string): Promise<void>;
  /** Returns how many names each replica owns that owns any. */
  countNames(): Promise<ReadonlyMap<string, number>>;
  /** `wanted`: by another replica. `unused`: nothing has the name. */
  namesOf(replica: string, which: 'all' | 'wanted' | 'unused'): Promise<readonly OwnedName[]>;
  /** Forgets names that nothing has and nobody owns, but for those of which there may be something to undo. */
  forgetUnusedNames(): Promise<void>;
  /** Returns names that no living replica owns, and whose last owner may have left something to undo. */
  unsettledNames(limit: number): Promise<readonly TableRef[]>;
}

export interface RootMove {
  readonly from: string;
  readonly to: string;
  /** The replica that asks. It does not count as another one. */
  readonly replica: string;
}

/** It knows where the tables of all replicas are: a path or a URI. */
export interface StorageRootCatalog {
  /** Returns the root that the catalog has; `first` where it had none. */
  agreeOnRoot(first: string): Promise<string>;
  /** Returns the other living replicas. Where there are any, or the root is not `from` any more, nothing happens. */
  moveRoot(move: RootMove): Promise<readonly Replica[]>;
}

/**
 * Several replicas share this catalog. Whatever changes what has a name, or acknowledges it, is `WriterMoved` unless this replica owns
 * the name, in the same transaction.
 */
export type SharedCatalog = Catalog & ReplicaCatalog & OwnerCatalog & StorageRootCatalog;
