import { closeSync, constants, fsync, openSync } from 'node:fs';
import { promisify } from 'node:util';
import { LancegateError } from '../../../kernel/errors.ts';

/** Makes what was written survive a power cut. A missing file or folder is `ENOENT`. */
export interface FileSync {
  /** The content of a file. */
  file(path: string): Promise<void>;
  /** The names in a folder, not what they name. */
  folder(path: string): Promise<void>;
}

/**
 * `fsync` on this machine's file system. Opening is synchronous: it takes microseconds, a turn of the thread pool more.
 *
 * After a failed `fsync` Linux counts the lost pages as clean, and the next `fsync` of the same file succeeds. So the first
 * failure is remembered, and from then on nothing is reported durable until the process is started again and start-up
 * recovery has looked at what is on the disk.
 */
export class DiskSync implements FileSync {
  readonly #syncDescriptor: (descriptor: number) => Promise<void>;
  #failure: unknown;

  constructor(syncDescriptor: (descriptor: number) => Promise<void> = promisify(fsync)) {
    this.#syncDescriptor = syncDescriptor;
  }

  file(path: string): Promise<void> {
    return this.#sync(path, constants.O_RDONLY);
  }

  folder(path: string): Promise<void> {
    return this.#sync(path, constants.O_RDONLY | constants.O_DIRECTORY);
  }

  async #sync(path: string, flags: number): Promise<void> {
    const descriptor = openSync(path, flags | constants.O_NONBLOCK);
    try {
      await this.#syncDescriptor(descriptor);
    } catch (error) {
      if (!isNotSyncable(error)) this.#failure ??= error;
    } finally {
      closeSync(descriptor);
    }
    if (this.#failure !== undefined) throw diskFailed(this.#failure);
  }
}

/** What has nothing to sync, or no way to: folders on some file systems, pipes. Opening those must not wait, either. */
const isNotSyncable = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === 'EINVAL';

const diskFailed = (cause: unknown): LancegateError =>
  new LancegateError('Internal', 'the disk failed to keep what was written; this service must be restarted', { cause });
