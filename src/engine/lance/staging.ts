/**
 * New rows on their way into a dataset. The engine writes them as a small dataset of their own, in a folder of the one they
 * are for, so that their files need only be renamed. Nothing of it is durable or needed later: what a crash leaves goes when
 * the branch is recovered, or with the next rows that are staged.
 */
import { mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Session } from '@lancedb/lancedb';
import type { IpcFile } from '../../arrow/source.ts';
import { parseManifest } from './manifest.ts';
import { manifestNames } from './manifest-files.ts';
import { connectNative, type NativeConnection } from './native.ts';

/** In the folder of a dataset or branch; the engine knows no such name. */
export const stagingFolder = (folder: string): string => join(folder, '_lancegate');

export interface StagedRows {
  readonly manifest: Buffer;
  readonly rows: number;
  /** Puts the files among those of the dataset, and says where they are. */
  moveTo(dataFolder: string): readonly string[];
  discard(): void;
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

  async stage(file: IpcFile): Promise<StagedRows> {
    this.#connection ??= this.#connect();
    const connection = await this.#connection;
    const name = this.#newName();
    const folder = join(this.#folder, `${name}.lance`);
    const discard = (): void => rmSync(folder, { recursive: true, force: true });
    try {
      (await connection.createTable(name, file, 'create', [])).close();
      const manifest = readFileSync(join(folder, '_versions', manifestNames(1)[0]));
      const { fragments, files } = parseManifest(manifest);
      const rows = fragments.reduce((sum, fragment) => sum + fragment.rows, 0);
      const paths = files.filter(({ kind }) => kind === 'data').map(({ path }) => path);
      const moveTo = (dataFolder: string): readonly string[] => {
        for (const path of paths) renameSync(join(folder, 'data', path), join(dataFolder, path));
        return paths.map((path) => join(dataFolder, path));
      };
      return { manifest, rows, moveTo, discard };
    } catch (error) {
      discard();
      throw error;
    }
  }

  async #connect(): Promise<NativeConnection> {
    rmSync(this.#folder, { recursive: true, force: true });
    mkdirSync(this.#folder, { recursive: true });
    // What is staged is never read, so nothing of it is to be kept.
    return connectNative(this.#folder, {}, new Session(0n, 0n));
  }
}
