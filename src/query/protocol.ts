/**
 * What operations ask of readers (`Queries`), and what the service and a reader process say to each other (P12): one order at a time,
 * which may be a query, a step of a write, or work on an index or a compaction.
 */
import type { ChangeStep } from '../engine/port/change.ts';
import type { RowsBetween } from '../engine/port/dataset.ts';
import type { IndexSpec } from '../engine/port/index-spec.ts';
import type { MergeCounts } from '../engine/port/merge-spec.ts';
import type { PlanForm, QuerySpec } from '../engine/port/query-spec.ts';
import type { CompactionResult, CompactionSpec, RowsToRead, ToTry } from '../engine/port/reader-work.ts';
import type { CheckedSql } from '../kernel/checked-sql.ts';
import { type ErrorName, errorCatalogue, LancegateError } from '../kernel/errors.ts';
import type { BranchName, Location, Properties } from '../kernel/ids.ts';
import type { RequestScope } from '../kernel/request-scope.ts';
import type { AnswerForm } from '../rows/answer-form.ts';
import type { ResultPart } from './message-frames.ts';
import type { ChangesSpec } from './row-changes.ts';

export interface Queries {
  /**
   * Answers, or rejects with the reason of the scope's signal, as soon as that aborts. `ReaderDied`; `SlowDown`; and what
   * `Engine.open` and `Dataset.countRows` throw.
   */
  count(at: ReadAt, predicate: CheckedSql, scope: RequestScope): Promise<number>;
  /**
   * Resolves once the first bytes of the result are there, or all of them. Rejects as `count`, and with what `RowQueries.query`
   * throws; so does the reading of `parts`, which ends in the middle then.
   */
  query(at: ReadAt, spec: QuerySpec, form: AnswerForm, scope: RequestScope): Promise<QueryResult>;
  /** As `query`: the rows that differ between two versions of a branch, and what was done to each. `ChangesGone`. */
  changes(asked: AskedChanges, form: AnswerForm, scope: RequestScope): Promise<QueryResult>;
  /** Rejects as `count`, and with what `RowQueries.explain` throws. */
  explain(at: ReadAt, spec: QuerySpec, form: PlanForm, scope: RequestScope): Promise<string>;
}

export interface AskedChanges extends Pick<ChangesSpec, 'after' | 'columns' | 'on'> {
  readonly location: Location;
  readonly branch: BranchName | undefined;
  readonly until: number;
  readonly rows: RowsBetween;
}

/** The rows have the form that was asked for. */
export interface QueryResult {
  /**
   * Each is computed when it is asked for, or a little before; its bytes are gone once the next one is asked for. To be read to the
   * end or left, which ends the query.
   */
  readonly parts: AsyncIterable<Uint8Array>;
  /** It has all of the bytes, if they are few and there already; then `parts` need not be read. */
  readonly whole: Uint8Array | undefined;
  /** Undefined until the last byte has been read. */
  facts(): QueryFacts | undefined;
}

export interface QueryFacts {
  /** The version that was read. */
  readonly version: number;
  readonly rows: number;
}

/** The first message says how the reader reaches the tables. */
export interface ReaderSetup {
  readonly root: string;
  /** May hold credentials, so they are sent here and not in an argument or environment variable. */
  readonly rootOptions: Properties;
  readonly scratchFolder: string;
  readonly indexCacheBytes: number;
  readonly metadataCacheBytes: number;
  /** The resident memory beyond which the reader kills itself, unless the order may have more. */
  readonly memoryBytes: number;
  /** Its engine threads are scheduled so far behind the service (`setpriority(2)`). */
  readonly niceness: number;
}

/** It names a dataset, and has what the service knows of it. */
export interface ReadAt {
  /** The location is under the storage root, in a shadow there, or in the folder for intermediate results. */
  readonly store: 'root' | 'shadow' | 'scratch';
  readonly location: Location;
  readonly branch?: BranchName | undefined;
  readonly version: number;
  /**
   * The reader reads the version or a newer one (P11), from a dataset that it keeps open for the next order of this lineage
   * (`Dataset.lineage`). Where it is undefined, it reads that version alone.
   */
  readonly lineage?: string | undefined;
}

