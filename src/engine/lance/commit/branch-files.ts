/** Files of a branch that another program has written, as the check of what it proposes needs them. */
import { closeSync, constants, fstatSync, lstatSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { BranchMirror } from '../store/branch-mirror.ts';
import { removeIfPossible } from './version-commit.ts';

/** Paths are relative to the folder of the branch. */
export interface BranchFiles {
  /** undefined where there is no such file; `too large` beyond `most` bytes. */
  read(path: string, most: number): Promise<Buffer | 'too large' | undefined>;
  /** undefined where there is no such file. */
  sizeOf(path: string): Promise<number | undefined>;
  /** Never throws. */
  remove(path: string): void;
}

/** On a file system. What is no plain file, such as a link to another place, is not there. */
export class FolderFiles implements BranchFiles {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  async read(path: string, most: number): Promise<Buffer | 'too large' | undefined> {
    const file = openPlain(join(this.#folder, path));
    if (file === undefined) return undefined;
    try {
      const found = fstatSync(file);
      if (!found.isFile()) return undefined;
      return found.size > most ? 'too large' : readFileSync(file);
    } finally {
      closeSync(file);
    }
  }

  async sizeOf(path: string): Promise<number | undefined> {
    const found = lstatSync(join(this.#folder, path), { throwIfNoEntry: false });
    return found?.isFile() ? found.size : undefined;
  }

  remove(path: string): void {
    removeIfPossible(join(this.#folder, path));
  }
}

/** Does not wait for the other end of a pipe. */
function openPlain(path: string): number | undefined {
  try {
    return openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (['ENOENT', 'ENOTDIR', 'ELOOP', 'EISDIR', 'ENXIO'].includes(code)) return undefined;
    throw error;
  }
}

/** On an object store. */
export class StoreFiles implements BranchFiles {
  readonly #branch: Pick<BranchMirror, 'store' | 'prefix'>;

  constructor(branch: Pick<BranchMirror, 'store' | 'prefix'>) {
    this.#branch = branch;
  }

  async read(path: string, most: number): Promise<Buffer | 'too large' | undefined> {
    const size = await this.sizeOf(path);
    if (size === undefined || size > most) return size === undefined ? undefined : 'too large';
    if (size === 0) return Buffer.alloc(0); // stores refuse an empty range
    // Its writer may have replaced it by a larger one since it was listed.
    return this.#branch.store.get(this.#keyOf(path), { start: 0, end: size });
  }

  async sizeOf(path: string): Promise<number | undefined> {
    const key = this.#keyOf(path);
    const [first] = await Array.fromAsync(this.#branch.store.list({ prefix: key, most: 1 }));
    return first?.key === key ? first.bytes : undefined;
  }

  remove(path: string): void {
    void this.#branch.store.delete([this.#keyOf(path)]).catch(() => undefined);
  }

  #keyOf(path: string): string {
    return `${this.#branch.prefix}${path}`;
  }
}
