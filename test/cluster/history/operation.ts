/**
 * What clients of one table did and were told. A register is one key of theirs, of which the table holds two rows with the same
 * value, so that a write that is there by half shows. Times are of one monotonic clock.
 */

/** The value of a register that the table does not hold is undefined. No value is ever written by two operations. */
export type Value = string | undefined;

/** What a write asks for; `keys` are registers. */
export type Change =
  | { readonly kind: 'upsert' | 'insert'; readonly keys: readonly number[]; readonly value: string }
  /** Of those registers alone that hold what is expected. */
  | { readonly kind: 'replace'; readonly keys: readonly number[]; readonly expected: string; readonly value: string }
  | { readonly kind: 'delete'; readonly keys: readonly number[] }
  /** One row without a key, which nothing changes later. */
  | { readonly kind: 'append'; readonly value: string };

export type Outcome =
  /** `count` is of the rows that it inserted where it is an insert or upsert, else of those that it updated or deleted. */
  | { readonly kind: 'done'; readonly version: number; readonly count: number }
  | { readonly kind: 'nothing written' }
  /** No answer, or one that says so: it may take effect at any time after it began, or never. */
  | { readonly kind: 'unknown' };

interface Timed {
  /** For whoever reads about a violation. */
  readonly client: string;
  readonly beganMs: number;
  readonly endedMs: number;
}

export interface Write extends Timed {
  readonly change: Change;
  readonly outcome: Outcome;
}

interface StoredRow {
  readonly register: number;
  readonly half: 0 | 1;
  readonly value: string;
}

/** Only reads that were answered are part of a history. */
export interface Read extends Timed {
  /** The registers that it asked for. */
  readonly keys: readonly number[];
  readonly rows: readonly StoredRow[];
}

export interface History {
  readonly writes: readonly Write[];
  readonly reads: readonly Read[];
  /** The values of all rows without a key, each time that they were read when every client was through. */
  readonly appended: readonly (readonly string[])[];
}
