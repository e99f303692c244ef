/** Maintenance of a branch: the facts that decide what pays, and the work itself. */
import type { HistoryRules } from '../../kernel/history.ts';
import type { Properties } from '../../kernel/ids.ts';
import type { IndexSpec } from './index-spec.ts';
import type { CompactionResult, CompactionSpec, IndexBuildScope } from './reader-work.ts';
import type { CommitOutcome } from './refusal.ts';

/** How a branch is stored. */
export interface Layout {
  readonly rows: number;
  /** Oldest first. */
  readonly fragments: readonly FragmentFacts[];
  /** The size of data and indexes, as far as this version needs them. */
  readonly bytes: number;
  readonly indexes: readonly IndexFacts[];
}

export interface FragmentFacts {
  /** Undefined if `prepareCompaction` cannot take it. */
  readonly id?: number | undefined;
  /** Deleted ones included. */
  readonly rows: number;
  readonly deletedRows: number;
}

export interface IndexFacts {
  readonly name: string;
  readonly columns: readonly string[];
  readonly rows: number;
  readonly unindexedRows: number;
  /** How to build it again; undefined where this service cannot. */
  readonly spec: IndexSpec | undefined;
  /** A BTREE of the name that the engine gives: one that maintenance may have built by itself. */
  readonly isPlain: boolean;
}

export interface VersionRange {
  readonly from: number;
  /** It is the first that is not in the range; `Infinity` where that is open. */
  readonly before: number;
}

/** What stays although it could go. */
export interface HistoryRequest {
  readonly rules: HistoryRules;
  readonly nowMs: number;
  /** How much the history may take that would take so much by the rules; the oldest goes first. */
  readonly mostBytes: (bytes: number) => number;
}

export interface KeptHistory {
  readonly versions: number;
  /** What only these versions need. */
  readonly bytes: number;
  /** What is older went before its time, since there was no room for it. */
  readonly cutToMs: number | undefined;
}

export interface PruneRequest {
  /**
   * Versions that a later one superseded before this time are removed, except those that a tag names or a branch starts from.
   */
  readonly supersededBeforeMs: number;
  /** This version and later ones stay. */
  readonly keptFromVersion: number;
  /** Without it no version stays for its own sake. */
  readonly history?: HistoryRequest | undefined;
  /** Versions outside these stay, too; without it none does. */
  readonly within?: readonly VersionRange[] | undefined;
  /**
   * Awaited once it is known what goes, and before each few removals; what it throws ends them. A process that lost the table
   * meanwhile does not know what the next owner names.
   */
  readonly confirm?: (() => Promise<void>) | undefined;
}

export interface PruneResult {
  readonly removedVersions: number;
  readonly removedBytes: number;
  /** A tag keeps a version that would have been removed otherwise. */
  readonly isHeldByTag: boolean;
  /** undefined where none was asked for, or nothing was looked at. */
  readonly history?: KeptHistory | undefined;
}

/** A result that was computed in a shadow, concurrently with the writers of a branch. Nothing of it is visible before `commit`. */
export interface PreparedCommit {
  /**
   * Commits one version, in milliseconds. The caller holds the branch's lock, and the dataset is at its newest version. A
   * commit in between does no harm: of an index, what it wrote anew is left out. Where nothing is left, and of a compaction where
   * the rows are not known after it, it is `overtaken`. `removedFragments`: how many fewer there are. To be called once.
   * `properties`: see `HeadCommits`.
   */
  commit(properties?: Properties): Promise<CommitOutcome<{ readonly removedFragments: number }>>;
  /** Harmless when repeated, and after `commit`. */
  discard(): void;
}

/** Maintenance of a branch. */
export interface Upkeep {
  /** Read from the newest manifest alone. */
  layout(): Promise<Layout>;
  /**
   * Builds an index, in place of the one of this name, in a process of its own, which the signal ends; without `scope` for
   * maintenance. What the engine alone may build is committed when this returns.
   */
  prepareIndex(spec: IndexSpec, scope?: IndexBuildScope): Promise<PreparedCommit>;
  /**
   * Compacts these fragments. Every row keeps its values, and rows that are deleted before the commit are deleted in it, too. No
   * index covers the new fragments. undefined if there is nothing to compact, or if only the engine may do so (`compact`).
   * It runs in a process of its own, which the signal ends.
   */
  prepareCompaction(fragments: readonly number[], signal?: AbortSignal): Promise<PreparedCommit | undefined>;
  /**
   * For a branch that `prepareCompaction` cannot take: the engine writes small fragments, and those with many deleted rows, anew, brings
   * all indexes up to date, and commits that if there is anything to do; as `prepareCompaction` in a process of its own. The caller
   * holds the branch's lock: a commit meanwhile is a conflict.
   */
  compact(spec: CompactionSpec, signal?: AbortSignal): Promise<CompactionResult>;
  /**
   * Removes old versions and nothing else, without writing anything, so that it works on a full disk; safe concurrently with
   * writers. On object stores versions of the last half hour stay.
   */
  prune(request: PruneRequest): Promise<PruneResult>;
}
