import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, rmSync, statfsSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { storageFull } from '../../../kernel/errors.ts';
import { isWholeDeletionFile } from '../../../lance-format/check/intact.ts';
import {
  listVersions,
  manifestNames,
  namesIn,
  readManifest,
  stagingFolder,
} from '../../../lance-format/manifest/manifest-files.ts';
import { shadowManifest } from '../../../lance-format/shadow/shadow-manifest.ts';
import { changesIn, type PrivateChanges } from '../../../lance-format/transaction/transaction.ts';
import { makeOwnFolder } from '../commit/staging.ts';
import type { NativeConnection, NativeTable } from '../native/native.ts';

/** Each keeps an open dataset with its manifest, and a few files. */
const mostKept = 32;

/** The folders of shadows that no shadow uses just now: one for each branch, the least recently used removed first. */
export class ShadowFolders {
  readonly #connect: (folder: string) => Promise<NativeConnection>;
  readonly #memoryFolder: string | undefined;
  /** The shadow folders that are kept, by the folder of the branch. */
  readonly #kept = new Map<string, ShadowFolder>();

  /** `connect`: to datasets in a folder, with the engine's present caches. */
  constructor(connect: (folder: string) => Promise<NativeConnection>, memoryFolder: string | undefined) {
    this.#connect = connect;
    this.#memoryFolder = memoryFolder;
  }

  /** The one that was kept, or a new one. It is the caller's alone until `release`. `uri` is where the engine finds the branch. */
  take(branchFolder: string, uri: string): ShadowFolder {
    const kept = this.#kept.get(branchFolder);
    this.#kept.delete(branchFolder);
    // A branch that was deleted took its folder along; the engine's caches would be wrong for another one at its path.
    if (kept?.isUsable === true) return kept;
    void kept?.remove();
    const within = stagingFolder(branchFolder);
    return new ShadowFolder({
      name: randomUUID(),
      uri,
      stagingFolder: within,
      memoryFolder: this.#memoryFolder,
      connect: () => this.#connect(within),
    });
  }

  /** `next` is what the next shadow will probably be of; it is made while the disk is busy with the commit. */
  release(branchFolder: string, folder: ShadowFolder, next?: Original): void {
    void this.#kept.get(branchFolder)?.remove();
    this.#kept.delete(branchFolder);
    this.#kept.set(branchFolder, folder);
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > mostKept && oldest !== undefined) this.#forget(oldest);
    if (next !== undefined) setImmediate(() => this.#prepare(branchFolder, folder, next));
  }

  #prepare(branchFolder: string, folder: ShadowFolder, next: Original): void {
    if (this.#kept.get(branchFolder) === folder && folder.isUsable) folder.prepare(next);
  }

  /** Forgets a dataset and its branches, which are about to go. */
  forgetBelow(datasetPath: string): void {
    for (const branchFolder of this.#kept.keys()) {
      if (branchFolder === datasetPath || branchFolder.startsWith(`${datasetPath}/`)) this.#forget(branchFolder);
    }
  }

  /** Once they are removed: what an orderly stop leaves, no recovery would find. */
  async close(): Promise<void> {
    const kept = [...this.#kept.values()];
    this.#kept.clear();
    await Promise.all(kept.map((folder) => folder.remove()));
  }

  #forget(branchFolder: string): void {
    void this.#kept.get(branchFolder)?.remove();
    this.#kept.delete(branchFolder);
  }
}

/** What the engine writes in a shadow. */
const foldersOfFiles = ['data', '_deletions', '_indices', '_transactions'];
/** Nothing of these folders is moved into the table. */
const foldersOfVersions = ['_versions', '_transactions'];

/** A shadow has three manifests and transactions at most. */
const mostManifestBytesInMemory = 2 ** 18;
const leastFreeBytes = 2 ** 24;

/** A version of the branch. */
export interface Original {
  readonly version: number;
  readonly bytes: Buffer;
}

interface ShadowFolderParts {
  readonly name: string;
  /** The engine finds the branch there. */
  readonly uri: string;
  /** The staging folder of the branch. */
  readonly stagingFolder: string;
  /** A folder on a file system in memory, if there is one. */
  readonly memoryFolder: string | undefined;
  /** Connects to the datasets in the staging folder. */
  readonly connect: () => Promise<NativeConnection>;
}

/**
 * A folder that has one shadow after the other, of the same branch. The engine's caches go by path, so a folder that is kept
 * saves what a new one costs: the index pages and fragment metadata that the next merge needs.
 *
 * Each shadow has later versions than the ones before it: the engine also keeps things by the number of a version.
 *
 * The folders of its versions are links to memory, since of a small merge most files are there: to make one on a disk that
 * discards takes half a millisecond.
 */
export class ShadowFolder {
  readonly name: string;
  readonly path: string;
  /** Readers keep what they know of the folder by it (`ReaderChange`). */
  readonly lineage: string = randomUUID();
  readonly #parts: ShadowFolderParts;
  #table: NativeTable | undefined;
  /** The folder in memory that has its versions; undefined where they are in the folder itself. */
  #memory: string | undefined;
  /** A version was made other than through `table`. */
  #isBehind = false;
  /** The versions that are there are these and those between; undefined once the engine may make others through `table`. */
  #versions: { readonly oldest: number; readonly newest: number } | undefined;
  #prepared: { readonly bytes: Buffer; readonly shadowVersion: number } | undefined;

  constructor(parts: ShadowFolderParts) {
    this.name = parts.name;
    this.path = join(parts.stagingFolder, `${parts.name}.lance`);
    this.#parts = parts;
  }

