import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { IpcFile } from '../../../arrow/format/ipc-file.ts';
import { readSchemaOfIpcFile } from '../../../arrow/schema/read-schema.ts';
import { LancegateError } from '../../../kernel/errors.ts';
import { branchFolder, manifestNames, readManifest } from '../../../lance-format/manifest/manifest-files.ts';
import type { TableColumns } from '../../port/table-columns.ts';
import type { NativeTable } from '../native/native.ts';
import type { BranchMirror } from '../store/branch-mirror.ts';
import { type BranchState, inspectBranch, nothingLeft, stateIn } from './branch-state.ts';

/** What a commit made of the columns and their metadata. */
export type ColumnsAfter = 'same columns' | 'other columns';

interface HeadParts {
  /** On a file system. */
  readonly folder?: VersionsFolder | undefined;
  readonly state?: BranchState | undefined;
  /** On an object store. */
  readonly mirror?: BranchMirror | undefined;
}

/**
 * The newest version of a branch that an open dataset knows. It becomes stale when another program commits, which `refresh`
 * notices: on a file system if `VersionsFolder` sees a change, on an object store by a listing of the branch, or, where there is no
 * mirror, because it asks the engine each time. Commits of this service move it, and need no look.
 *
 * A commit that the engine's handle did not make leaves the handle behind. It catches up when it is used: its look for a newer
 * version takes long next to large merges, and a series of commits by row address needs none.
 */
export class DatasetHead {
  readonly #open: () => Promise<NativeTable>;
  /** undefined until it is used. */
  #handle: NativeTable | undefined;
  #opening: Promise<NativeTable> | undefined;
  /** undefined on object stores. */
  readonly #folder: VersionsFolder | undefined;
  /** Of a branch on an object store. */
  readonly #mirror: BranchMirror | undefined;
  /** Of the mirror when this was made. */
  readonly #incarnation: number | undefined;
  #state: BranchState | undefined;
  /** undefined if it has to be asked of the engine, which takes 0.1 ms. */
  #version: number | undefined;
  #isBehind = false;
  #columns: (TableColumns & { readonly version: number }) | undefined;

  /** `handle`: or how it is opened once it is used. */
  constructor(handle: NativeTable | (() => Promise<NativeTable>), { folder, mirror, state }: HeadParts = {}) {
    this.#handle = typeof handle === 'function' ? undefined : handle;
    this.#open = typeof handle === 'function' ? handle : async () => handle;
    this.#folder = folder;
    this.#mirror = mirror;
    this.#incarnation = mirror?.incarnation;
    this.#state = state;
    if (mirror?.known !== undefined) this.#follow(mirror.known);
  }

  async version(): Promise<number> {
    this.#version ??= await (await this.table()).version();
    return this.#version;
  }

