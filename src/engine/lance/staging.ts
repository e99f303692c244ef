/**
 * New rows on their way into a dataset. The engine writes them as a small dataset of their own, in a folder of the one they
 * are for, so that their files need only be renamed. Nothing of it is durable or needed later: what a crash leaves goes when
 * the branch is recovered.
 */
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Session } from '@lancedb/lancedb';
import type { IpcFile } from '../../arrow/source.ts';
import { writeIn } from './deletion-files.ts';
import { parseManifest } from './manifest.ts';
import { listVersions, manifestNames, readManifest } from './manifest-files.ts';
import { connectNative, type NativeConnection } from './native.ts';
import { type RewriteGroup, rewriteGroupsOf } from './place-changes.ts';
import { transactionsBetween } from './row-change.ts';

/**
 * In the folder of a dataset or branch. Below it branches have their folders, too; none can have a name with this sign in it.
 */
export const stagingFolder = (folder: string): string => join(folder, 'lancegate=staging');

/** A dataset of its own until its files are taken. */
export interface Staged {
  readonly manifest: Buffer;
  /** Puts the files among those of the dataset, and says where they are. */
  moveTo(datasetFolder: string): readonly string[];
  /** In a while; what cannot be removed goes when the branch is recovered. */
  discard(): void;
}

export interface StagedRows extends Staged {
  readonly rows: number;
}

export interface StagedFragments extends Staged {
  /** What was put together; the others are as they were. */
  readonly groups: readonly RewriteGroup[];
}

export class Staging {
  readonly #folder: string;
  readonly #newName: () => string;
  #connection: Promise<NativeConnection> | undefined;

  /** `newName`: never the same twice. */
  constructor(folder: string, newName: () => string) {
    this.#folder = stagingFolder(folder);
    this.#newName = newName;
  }

  stage(file: IpcFile): Promise<StagedRows> {
    return this.#inFolder(async ({ connection, name, folder, discard }) => {
      (await connection.createTable(name, file, 'create', [])).close();
      const manifest = readFileSync(join(folder, '_versions', manifestNames(1)[0]));
      const rows = parseManifest(manifest).fragments.reduce((sum, fragment) => sum + fragment.rows, 0);
      return { manifest, rows, moveTo: mover(manifest, folder), discard };
    });
  }

  /** Has the engine put together the fragments of a clone (`clone-manifest.ts`), as far as it thinks that they should be. */
  compact(clone: Buffer): Promise<StagedFragments> {
    return this.#inFolder(async ({ connection, name, folder, discard }) => {
      const versions = join(folder, '_versions');
      mkdirSync(versions, { recursive: true });
      writeFileSync(join(versions, manifestNames(1)[0]), clone);
      const table = await connection.openTable(name, []);
      await table.optimize(0, false).finally(() => table.close());
      const newest = listVersions(versions).at(-1) ?? 1;
      const manifest = readManifest(versions, newest)?.bytes ?? clone;
      const transactions = newest === 1 ? [] : transactionsBetween(versions, 1, newest);
      const groups = transactions.flatMap((each) => (each && rewriteGroupsOf(each)) ?? []);
      return { manifest, groups, moveTo: mover(manifest, folder), discard };
    });
  }

  /** Which is removed if it fails. */
  async #inFolder<Result>(work: (place: StagingPlace) => Promise<Result>): Promise<Result> {
    const connection = await this.#connect();
    const name = this.#newName();
    const folder = join(this.#folder, `${name}.lance`);
    const discard = (): void => void rm(folder, { recursive: true, force: true }).catch(() => undefined);
    try {
      return await work({ connection, name, folder, discard });
    } catch (error) {
      discard();
      throw error;
    }
  }

  #connect(): Promise<NativeConnection> {
    mkdirSync(this.#folder, { recursive: true });
    // What is staged is never read, so nothing of it is to be kept.
    this.#connection ??= connectNative(this.#folder, {}, new Session(0n, 0n));
    return this.#connection;
  }
}

interface StagingPlace {
  readonly connection: NativeConnection;
  readonly name: string;
  readonly folder: string;
  readonly discard: () => void;
}

/** Takes what lies in the folder itself: a clone has files elsewhere, too. All of it, or none. */
function mover(manifest: Buffer, folder: string): (datasetFolder: string) => readonly string[] {
  const own = parseManifest(manifest).files.filter(({ kind, baseId }) => kind === 'data' && baseId === undefined);
  return (datasetFolder) => {
    const moved: string[] = [];
    try {
      for (const { path } of own) {
        const target = join(datasetFolder, 'data', path);
        writeIn(datasetFolder, 'data', () => renameSync(join(folder, 'data', path), target));
        moved.push(target);
      }
      return moved;
    } catch (error) {
      for (const path of moved) rmSync(path, { force: true });
      throw error;
    }
  };
}