  /** False once the branch was deleted, or what it has in memory, and while memory has no room for the next shadow. */
  get isUsable(): boolean {
    return existsSync(this.#versionsFolder) && (this.#memory === undefined || hasRoom(this.#memory));
  }

  /** Makes a shadow of the branch's version `original` and returns its own version. Throws `NotReplaceable`. */
  begin(original: Original): number {
    const prepared = this.#prepared;
    this.#prepared = undefined;
    return prepared?.bytes.equals(original.bytes) === true ? prepared.shadowVersion : this.#shadow(original);
  }

  /** Makes the shadow that will probably be begun next, ahead of time. What fails then fails again when it is begun. */
  prepare(original: Original): void {
    try {
      this.#prepared = { bytes: original.bytes, shadowVersion: this.#shadow(original) };
    } catch {
      this.#prepared = undefined;
    }
  }

  #shadow(original: Original): number {
    const before = this.#present();
    const version = Math.max(before.newest + 1, original.version);
    const manifest = shadowManifest(original.bytes, { version, folder: this.#parts.uri });
    for (const name of foldersOfFiles) this.#clear(join(this.path, name));
    if (before.newest === 0) this.#make(manifest.length);
    writeFileSync(join(this.#versionsFolder, manifestNames(version)[0]), manifest);
    for (let each = before.oldest; each > 0 && each <= before.newest; each += 1)
      unlinkSync(join(this.#versionsFolder, manifestNames(each)[0]));
    this.#isBehind = true;
    this.#versions = { oldest: version, newest: version };
    return version;
  }

  /** At the newest version. To look for it takes a millisecond, and a merge in a reader has no need of it. */
  async table(): Promise<NativeTable> {
    if (this.#table === undefined) this.#table = await (await this.#parts.connect()).openTable(this.name, []);
    else if (this.#isBehind) await this.#table.checkoutLatest();
    this.#isBehind = false;
    this.#versions = undefined;
    return this.#table;
  }

  /** The caller says that versions up to this one were made other than through `table`. */
  committedPastHandle(version: number): void {
    this.#isBehind = true;
    this.#versions = { ...this.#present(), newest: version };
  }

  get newestVersion(): number {
    return this.#present().newest;
  }

  changesSince(version: number): PrivateChanges {
    return changesIn(this.#versionsFolder, version, this.newestVersion);
  }

  /** The manifests of this version and those after it, the newest last. */
  manifestsSince(version: number): readonly Buffer[] {
    const versions = Array.from({ length: this.newestVersion - version + 1 }, (_, later) => version + later);
    return versions.flatMap((each) => readManifest(this.#versionsFolder, each)?.bytes ?? []);
  }

  /** Zeros where there is none. A listing costs as much as the rest of a small shadow. */
  #present(): { readonly oldest: number; readonly newest: number } {
    if (this.#versions !== undefined) return this.#versions;
    const listed = listVersions(this.#versionsFolder);
    return { oldest: listed[0] ?? 0, newest: listed.at(-1) ?? 0 };
  }

  /** Whether so little is free on the disk of the shadow that the engine may have cut a file short. */
  get isFull(): boolean {
    return !hasRoom(this.path);
  }

  /** On a full disk the engine cuts a deletion file short and says nothing: no version must name it. Throws `StorageFull`. */
  requireWholeDeletions(): void {
    const folder = join(this.path, '_deletions');
    const short = namesIn(folder).find((name) => !isWholeDeletionFile(join(folder, name)));
    if (short !== undefined) throw storageFull(undefined, { file: short, fault: 'the engine cut it short' });
  }

  /** What stays after a failure goes when the branch is recovered. */
  async remove(): Promise<void> {
    this.#table?.close();
    const paths = [this.path, this.#pathInMemory].filter((path) => path !== undefined);
    await Promise.allSettled(paths.map((path) => rm(path, { recursive: true, force: true })));
  }

  #make(manifestBytes: number): void {
    mkdirSync(this.path, { recursive: true });
    const memory = manifestBytes <= mostManifestBytesInMemory ? this.#madeInMemory() : undefined;
    this.#memory = memory;
    for (const name of foldersOfVersions) {
      const path = join(this.path, name);
      if (memory === undefined) mkdirSync(path);
      else symlinkSync(join(memory, name), path);
    }
  }

  /** undefined where it cannot be: nothing depends on it. */
  #madeInMemory(): string | undefined {
    const path = this.#pathInMemory;
    const { memoryFolder } = this.#parts;
    if (path === undefined || memoryFolder === undefined) return undefined;
    try {
      makeOwnFolder(memoryFolder);
      if (!hasRoom(memoryFolder)) return undefined;
      for (const name of foldersOfVersions) mkdirSync(join(path, name), { recursive: true, mode: 0o700 });
      return path;
    } catch {
      return undefined;
    }
  }

  get #pathInMemory(): string | undefined {
    const { memoryFolder, name } = this.#parts;
    return memoryFolder && join(memoryFolder, `${name}.versions`);
  }

  /** Leaves the folder itself: to remove one takes 3 ms on a disk that discards, and the engine would make it again. */
  #clear(folder: string): void {
    for (const name of namesIn(folder)) rmSync(join(folder, name), { recursive: true });
  }

  get #versionsFolder(): string {
    return join(this.path, '_versions');
  }
}

function hasRoom(folder: string): boolean {
  const { bavail, bsize } = statfsSync(folder);
  return bavail * bsize >= leastFreeBytes;
}
