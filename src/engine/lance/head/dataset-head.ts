import { readSchemaOfIpcFile } from '../../../arrow/schema/read-schema.ts';
import { LancegateError } from '../../../kernel/errors.ts';
import type { TableColumns } from '../../port/column-view.ts';
import type { BranchHead } from '../../port/dataset.ts';
import type { NativeTable } from '../native/native.ts';
import type { BranchState } from './branch-state.ts';
import type { HeadWatch } from './head-watch.ts';

/** What a commit made of the columns and their metadata. */
export type ColumnsAfter = 'same columns' | 'other columns';

/**
 * The newest version of a branch that an open dataset knows. It becomes stale when another program commits, which `refresh`
 * notices: by the watch of the branch, or, where there is none, because it asks the engine each time. Commits of this service
 * move it, and need no look.
 *
 * A commit that the engine's handle did not make leaves the handle behind. It catches up when it is used: its look for a newer
 * version takes long next to large merges, and a series of commits by row address needs none.
 */
export class DatasetHead {
  readonly #open: () => Promise<NativeTable>;
  /** undefined until it is used. */
  #handle: NativeTable | undefined;
  #opening: Promise<NativeTable> | undefined;
  readonly #watch: HeadWatch | undefined;
  #state: BranchState | undefined;
  /** undefined if it has to be asked of the engine, which takes 0.1 ms. */
  #version: number | undefined;
  #isBehind = false;
  #columns: (TableColumns & { readonly version: number }) | undefined;

  /** `handle`: or how it is opened once it is used. `watch`: without it every refresh asks the engine. `state`: of a version by itself, that of its branch. */
  constructor(handle: NativeTable | (() => Promise<NativeTable>), watch?: HeadWatch, state?: BranchState) {
    this.#handle = typeof handle === 'function' ? undefined : handle;
    this.#open = typeof handle === 'function' ? handle : async () => handle;
    this.#watch = watch;
    this.#state = state;
    if (watch === undefined) return;
    if (this.#handle === undefined) this.#follow(watch.opened);
    else this.#state = watch.opened;
  }

  async version(): Promise<number> {
    this.#version ??= await (await this.table()).version();
    return this.#version;
  }

  /** The version, whose manifest can be read: it cannot at once where the engine made the version on an object store. */
  async readableVersion(): Promise<number> {
    if (this.#watch?.knows(await this.version()) === false) await this.refresh('to read');
    return this.version();
  }

  /** The engine's handle, at `version`. If it was behind it moves to the newest version, and `version` with it. */
  async table(): Promise<NativeTable> {
    const known = this.#handle;
    if (known !== undefined && !this.#isBehind) return known;
    const handle = known ?? (await this.#opened());
    if (known !== undefined) await this.#toNewest(known);
    this.#isBehind = false;
    this.#version = await handle.version();
    await this.#watch?.follow(this.#version);
    return handle;
  }

  async #opened(): Promise<NativeTable> {
    this.#opening ??= this.#open().finally(() => {
      this.#opening = undefined;
    });
    this.#handle = await this.#opening;
    return this.#handle;
  }

  /** Read once for each version: every merge needs it. */
  async columns(): Promise<TableColumns> {
    const version = await this.version();
    const known = this.#columns?.version === version ? this.#columns : this.#watch?.columns;
    if (known?.version === version) {
      this.#columns = known;
      return known;
    }
    const file = await (await this.table()).schema();
    this.#columns = { version, schema: readSchemaOfIpcFile(file), file };
    this.#watch?.keepColumns(this.#columns);
    return this.#columns;
  }

  /** Another table or branch has taken the place of the one that was opened: what is known of this one holds no more. */
  get isReplaced(): boolean {
    return this.#watch?.isReplaced === true;
  }

  requireWritable(): void {
    if (this.isReplaced) throw replaced();
    if (this.#state?.writeRefusal !== undefined) throw this.#state.writeRefusal;
  }

  /** See `BranchState`. */
  get hasRowIds(): boolean {
    return this.#state?.hasRowIds === true;
  }

  /** Brings the dataset to its newest version. After a fault, the next call checks again. */
  async refresh(...purpose: Parameters<BranchHead['refresh']>): ReturnType<BranchHead['refresh']> {
    if (this.#watch === undefined) {
      if (this.#handle !== undefined) await this.#toNewest(this.#handle);
      return undefined;
    }
    const newest = this.isReplaced ? undefined : await this.#watch.look(await this.version(), ...purpose);
    if (this.isReplaced) return 'replaced';
    if (newest !== undefined) this.#follow(newest);
    return undefined;
  }

  #follow(state: BranchState): void {
    this.#isBehind = true;
    this.#version = state.version;
    this.#state = state;
  }

  /** The handle made this version. */
  committed(version: number, columns: ColumnsAfter = 'same columns'): void {
    this.#moveTo(version, columns);
  }

  /** This service made this version without the handle. */
  committedPastHandle(version: number, columns: ColumnsAfter = 'same columns'): void {
    this.#isBehind = true;
    this.#moveTo(version, columns);
  }

  /** A commit of the handle whose version the caller does not need. */
  async byEngine<Result>(run: (table: NativeTable) => Promise<Result>): Promise<Result> {
    const table = await this.table();
    this.#version = undefined;
    try {
      return await run(table);
    } finally {
      this.#version = undefined;
      this.#watch?.made(undefined);
    }
  }

  close(): void {
    this.#handle?.close();
  }

  /** A schema that stays is kept: to ask the engine for it would wait for the commit under way. */
  #moveTo(version: number, columns: ColumnsAfter): void {
    this.#version = version;
    this.#watch?.made(version);
    const before = [this.#columns, this.#watch?.columns].find((known) => known?.version === version - 1);
    if (columns === 'other columns') this.#columns = undefined;
    else if (before !== undefined) this.#columns = { ...before, version };
    if (this.#columns?.version === version) this.#watch?.keepColumns(this.#columns);
  }

  async #toNewest(handle: NativeTable): Promise<void> {
    await handle.checkoutLatest();
    this.#isBehind = false;
    this.#version = undefined;
  }
}

const replaced = (): LancegateError =>
  new LancegateError('ConcurrentModification', 'the branch was made again meanwhile; nothing was written', {
    retryAfterSeconds: 1,
  });
