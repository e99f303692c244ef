/**
 * Datasets of some columns of one version, in which the engine reads. What it does with a table takes it time that grows with the
 * square of the columns, whatever number of them is asked for; in a view it takes as long as the columns of the view.
 *
 * A view is a manifest in the staging folder of the branch, or of its mirror, which names the files where they are: recovery
 * removes what a crash leaves of it.
 */
import { randomUUID } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { IpcFile } from '../../../arrow/format/ipc-file.ts';
import type { CheckedSql } from '../../../kernel/checked-sql.ts';
import { manifestNames } from '../../../lance-format/manifest/manifest-files.ts';
import { shadowManifest } from '../../../lance-format/shadow/shadow-manifest.ts';
import type { ChangeLimits } from '../../port/change-limits.ts';
import type { ColumnView } from '../../port/column-view.ts';
import type { Projection } from '../../port/merge-spec.ts';
import type { RowsToRead } from '../../port/reader-work.ts';
import type { RowAddressSql } from '../../port/row-address.ts';
import { type NativeConnection, type NativeTable, rowsOf } from '../native/native.ts';
import type { Original } from './shadow-folders.ts';

export interface ColumnViewsParts {
  readonly stagingFolder: string;
  readonly connect: (folder: string) => Promise<NativeConnection>;
  /** Reads the dataset of this name in the staging folder. A reader has none: it reads itself. */
  readonly readInReader: ((name: string, rows: RowsToRead) => AsyncIterable<IpcFile>) | undefined;
}

export class ColumnViews {
  readonly #parts: ColumnViewsParts;

  constructor(parts: ColumnViewsParts) {
    this.#parts = parts;
  }

  /** `uri` is where the engine finds the files of the original. Throws `NotReplaceable`. */
  make({ bytes, version }: Original, uri: string, columns: readonly string[], limits: ChangeLimits): ColumnView {
    const { stagingFolder } = this.#parts;
    const manifest = shadowManifest(bytes, { folder: uri, version, columns: new Set(columns) });
    const name = randomUUID();
    const folder = join(stagingFolder, `${name}.lance`);
    const versions = join(folder, '_versions');
    const view = new FolderView(folder, (what) => this.read(name, { ...what, ...limits }));
    try {
      mkdirSync(versions, { recursive: true });
      writeFileSync(join(versions, manifestNames(version)[0]), manifest);
    } catch (error) {
      view.discard();
      throw error;
    }
    return view;
  }

  /** Reads a dataset in the staging folder, at its newest version. */
  async *read(name: string, rows: RowsToRead): AsyncIterable<IpcFile> {
    const { readInReader, connect, stagingFolder } = this.#parts;
    if (readInReader !== undefined) {
      yield* readInReader(name, rows);
      return;
    }
    let table: NativeTable | undefined;
    const open = async () => {
      table = await (await connect(stagingFolder)).openTable(name, []);
      return table;
    };
    try {
      yield* rowsOf(open, rows);
    } finally {
      table?.close();
    }
  }
}

type RowsOfView = Pick<RowsToRead, 'columns' | 'where' | 'rows'>;

class FolderView implements ColumnView {
  readonly #folder: string;
  readonly #read: (what: RowsOfView) => AsyncIterable<IpcFile>;

  constructor(folder: string, read: (what: RowsOfView) => AsyncIterable<IpcFile>) {
    this.#folder = folder;
    this.#read = read;
  }

  select(columns: readonly Projection[], where: CheckedSql | undefined): AsyncIterable<IpcFile> {
    return this.#read({ columns, where, rows: undefined });
  }

  take(rows: readonly RowAddressSql[], columns?: readonly Projection[]): AsyncIterable<IpcFile> {
    return this.#read({ columns, where: undefined, rows });
  }

  discard(): void {
    void rm(this.#folder, { recursive: true, force: true }).catch(() => undefined);
  }
}
