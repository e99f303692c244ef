import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { listVersions, manifestNames } from '../../../lance-format/manifest/manifest-files.ts';
import { shadowManifest } from '../../../lance-format/shadow/shadow-manifest.ts';
import type { NativeConnection, NativeTable } from '../native/native.ts';
import { newestManifestIn, newestVersionIn, stepsIn } from './private-versions.ts';

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