export type Work =
  | { readonly kind: 'count'; readonly predicate: CheckedSql }
  /** The file of the step is the bytes of the message. */
  | { readonly kind: 'change'; readonly step: ChangeStep; readonly timeoutMs: number | undefined }
  | { readonly kind: 'read'; readonly what: Pick<RowsToRead, 'columns' | 'where' | 'rows'> }
  | { readonly kind: 'index'; readonly spec: IndexSpec }
  | { readonly kind: 'compact'; readonly spec: CompactionSpec }
  | { readonly kind: 'trial'; readonly toTry: ToTry }
  | { readonly kind: 'query'; readonly spec: QuerySpec; readonly answer: AnswerForm }
  | { readonly kind: 'changes'; readonly spec: ChangesSpec; readonly answer: AnswerForm }
  | { readonly kind: 'explain'; readonly spec: QuerySpec; readonly form: PlanForm };

/** An order has a purpose: it answers a client who reads, it is a part of a write, or it keeps a table fast. */
export type Purpose = 'reading' | 'writing' | 'upkeep';

export function purposeOf(kind: Work['kind']): Purpose {
  switch (kind) {
    case 'count':
    case 'query':
    case 'changes':
    case 'explain':
      return 'reading';
    case 'change':
    case 'read':
    case 'trial':
    case 'index':
      return 'writing';
    case 'compact':
      return 'upkeep';
  }
}

export interface Order {
  readonly at: ReadAt;
  readonly work: Work;
  /** The resident memory that it may have beyond the reader's own; none if absent. */
  readonly extraBytes?: number;
}

export type ReaderOutcome =
  | { readonly kind: 'counted'; readonly rows: number }
  | { readonly kind: 'changed'; readonly counts: MergeCounts }
  | { readonly kind: 'built' }
  | ({ readonly kind: 'compacted' } & CompactionResult)
  /** It says why the version cannot be read; undefined where it can. */
  | { readonly kind: 'tried'; readonly fault: string | undefined }
  | ({ readonly kind: 'queried' } & QueryFacts)
  | { readonly kind: 'explained'; readonly plan: string }
  | { readonly kind: 'refused'; readonly refusal: PlainError };

/** An outcome that is no refusal comes with the last bytes of a query's result. */
export type Answered =
  | Exclude<ReaderOutcome, { readonly kind: 'refused' | 'queried' }>
  | ({ readonly kind: 'queried'; readonly bytes: Buffer } & QueryFacts);

/** Resolves when more bytes of a result are wanted, or none ever will be. */
export type TakeBytes = (part: ResultPart) => Promise<void>;

/** A message of a reader has no more bytes. */
export const mostReplyBytes = 256 * 1024;

/** Requires the outcome to be that of an order of this kind. */
export function expectAnswer<Kind extends Answered['kind']>(
  answered: Answered,
  kind: Kind,
): Extract<Answered, { readonly kind: Kind }> {
  const isOfKind = (of: Answered): of is Extract<Answered, { readonly kind: Kind }> => of.kind === kind;
  if (isOfKind(answered)) return answered;
  throw new LancegateError('Internal', 'a reader answered another question');
}

export type Reply =
  | { readonly kind: 'ready' }
  /** The next bytes of the result of a query; more messages follow. */
  | { readonly kind: 'bytes' }
  /** Its bytes are the last of a query's result. `isSpent`: the reader holds so much memory that the next order might have too little. */
  | { readonly kind: 'done'; readonly outcome: ReaderOutcome; readonly isSpent: boolean }
  /** A reader that kills itself sends it last. */
  | { readonly kind: 'beyond memory'; readonly residentBytes: number };

/** It has the data of a `LancegateError`. */
interface PlainError {
  readonly kind: ErrorName;
  readonly message: string;
  readonly internal?: Readonly<Record<string, unknown>> | undefined;
  readonly retryAfterSeconds?: number | undefined;
  /** The log has the text of the cause. */
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
    ...(cause === undefined ? {} : { cause }),
    ...(internal === undefined ? {} : { internal }),
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
  });
}
