import type { IpcFile } from '../../../arrow/format/ipc-file.ts';
import { parseFieldPath } from '../../../arrow/schema/field-path.ts';
import type { CheckedSql } from '../../../kernel/checked-sql.ts';
import { LancegateError } from '../../../kernel/errors.ts';
import type { Properties } from '../../../kernel/ids.ts';
import { fragmentsWithout } from '../../../lance-format/manifest/column-files.ts';
import { readManifest } from '../../../lance-format/manifest/manifest-files.ts';
import { settingsOf } from '../../../lance-format/manifest/next-manifest.ts';
import type { ChangeStep } from '../../port/change.ts';
import { type ChangeLimits, noLimits } from '../../port/change-limits.ts';
import type { ColumnView, TableColumns } from '../../port/column-view.ts';
import type { EngineWrites, Snapshot } from '../../port/dataset.ts';
import { addressesAmong, rowAddress } from '../../port/row-address.ts';
import type { MergeTotals, Shadow } from '../../port/shadow.ts';

/** A dataset that only the engine commits to meanwhile, as far as this process goes. */
interface EngineDataset extends Pick<Snapshot, 'version' | 'columns' | 'select'>, EngineWrites {
  /** False where a step that began at version `matched` and failed has left no version and will leave none. */
  mayHaveCommitted(matched: number): Promise<boolean>;
}

/**
 * In place of a shadow where there can be none (docs/design/shadows-and-workers.md): every step is a commit of the engine's own. A commit of another
 * program between two steps stays unnoticed: the engine rebases on it.
 */
export class EngineCommits implements Shadow {
  readonly baseVersion: number;
  readonly isPrivate = false;
  readonly #dataset: EngineDataset;
  readonly #versionsFolder: string | undefined;

  /** `versionsFolder` is where manifests can be read. */
  constructor(dataset: EngineDataset, baseVersion: number, versionsFolder: string | undefined) {
    this.#dataset = dataset;
    this.#versionsFolder = versionsFolder;
    this.baseVersion = baseVersion;
  }

  /** The engine gives up when the time is over, also in the middle of its commit, which may then be there all the same (P6). */
  async change(step: ChangeStep, file: IpcFile | undefined, limits: ChangeLimits): Promise<MergeTotals> {
    if (step.kind === 'update' && step.laterRounds !== undefined) throw needsShadow();
    const before = await this.#dataset.version();
    if (step.kind === 'drop columns') this.#requireOthers(step.columns, before);
    try {
      return await this.#dataset.change(step, file, limits);
    } catch (error) {
      if (isCutShort(error) && (await this.#dataset.mayHaveCommitted(before))) throw mayBeWritten(error);
      throw error;
    }
  }

  /** A shadow writes such rows anew first; here that would be a commit of its own. */
  #requireOthers(columns: readonly string[], version: number): void {
    const head = this.#versionsFolder === undefined ? undefined : readManifest(this.#versionsFolder, version);
    if (head === undefined) return;
    const gone = columns.map((path) => parseFieldPath(path).segments);
    if (fragmentsWithout(head.bytes, gone).length > 0) throw onlyColumns();
  }

  settings(): Properties {
    const head = this.#versionsFolder === undefined ? undefined : readManifest(this.#versionsFolder, this.baseVersion);
    if (head === undefined) throw new LancegateError('Internal', 'the version that a change begins at cannot be read');
    return settingsOf(head.bytes);
  }

  columns(): Promise<TableColumns> {
    return this.#dataset.columns();
  }

  async deleteWhere(where: CheckedSql, limits: ChangeLimits = noLimits): Promise<number> {
    return (await this.change({ kind: 'delete', where }, undefined, limits)).numDeletedRows;
  }

  select(...[columns, where, limits]: Parameters<Snapshot['select']>): AsyncIterable<IpcFile> {
    return this.#dataset.select(columns, where, limits);
  }

  /** Of all columns. Rows of such a table may have identifiers other than their addresses, which only a condition names. */
  async view(columns: readonly string[], limits: ChangeLimits): Promise<ColumnView> {
    const all = [
      ...columns.map((name) => ({ name, expression: `\`${name}\`` })),
      { name: '_rowid', expression: rowAddress },
    ];
    return {
      select: (projections, where) => this.#dataset.select(projections, where, limits),
      take: (rows, projections = all) => this.#dataset.select(projections, addressesAmong(rows), limits),
      discard: () => undefined,
    };
  }

  async commit(): Promise<{ readonly version: number }> {
    return { version: await this.#dataset.version() };
  }

  /** The steps are committed. */
  discard(): void {}
}

const needsShadow = (): LancegateError =>
  new LancegateError(
    'InvalidInput',
    'updates: one column is set to what another had, and this table takes no such update in one version; send several',
  );

/** Lance cannot read a table in which rows have no column at all. */
const onlyColumns = (): LancegateError =>
  new LancegateError(
    'InvalidInput',
    'columns: some rows were inserted with no other column, and this table takes no such drop; set one of the others in those rows first',
  );

/** Whether it ended at its deadline, or because its reader died. */
const isCutShort = (error: unknown): error is LancegateError =>
  error instanceof LancegateError && (error.kind === 'TimedOut' || error.kind === 'ReaderDied');

const mayBeWritten = (cause: LancegateError): LancegateError => {
  const what = cause.kind === 'ReaderDied' ? 'its process ended' : 'the time ran out';
  return new LancegateError('Internal', `${what} during the commit, which may have been made`, {
    cause,
  });
};