  /** The version, whose manifest is in the mirror if there is one: it is not at once where the engine made the version. */
  async mirroredVersion(): Promise<number> {
    if (this.#mirror !== undefined && this.#mirror.known !== (await this.version())) await this.refresh('to read');
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
    if (this.#mirror !== undefined && this.#version !== this.#mirror.known) await this.#mirror.refresh();
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
    const known = this.#columns?.version === version ? this.#columns : this.#mirror?.columns;
    if (known?.version === version) {
      this.#columns = known;
      return known;
    }
    const file = (await (await this.table()).schema()) as IpcFile;
    this.#columns = { version, schema: readSchemaOfIpcFile(file), file };
    this.#mirror?.keepColumns(this.#columns);
    return this.#columns;
  }

  /** Another table or branch has taken the place of the one that was opened: what is known of this one holds no more. */
  get isReplaced(): boolean {
    return this.#mirror?.incarnation !== this.#incarnation || this.#folder?.isReplaced === true;
  }

  requireWritable(): void {
    if (this.isReplaced) throw replaced();
    if (this.#state?.writeRefusal !== undefined) throw this.#state.writeRefusal;
  }

  /** As `BranchState`. */
  get hasRowIds(): boolean {
    return this.#state?.hasRowIds === true;
  }

  /** Brings the dataset to its newest version. After a fault, the next call checks again. `purpose`: as `BranchHead.refresh`. */
  async refresh(purpose: 'to read' | 'to write'): Promise<void> {
    const mirror = this.#mirror;
    if (mirror !== undefined) {
      this.#follow(await (purpose === 'to write' ? mirror.newestToWrite() : mirror.refresh()));
      return;
    }
    const folder = this.#folder;
    if (this.isReplaced) return;
    const change = folder?.changeFrom(await this.version());
    if (change === 'none') return;
    if (folder !== undefined) await this.#inspect(folder, change === 'files');
    if (this.#handle !== undefined) await this.#toNewest(this.#handle);
    folder?.standsAt(await this.version());
  }

  async #inspect(folder: VersionsFolder, allFiles: boolean): Promise<void> {
    folder.distrust();
    folder.remember();
    const state = await inspectBranch(folder, allFiles);
    if (state === undefined) throw nothingLeft(folder.datasetPath);
    this.#state = state;
    folder.trust();
  }

  #follow(version: number): void {
    if (this.#version === version) return;
    this.#isBehind = true;
    this.#version = version;
    const file = this.#mirror && readManifest(this.#mirror.versionsFolder, version);
    if (file !== undefined) this.#state = stateIn(version, file);
  }

  /** The handle made this version. */
  committed(version: number, columns: ColumnsAfter = 'same columns'): void {
    this.#moveTo(version, columns);
  }

  /** Another part of this service made this version. */
  committedElsewhere(version: number, columns: ColumnsAfter = 'same columns'): void {
    this.#isBehind = true;
    this.#moveTo(version, columns);
  }

  /** A commit of the handle whose version the caller does not need. */
  async commit<Result>(run: (table: NativeTable) => Promise<Result>): Promise<Result> {
    const table = await this.table();
    this.#version = undefined;
    try {
      return await run(table);
    } finally {
      this.#version = undefined;
      this.#distrustOther(undefined);
    }
  }

  close(): void {
    this.#handle?.close();
  }

  /** What the engine committed by itself, the mirror does not know. */
  #distrustOther(version: number | undefined): void {
    if (this.#mirror !== undefined && this.#mirror.known !== version) this.#mirror.distrust();
  }

  /** A schema that stays is kept: to ask the engine for it would wait for the commit under way. */
  #moveTo(version: number, columns: ColumnsAfter): void {
    this.#version = version;
    this.#distrustOther(version);
    this.#folder?.remember();
    this.#folder?.standsAt(version);
    const before = [this.#columns, this.#mirror?.columns].find((known) => known?.version === version - 1);
    if (columns === 'other columns') this.#columns = undefined;
    else if (before !== undefined) this.#columns = { ...before, version };
    if (this.#columns?.version === version) this.#mirror?.keepColumns(this.#columns);
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

/** `files`: also the folders of the rows, or the manifest in use, have changed. */
type FolderChange = 'none' | 'versions' | 'files';

/** The folders of the rows, below the branch's folder. */
const rowFolders = ['data', '_deletions'] as const;

/**
 * Says whether a dataset on a file system may have versions that are not known yet, or has lost known ones. It costs five
 * synchronous `stat` calls, some microseconds; the engine's own look takes up to some milliseconds, and every request needs one.
 *
 * A new version has two signs, and either counts. The folder's modification time misses a commit within one tick of the clock;
 * the next manifest misses commits whose manifests were pruned again. A loss shows as a folder with another inode, or a manifest
 * of another size.
 */
export class VersionsFolder {
  readonly datasetPath: string;
  readonly branch: string | undefined;
  readonly path: string;
  /** The folder that holds this one and those of the rows. */
  readonly #above: string;
  #modifiedNs: bigint | undefined;
  #isTrusted = true;
  #manifest: StoredManifest | undefined;
  /** What `#above` held when the folders of the rows were last found unchanged. */
  #entries: string | undefined;
  readonly #rowFolders = new Map<string, number>();
  readonly #identity: string | undefined;

  constructor(datasetPath: string, branch: string | undefined) {
    this.datasetPath = datasetPath;
    this.branch = branch;
    this.#above = branchFolder(datasetPath, branch);
    this.path = join(this.#above, '_versions');
    this.#identity = identityOf(this.path);
  }

  /** Whether this is another folder than the one that was opened: that of another table or branch. One that is missing is not. */
  get isReplaced(): boolean {
    const identity = identityOf(this.path);
    return identity !== undefined && identity !== this.#identity;
  }

  /** What has changed in the folder since `remember`. */
  changeFrom(version: number): FolderChange {
    if (!this.#isTrusted || this.#haveRowFoldersChanged() || this.#hasManifestChanged(version)) return 'files';
    const modifiedNs = this.#modified();
    const isSame = modifiedNs !== undefined && modifiedNs === this.#modifiedNs && !this.#hasNext(version);
    return isSame ? 'none' : 'versions';
  }

  /** The caller calls this before the engine looks, or after it committed: what changes later is noticed. */
  remember(): void {
    this.#modifiedNs = this.#modified();
  }

  /** The caller calls this when the dataset is checked out at another version; a later change of its manifest is noticed. */
  standsAt(version: number): void {
    const paths = this.#manifestPaths(version);
    this.#manifest = { version, paths, nextPaths: this.#manifestPaths(version + 1), bytes: sizeOf(paths) };
  }

  /** Until `trust` is called, everything counts as changed. */
  distrust(): void {
    this.#isTrusted = false;
  }

  /** All files of the rows were found, so the folders of now are the right ones. */
  trust(): void {
    this.#isTrusted = true;
    this.#rowFolders.clear();
    this.#entries = undefined;
  }

  #modified(): bigint | undefined {
    return statSync(this.path, { bigint: true, throwIfNoEntry: false })?.mtimeNs;
  }

  #manifestPaths(version: number): readonly string[] {
    return manifestNames(version).map((name) => join(this.path, name));
  }

  #hasNext(version: number): boolean {
    const known = this.#manifest?.version === version ? this.#manifest.nextPaths : undefined;
    return (known ?? this.#manifestPaths(version + 1)).some((path) => existsSync(path));
  }

  #hasManifestChanged(version: number): boolean {
    return this.#manifest?.version === version && this.#manifest.bytes !== sizeOf(this.#manifest.paths);
  }

  /** A new folder, such as the first deletion creates, is no change. To replace one changes the folder above them. */
  #haveRowFoldersChanged(): boolean {
    const entries = entriesOf(this.#above);
    if (entries !== undefined && entries === this.#entries) return false;
    const haveChanged = rowFolders.some((name) => this.#hasFolderChanged(name));
    this.#entries = haveChanged ? undefined : entries;
    return haveChanged;
  }

  #hasFolderChanged(name: string): boolean {
    const inode = statSync(join(this.#above, name), { throwIfNoEntry: false })?.ino;
    const known = this.#rowFolders.get(name);
    if (known === undefined && inode !== undefined) this.#rowFolders.set(name, inode);
    return known !== undefined && known !== inode;
  }
}

interface StoredManifest {
  readonly version: number;
  /** In either scheme of names. */
  readonly paths: readonly string[];
  readonly nextPaths: readonly string[];
  readonly bytes: number | undefined;
}

/** undefined where there is no folder. A new one may get the number of one that was removed. */
function identityOf(folder: string): string | undefined {
  const found = statSync(folder, { bigint: true, throwIfNoEntry: false });
  return found?.isDirectory() ? `${found.ino} ${found.birthtimeNs}` : undefined;
}

/** Of the first of the files that is there. */
function sizeOf(paths: readonly string[]): number | undefined {
  for (const path of paths) {
    const found = statSync(path, { throwIfNoEntry: false });
    if (found !== undefined) return found.size;
  }
  return undefined;
}

/** Another text once an entry of the folder was added, removed or replaced, or the folder itself. */
function entriesOf(folder: string): string | undefined {
  const found = statSync(folder, { bigint: true, throwIfNoEntry: false });
  return found && `${found.ino} ${found.mtimeNs}`;
}
