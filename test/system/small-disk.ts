import { closeSync, mkdirSync, openSync, rmSync, statfsSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';

const pageBytes = 4096;

/** A file system of a few megabytes that a test fills, while others write to it too. */
export class SmallDisk {
  readonly #filler: string;

  constructor(folder: string) {
    this.#filler = join(folder, 'filler');
  }

  /** Leaves so many bytes free, or fewer. */
  fillBytes(freeBytes: number): void {
    mkdirSync(this.#filler, { recursive: true });
    const path = join(this.#filler, 'bytes');
    const file = openSync(path, 'a');
    try {
      while (this.#freeBytes() > freeBytes) {
        const length = Math.max(pageBytes, Math.min(2 ** 20, this.#freeBytes() - freeBytes));
        writeSync(file, Buffer.alloc(length));
      }
    } catch (error) {
      if (!isFull(error)) throw error;
    } finally {
      closeSync(file);
    }
  }

  /** Leaves room for so many files, or fewer. */
  fillFiles(freeFiles: number): void {
    mkdirSync(this.#filler, { recursive: true });
    try {
      for (let at = 0; statfsSync(this.#filler).ffree > freeFiles; at += 1) {
        writeFileSync(join(this.#filler, `${at}`), '');
      }
    } catch (error) {
      if (!isFull(error)) throw error;
    }
  }

  empty(): void {
    rmSync(this.#filler, { recursive: true, force: true });
  }

  #freeBytes(): number {
    const { bavail, bsize } = statfsSync(this.#filler);
    return bavail * bsize;
  }
}

const isFull = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === 'ENOSPC';
