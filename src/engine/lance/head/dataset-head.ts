import type { IpcFile } from '../../../arrow/format/ipc-file.ts';
import { readSchemaOfIpcFile } from '../../../arrow/schema/read-schema.ts';
import type { Schema } from '../../../arrow/schema/schema.ts';
import type { LancegateError } from '../../../kernel/errors.ts';
import type { NativeTable } from '../native/native.ts';
import { type BranchState, inspectBranch, nothingLeft } from './branch-state.ts';
import type { VersionsFolder } from './versions-folder.ts';

interface StoredSchema {
  readonly schema: Schema;
  readonly file: IpcFile;
}

/**
 * The newest version of a branch that an open dataset knows, with what is known of it. It becomes stale when another program
 * commits; only `refresh` notices that: on a file system if `VersionsFolder` sees a change since the last look, on an object
 * store always. Commits of this service are told to it, and need no look.
 *
 * A commit that the engine did not make leaves the engine's handle behind. The handle catches up when it is used: its look for
 * a newer version takes up to 10 ms beside large merges, and one commit by row address after the other needs none.
 */
export class DatasetHead {
  readonly #handle: NativeTable;
  /** undefined on object stores. */
  readonly #folder: VersionsFolder | undefined;
  #writeRefusal: LancegateError | undefined;
  /** If that is known: each question to the engine costs 0.1 ms, and a merge has several. */
  #version: number | undefined;
  #isBehind = false;
  #schema: (StoredSchema & { readonly version: number }) | undefined;

  constructor(handle: NativeTable, folder: VersionsFolder | undefined, state: BranchState | undefined) {
    this.#handle = handle;
    this.#folder = folder;
    this.#writeRefusal = state?.writeRefusal;
  }

  async version(): Promise<number> {
    this.#version ??= await (await this.table()).version();
    return this.#version;
  }

  /** The engine's handle, where `version` says, or at a newer version, which it says then. */
  async table(): Promise<NativeTable> {
    if (!this.#isBehind) return this.#handle;
    await this.#toNewest();
    this.#version = await this.#handle.version();
    return this.#handle;
  }

  /** Read once per version: every merge asks for it, and it rarely changes. */
  async schema(): Promise<StoredSchema> {
    const version = await this.version();
    if (this.#schema?.version === version) return this.#schema;
    const file = (await (await this.table()).schema()) as IpcFile;
    this.#schema = { version, schema: readSchemaOfIpcFile(file), file };
    return this.#schema;
  }

  requireWritable(): void {
    if (this.#writeRefusal !== undefined) throw this.#writeRefusal;
  }

  /** After a fault, the next call checks again. */
  async refresh(): Promise<void> {
    const folder = this.#folder;
    const change = folder?.changeFrom(await this.version());
    if (change === 'none') return;
    if (folder !== undefined) await this.#inspect(folder, change === 'files');
    await this.#toNewest();
    folder?.standsAt(await this.version());
  }

  async #inspect(folder: VersionsFolder, allFiles: boolean): Promise<void> {
    folder.distrust();
    folder.remember();
    const state = await inspectBranch(folder, allFiles);
    if (state === undefined) throw nothingLeft(folder.datasetPath);
    this.#writeRefusal = state.writeRefusal;
    folder.trust();
  }

  /** The handle made this version. */
  committed(version: number): void {
    this.#moveTo(version);
  }

  /** Another part of this service made this version. */
  committedBeside(version: number): void {
    this.#isBehind = true;
    this.#moveTo(version);
  }

  /** A commit of the handle whose version the caller does not need. */
  async commit<Result>(run: (table: NativeTable) => Promise<Result>): Promise<Result> {
    const table = await this.table();
    this.#version = undefined;
    try {
      return await run(table);
    } finally {
      this.#version = undefined;
    }
  }

  close(): void {
    this.#handle.close();
  }

  /** No such commit changes columns; asking for them while the next one is under way waits for that. */
  #moveTo(version: number): void {
    this.#version = version;
    this.#folder?.remember();
    this.#folder?.standsAt(version);
    if (this.#schema?.version === version - 1) this.#schema = { ...this.#schema, version };
  }

  async #toNewest(): Promise<void> {
    await this.#handle.checkoutLatest();
    this.#isBehind = false;
    this.#version = undefined;
  }
}
