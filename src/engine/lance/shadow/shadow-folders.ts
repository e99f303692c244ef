import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import {
  listVersions,
  manifestNames,
  readManifest,
  stagingFolder,
} from '../../../lance-format/manifest/manifest-files.ts';
import { shadowManifest } from '../../../lance-format/shadow/shadow-manifest.ts';
import { transactionsBetween } from '../../../lance-format/transaction/transaction.ts';
import type { NativeConnection, NativeTable } from '../native/native.ts';

/** Each keeps an open dataset with its manifest, and a few files. */
const mostKept = 32;

/** The folders of shadows that no shadow uses just now: one for each branch, the least recently used removed first. */
export class ShadowFolders {
  readonly #connect: (folder: string) => Promise<NativeConnection>;
  /** By the folder of the branch. */
  readonly #kept = new Map<string, ShadowFolder>();

  /** `connect`: to datasets in a folder, with the engine's present caches. */
  constructor(connect: (folder: string) => Promise<NativeConnection>) {
    this.#connect = connect;
  }

  /** The one that was kept, or a new one. It is the caller's alone until `release`. */
  take(branchFolder: string): ShadowFolder {
    const kept = this.#kept.get(branchFolder);
    this.#kept.delete(branchFolder);
    // A branch that was deleted took its folder along; the engine's caches would be wrong for another one at its path.
    if (kept !== undefined && existsSync(kept.path)) return kept;
    kept?.remove();
    const within = stagingFolder(branchFolder);
    return new ShadowFolder(randomUUID(), branchFolder, within, () => this.#connect(within));
  }

  release(branchFolder: string, folder: ShadowFolder): void {
    this.#kept.get(branchFolder)?.remove();
    this.#kept.delete(branchFolder);
    this.#kept.set(branchFolder, folder);
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > mostKept && oldest !== undefined) this.#forget(oldest);
  }

  /** Of a dataset and its branches that are about to go, or with caches that were replaced; by default all. */
  forgetBelow(datasetPath = ''): void {
    for (const branchFolder of this.#kept.keys()) {
      if (branchFolder === datasetPath || branchFolder.startsWith(datasetPath && `${datasetPath}/`))
        this.#forget(branchFolder);
    }
  }

  #forget(branchFolder: string): void {
    this.#kept.get(branchFolder)?.remove();
    this.#kept.delete(branchFolder);
  }
}

/** What the engine writes in a shadow. */
const foldersOfFiles = ['data', '_deletions', '_indices', '_transactions'];

/**
 * A folder that has one shadow after the other, of the same branch. The engine's caches go by path, so a folder that is kept
 * saves what a new one costs: the index pages and fragment metadata that the next merge needs.
 *
 * Each shadow has later versions than the ones before it: the engine also keeps things by the number of a version.
 */
export class ShadowFolder {
  readonly name: string;
  readonly path: string;
  /** For `FilteredMerge`: readers keep what they know of the folder. */
  readonly lineage = Symbol('shadow');
  readonly #branchFolder: string;
  readonly #connect: () => Promise<NativeConnection>;
  #table: NativeTable | undefined;

  constructor(name: string, branchFolder: string, stagingFolder: string, connect: () => Promise<NativeConnection>) {
    this.name = name;
    this.path = join(stagingFolder, `${name}.lance`);
    this.#branchFolder = branchFolder;
    this.#connect = connect;
  }

  /** Makes a shadow of the branch's version `original` and returns its own version. Throws `NotReplaceable`. */
  async begin(original: { readonly version: number; readonly bytes: Buffer }): Promise<number> {
    const before = listVersions(this.#versionsFolder);
    const version = Math.max((before.at(-1) ?? 0) + 1, original.version);
    const manifest = shadowManifest(original.bytes, { version, folder: this.#branchFolder });
    for (const name of foldersOfFiles) rmSync(join(this.path, name), { recursive: true, force: true });
    mkdirSync(this.#versionsFolder, { recursive: true });
    writeFileSync(join(this.#versionsFolder, manifestNames(version)[0]), manifest);
    for (const each of before) rmSync(join(this.#versionsFolder, manifestNames(each)[0]));
    await this.catchUp();
    return version;
  }

  async table(): Promise<NativeTable> {
    this.#table ??= await (await this.#connect()).openTable(this.name, []);
    return this.#table;
  }

  /** To be called after something was committed other than through `table`. */
  async catchUp(): Promise<void> {
    await (await this.table()).checkoutLatest();
  }

  get newestVersion(): number {
    return newestVersionIn(this.#versionsFolder);
  }

  /** The newest manifest, and the transactions since `version`. */
  changesSince(version: number): { readonly result: Buffer; readonly steps: readonly Uint8Array[] } {
    return { result: newestManifestIn(this.#versionsFolder).bytes, steps: stepsIn(this.#versionsFolder, version) };
  }

  /** What stays after a failure goes when the branch is recovered. */
  remove(): void {
    this.#table?.close();
    void rm(this.path, { recursive: true, force: true }).catch(() => undefined);
  }

  get #versionsFolder(): string {
    return join(this.path, '_versions');
  }
}

/** Versions that the engine made in a folder of this service, all of them readable. */

export const newestVersionIn = (versionsFolder: string): number => listVersions(versionsFolder).at(-1) ?? 0;

export function newestManifestIn(versionsFolder: string): { readonly path: string; readonly bytes: Buffer } {
  const found = readManifest(versionsFolder, newestVersionIn(versionsFolder));
  if (found === undefined) throw new Error('no manifest where the engine made a version');
  return found;
}

/** The transactions of the versions after `version`, oldest first. */
export function stepsIn(versionsFolder: string, version: number): readonly Uint8Array[] {
  const newest = newestVersionIn(versionsFolder);
  return transactionsBetween(versionsFolder, version, newest, Number.POSITIVE_INFINITY).map((step) => {
    if (step === undefined) throw new Error('a version of the engine without its transaction');
    return step;
  });
}
