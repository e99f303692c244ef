import type { IpcFile } from '../../../arrow/format/ipc-file.ts';
import type { CheckedSql } from '../../../kernel/checked-sql.ts';
import { LancegateError } from '../../../kernel/errors.ts';
import type { EngineWrites, Snapshot } from '../../port/engine.ts';
import type { MergeSpec, Projection } from '../../port/merge-spec.ts';
import type { RowAddressSql } from '../../port/row-address.ts';
import type { MergeTotals, Shadow } from '../../port/shadow.ts';

/** A dataset that only the engine commits to meanwhile, as far as this process goes. */
interface EngineDataset extends Pick<Snapshot, 'version' | 'select' | 'take'>, EngineWrites {
  append(file: IpcFile): Promise<void>;
  deleteWhere(predicate: CheckedSql): Promise<number>;
  /** False where a merge that began at version `matched` and failed has left no version and will leave none. */
  mayHaveCommitted(matched: number): Promise<boolean>;
}

/**
 * In place of a shadow where there can be none (docs/adr/0023): every step is a commit of the engine's own. A commit of another
 * program between two steps stays unnoticed: the engine rebases on it.
 */
export class EngineCommits implements Shadow {
  readonly baseVersion: number;
  readonly #dataset: EngineDataset;

  constructor(dataset: EngineDataset, baseVersion: number) {
    this.#dataset = dataset;
    this.baseVersion = baseVersion;
  }

  /** The engine gives up when the time is over, also in the middle of its commit, which may then be there all the same (P6). */
  async merge(
    spec: MergeSpec,
    file: IpcFile,
    timeoutMs: number | undefined,
    principal: string | undefined,
  ): Promise<MergeTotals> {
    const matched = await this.#dataset.version();
    try {
      return await this.#dataset.merge(spec, file, timeoutMs, principal);
    } catch (error) {
      if (isCutShort(error) && (await this.#dataset.mayHaveCommitted(matched))) throw mayBeMerged(error);
      throw error;
    }
  }

  append(file: IpcFile): Promise<void> {
    return this.#dataset.append(file);
  }

  async deleteRows(addresses: readonly RowAddressSql[]): Promise<number> {
    return (await this.#dataset.deleteRows(addresses)).numDeletedRows;
  }

  deleteWhere(predicate: CheckedSql): Promise<number> {
    return this.#dataset.deleteWhere(predicate);
  }

  select(columns: readonly Projection[], where: CheckedSql | undefined): AsyncIterable<IpcFile> {
    return this.#dataset.select(columns, where);
  }

  take(rows: readonly RowAddressSql[], columns: readonly Projection[]): AsyncIterable<IpcFile> {
    return this.#dataset.take(rows, columns);
  }

  async commit(): Promise<{ readonly version: number }> {
    return { version: await this.#dataset.version() };
  }

  /** The steps are committed. */
  discard(): void {}
}

/** At its deadline, or because its reader died. */
const isCutShort = (error: unknown): error is LancegateError =>
  error instanceof LancegateError && (error.kind === 'TimedOut' || error.kind === 'ReaderDied');

const mayBeMerged = (cause: LancegateError): LancegateError => {
  const what = cause.kind === 'ReaderDied' ? 'its process ended' : 'the time ran out';
  return new LancegateError('Internal', `${what} while the rows were being committed; they may have been merged`, {
    cause,
  });
};
