/**
 * A shadow of a branch on a file system. It lies in the staging folder of the branch, so its files get into the table by renaming,
 * and recovery removes what a crash leaves of it.
 */
import type { IpcFile } from '../../../arrow/format/ipc-file.ts';
import { type CheckedSql, ownSql } from '../../../kernel/checked-sql.ts';
import { type LiftedVersion, liftedVersion } from '../../../lance-format/shadow/shadow-manifest.ts';
import type { FilteredMerge } from '../../port/engine.ts';
import type { MergeCounts, MergeSpec, Projection } from '../../port/merge-spec.ts';
import { type RowAddressSql, rowAddress } from '../../port/row-address.ts';
import type { MergeTotals, Shadow } from '../../port/shadow.ts';
import { filterName, hasClientFilter, runMerge } from '../native/merge-builder.ts';
import { resultsOf } from '../native/query-results.ts';
import { type EngineCall, engineCall } from '../native/translate-errors.ts';
import type { ShadowFolder } from './shadow-folder.ts';

export interface LocalShadowParts {
  readonly folder: ShadowFolder;
  /** The newest version of the branch. */
  readonly original: { readonly version: number; readonly bytes: Buffer };
  /** `ShadowFolder.begin` of it. */
  readonly shadowVersion: number;
  readonly usesIndex: (spec: MergeSpec, sourceBytes: number) => boolean;
  /** Runs a merge in a reader process; without it all run here. */
  readonly mergeInReader: ((merge: ReaderMerge) => Promise<MergeCounts>) | undefined;
  /** Moves the files and makes the version; false where somebody else has made it, and then no file is there. */
  readonly commit: (lifted: LiftedVersion, from: string) => Promise<boolean>;
  /** The version is made. */
  readonly onCommit: (version: number) => void;
  /** Nobody uses the folder any more. */
  readonly release: () => void;
  readonly newTransaction: () => { readonly transactionId: string; readonly committedAtMs: number };
}

export type ReaderMerge = Omit<FilteredMerge, 'store' | 'location' | 'branch'>;

export class LocalShadow implements Shadow {
  readonly #parts: LocalShadowParts;
  readonly #folder: ShadowFolder;
  /** A step failed, or is under way. */
  #isSpoiled = false;
  #isEnded = false;

  constructor(parts: LocalShadowParts) {
    this.#parts = parts;
    this.#folder = parts.folder;
  }

  get baseVersion(): number {
    return this.#parts.original.version;
  }

  merge(
    spec: MergeSpec,
    file: IpcFile,
    timeoutMs: number | undefined,
    principal: string | undefined,
  ): Promise<MergeTotals> {
    if (!hasClientFilter(spec)) {
      const useIndex = this.#parts.usesIndex(spec, file.length);
      return this.#step(
        'merge',
        async () => runMerge(await this.#folder.table(), { ...spec, useIndex }, file, timeoutMs),
        spec,
      );
    }
    return this.#step('filtered merge', () => this.#mergeWithFilter(spec, file, timeoutMs, principal), spec);
  }

  async #mergeWithFilter(
    spec: MergeSpec,
    file: IpcFile,
    timeoutMs: number | undefined,
    principal: string | undefined,
  ): Promise<MergeTotals> {
    const { mergeInReader } = this.#parts;
    if (mergeInReader === undefined) return runMerge(await this.#folder.table(), spec, file, timeoutMs);
    const { lineage, newestVersion: version } = this.#folder;
    const counts = await mergeInReader({ lineage, version, spec, file, timeoutMs, principal });
    await this.#folder.catchUp();
    return counts;
  }

  async append(file: IpcFile): Promise<void> {
    await this.#step('append', async () => (await this.#folder.table()).add(file, 'append'));
  }

  async deleteRows(addresses: readonly RowAddressSql[]): Promise<number> {
    if (addresses.length === 0) return 0;
    return this.deleteWhere(ownSql(`${rowAddress} IN (${addresses.join(', ')})`));
  }

  deleteWhere(predicate: CheckedSql): Promise<number> {
    return this.#step('maintain', async () => (await (await this.#folder.table()).delete(predicate)).numDeletedRows);
  }

  async *select(columns: readonly Projection[], where: CheckedSql | undefined): AsyncIterable<IpcFile> {
    const query = (await this.#folder.table()).query();
    if (where !== undefined) query.onlyIf(where);
    yield* resultsOf(query, columns);
  }

  async *take(rows: readonly RowAddressSql[], columns: readonly Projection[]): AsyncIterable<IpcFile> {
    yield* resultsOf((await this.#folder.table()).takeRowIds(rows.map(BigInt)), columns);
  }

  async commit(): Promise<{ readonly version: number } | 'overtaken'> {
    const { original, shadowVersion, newTransaction, commit, onCommit } = this.#parts;
    try {
      const { result, steps } = this.#folder.changesSince(shadowVersion);
      if (this.#isSpoiled || steps.length === 0) throw new Error('a shadow that has nothing to commit');
      this.#isSpoiled = true;
      const lifted = liftedVersion({ original: original.bytes, result, steps, ...newTransaction() });
      const isMade = await engineCall('replace', () => commit(lifted, this.#folder.path));
      this.#isSpoiled = !isMade;
      if (isMade) onCommit(lifted.version);
      return isMade ? { version: lifted.version } : 'overtaken';
    } finally {
      this.discard();
    }
  }

  discard(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    if (this.#isSpoiled) this.#folder.remove();
    else this.#parts.release();
  }

  async #step<Result>(call: EngineCall, run: () => Promise<Result>, spec?: MergeSpec): Promise<Result> {
    this.#isSpoiled = true;
    const result = await engineCall(call, run, spec && filterName(spec));
    this.#isSpoiled = false;
    return result;
  }
}
