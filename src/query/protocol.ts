/** The messages between the service and a reader process, one order at a time; `frames.ts` has their form. */
import type { MergeCounts, MergeSpec } from '../engine/port/merge-spec.ts';
import type { CheckedSql } from '../kernel/checked-sql.ts';
import { type ErrorName, errorCatalogue, LancegateError } from '../kernel/errors.ts';
import type { BranchName, Location, Properties } from '../kernel/ids.ts';

/** The first message: how the reader reaches the tables. */
export interface ReaderSetup {
  readonly root: string;
  /** May hold credentials, so they are sent here and not in an argument or environment variable. */
  readonly rootOptions: Properties;
  readonly scratchFolder: string;
  readonly indexCacheBytes: number;
  readonly metadataCacheBytes: number;
  /** Resident memory beyond which the reader kills itself, unless the order may have more. */
  readonly memoryBytes: number;
}

/** Which dataset, and what the service knows of it. */
export interface ReadAt {
  /** Under the storage root, or in the folder for intermediate results. */
  readonly store: 'root' | 'scratch';
  readonly location: Location;
  readonly branch?: BranchName | undefined;
  /** The reader reads this version or a newer one (P11); where `isExact`, this one. */
  readonly version: number;
  readonly isExact: boolean;
  /** A reader reuses an open dataset for the same lineage only (`Dataset.lineage`). */
  readonly lineage: string;
}

export type Work =
  | { readonly kind: 'count'; readonly predicate: CheckedSql }
  /** The rows are the bytes of the message. */
  | { readonly kind: 'merge'; readonly spec: MergeSpec; readonly timeoutMs: number | undefined };

export interface Order {
  readonly at: ReadAt;
  readonly work: Work;
  /** Resident memory that it may have beyond the reader's own. */
  readonly extraBytes: number;
}

export type ReaderOutcome =
  | { readonly kind: 'counted'; readonly rows: number }
  | { readonly kind: 'merged'; readonly counts: MergeCounts }
  | { readonly kind: 'refused'; readonly refusal: PlainError };

/** An outcome that is no refusal. */
export type Answered = Exclude<ReaderOutcome, { readonly kind: 'refused' }>;

export type Reply =
  | { readonly kind: 'ready' }
  /** `isSpent`: the reader holds so much memory that the next order might have too little. */
  | { readonly kind: 'done'; readonly outcome: ReaderOutcome; readonly isSpent: boolean }
  /** The last message of a reader that kills itself. */
  | { readonly kind: 'beyond memory'; readonly residentBytes: number };

/** A `LancegateError` as data. */
export interface PlainError {
  readonly kind: ErrorName;
  readonly message: string;
  readonly internal?: Readonly<Record<string, unknown>> | undefined;
  readonly retryAfterSeconds?: number | undefined;
  /** For the log. */
  readonly cause?: string | undefined;
}

export function plainError(error: unknown): PlainError {
  const known =
    error instanceof LancegateError ? error : new LancegateError('Internal', 'a reader failed', { cause: error });
  const { kind, message, internal, retryAfterSeconds, cause } = known;
  const text = cause instanceof Error ? (cause.stack ?? cause.message) : cause;
  return {
    kind,
    message,
    internal,
    retryAfterSeconds,
    cause: text === undefined ? undefined : String(text).slice(0, 4_000),
  };
}

export function errorOf({ kind, message, internal, retryAfterSeconds, cause }: PlainError): LancegateError {
  const known: ErrorName = Object.hasOwn(errorCatalogue, kind) ? kind : 'Internal';
  return new LancegateError(known, message, {
    ...(cause === undefined ? {} : { cause: new Error(cause) }),
    ...(internal === undefined ? {} : { internal }),
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
  });
}
