/** Rows on their way into a dataset, for as many attempts of a commit as it takes. */
import { basename, join } from 'node:path';
import type { IpcFile } from '../../../arrow/format/ipc-file.ts';
import { LancegateError } from '../../../kernel/errors.ts';
import { listVersions, readManifest } from '../../../lance-format/manifest/manifest-files.ts';
import type { ChangeLimits } from '../../port/change-limits.ts';
import type { Projection } from '../../port/merge-spec.ts';
import type { RowsToRead } from '../../port/reader-work.ts';
import type { NewRows, PreparedRows, StagedSource } from '../../port/row-address.ts';
import type { NativeTable } from '../native/native.ts';
import { engineCall } from '../native/translate-errors.ts';
import type { BranchCommits, CommitFile, PlacedFiles } from './branch-commits.ts';
import { type DatasetInStaging, rowsIn, type StagedRows, type Staging } from './staging.ts';

/** Rows that the engine writes, or has written. An attempt that was overtaken leaves them to the next one. */
export class RowsInStaging {
  readonly rows: number;
  readonly staged: Promise<StagedRows>;
  #placed: PlacedFiles | undefined;
  #takenBack: Promise<void> | undefined;

  constructor(staged: Promise<StagedRows>, rows: number) {
    this.rows = rows;
    this.staged = staged;
    this.staged.catch(() => undefined); // the commit of them throws it
  }

  /** Resolves once a version can name them. */
  async place(commits: BranchCommits, staged: StagedRows): Promise<void> {
    await this.#takenBack; // the files get the same names again
    this.#placed ??= commits.place(staged.files.map(rowFile));
    try {
      await this.#placed.done;
    } catch (error) {
      this.takeBack();
      throw error;
    }
  }

  /** A version names the files now, or it is not known that none does. */
  committed(): void {
    this.#placed = placedForGood;
  }

  /** Puts them back to where they were staged. */
  takeBack(): void {
    this.#takenBack = this.#placed?.takeBack() ?? this.#takenBack;
    this.#placed = undefined;
  }

  discard(): void {
    this.takeBack();
    this.#placed = placedForGood;
    this.staged.then(
      (staged) => staged.discard(),
      () => undefined,
    );
  }
}

const placedForGood: PlacedFiles = { done: undefined, takeBack: async () => undefined };

/** A file of staged rows. */
export const rowFile = (path: string): CommitFile => ({ from: path, to: join('data', basename(path)) });

/** Rows of one file. */
export class FileInStaging extends RowsInStaging implements PreparedRows {
  readonly file: PreparedRows['file'];

  constructor(staging: Staging, { file, rows }: NewRows) {
    super(staging.stage(file), rows);
    this.file = file;
  }
}

/** Reads a dataset of the staging folder, by its name. */
export type ReadStaged = (name: string, rows: RowsToRead) => AsyncIterable<IpcFile>;

/** A source that arrives in parts. */
export class SourceInStaging implements StagedSource {
  readonly #staging: Staging;
  readonly #columns: IpcFile | undefined;
  readonly #read: ReadStaged;
  #dataset: DatasetInStaging | undefined;
  #table: NativeTable | undefined;
  #rows: RowsInStaging | undefined;
  #isDiscarded = false;

  constructor(staging: Staging, columns: IpcFile | undefined, read: ReadStaged) {
    this.#staging = staging;
    this.#columns = columns;
    this.#read = read;
  }

  async append(file: IpcFile): Promise<void> {
    if (this.#table !== undefined) return this.#add(this.#table, file);
    const columns = this.#columns;
    this.#table = await this.#create(columns ?? file);
    if (columns !== undefined) await this.#add(this.#table, file);
  }

  countRows(): Promise<number> {
    return engineCall('select', async () => (await this.#table?.countRows()) ?? 0);
  }

  select(columns: readonly Projection[], limits: ChangeLimits): AsyncIterable<IpcFile> {
    const dataset = this.#begun;
    this.#rows?.takeBack();
    return this.#read(dataset.name, { columns, where: undefined, rows: undefined, ...limits });
  }

  /** A commit adds them. No part is appended any more. */
  async rows(): Promise<RowsInStaging> {
    this.#rows ??= new RowsInStaging(Promise.resolve(this.staged()), await this.countRows());
    return this.#rows;
  }

  /** What was written. */
  staged(): StagedRows {
    const dataset = this.#begun;
    const versions = join(dataset.folder, '_versions');
    const newest = readManifest(versions, listVersions(versions).at(-1) ?? 1);
    if (newest === undefined) throw new LancegateError('Internal', 'a staged dataset without a manifest');
    return { ...rowsIn(newest.bytes, dataset.folder), discard: () => this.discard() };
  }

  discard(): void {
    if (this.#isDiscarded) return;
    this.#isDiscarded = true;
    this.#table?.close();
    this.#rows?.discard();
    this.#dataset?.discard();
  }

  get #begun(): DatasetInStaging {
    if (this.#dataset === undefined) throw new LancegateError('Internal', 'no part was appended');
    return this.#dataset;
  }

  #add(table: NativeTable, file: IpcFile): Promise<void> {
    return engineCall('append', async () => void (await table.add(file, 'append')));
  }

  #create(file: IpcFile): Promise<NativeTable> {
    return engineCall('create', async () => {
      this.#dataset = await this.#staging.begin();
      return this.#dataset.connection.createTable(this.#dataset.name, file, 'create', []);
    });
  }
}
