/**
 * The rest of a result waits here if its client does not take it while others wait for its reader: in a file of the scratch
 * folder that has no name, so nothing of it outlives the process. One quota bounds all of them, and a principal has a share of
 * it. What finds no room here stays with its reader.
 */
import { randomUUID } from 'node:crypto';
import { type FileHandle, open, statfs, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { LancegateError } from '../kernel/errors.ts';
import { type Holder, Quota } from '../memory/body-memory.ts';

interface SpoolLimits {
  readonly folder: string;
  /** All spools together may have so many; the disk must have twice as much free. */
  readonly mostBytes: number;
  readonly principalShare: number;
}

export class ResultSpools {
  readonly #folder: string;
  readonly #quota: Quota;
  readonly #principalShare: number;

  constructor({ folder, mostBytes, principalShare }: SpoolLimits) {
    this.#folder = folder;
    this.#quota = new Quota(mostBytes, 'bytes in results that wait for their clients');
    this.#principalShare = principalShare;
  }

  /** Takes nothing before the first bytes come. */
  spoolFor(principal: string): ResultSpool {
    const holder: Holder = { kind: 'principal', name: principal, share: this.#principalShare };
    return new ResultSpool(this.#quota, [holder], () => this.#open());
  }

  /** Returns `undefined` where the disk is nearly full. */
  async #open(): Promise<FileHandle | undefined> {
    const { bavail, bsize } = await statfs(this.#folder);
    if (bavail * bsize < 2 * this.#quota.max) return undefined;
    const path = join(this.#folder, `result-${randomUUID()}`);
    const file = await open(path, 'wx+', 0o600);
    await unlink(path);
    return file;
  }
}

/** Bytes come out as they went in. One caller writes at a time, and one reads. */
export class ResultSpool {
  readonly #quota: Quota;
  readonly #holders: readonly Holder[];
  readonly #open: () => Promise<FileHandle | undefined>;
  #file: FileHandle | undefined;
  #writtenBytes = 0;
  #readBytes = 0;
  /** The file has so many on the disk. */
  #heldBytes = 0;
  #isUsable = true;

  constructor(quota: Quota, holders: readonly Holder[], openFile: () => Promise<FileHandle | undefined>) {
    this.#quota = quota;
    this.#holders = holders;
    this.#open = openFile;
  }

  get unreadBytes(): number {
    return this.#writtenBytes - this.#readBytes;
  }

  /** Returns false where there is no room; the bytes are the caller's to keep then. */
  async write(bytes: Uint8Array): Promise<boolean> {
    if (!this.#isUsable) return false;
    if (this.unreadBytes === 0) this.#beginAnew();
    try {
      this.#hold(this.#writtenBytes + bytes.length);
      this.#file ??= await this.#open();
      if (!this.#isUsable) await this.#file?.close(); // `close` came too early for it
      if (!this.#isUsable || this.#file === undefined) return false;
      await this.#file.write(bytes, 0, bytes.length, this.#writtenBytes);
    } catch {
      return false; // compensated: the quota or the disk is full, or the spool was closed, and the reader keeps the bytes
    }
    this.#writtenBytes += bytes.length;
    return true;
  }

  /** Returns at most so many bytes, of those that were not read yet. */
  async read(mostBytes: number): Promise<Buffer> {
    const buffer = Buffer.allocUnsafe(Math.min(mostBytes, this.unreadBytes));
    const read = await this.#file?.read(buffer, 0, buffer.length, this.#readBytes);
    if (read?.bytesRead !== buffer.length) throw new LancegateError('Internal', 'a spooled result lacks bytes');
    this.#readBytes += buffer.length;
    return buffer;
  }

  close(): void {
    if (!this.#isUsable) return;
    this.#isUsable = false;
    this.#quota.giveBack(this.#heldBytes, this.#holders);
    void this.#file?.close().catch(() => undefined); // it has no name, so it ends with the process at the latest
  }

  #beginAnew(): void {
    this.#writtenBytes = 0;
    this.#readBytes = 0;
  }

  #hold(bytes: number): void {
    if (bytes <= this.#heldBytes) return;
    this.#quota.take(bytes - this.#heldBytes, this.#holders);
    this.#heldBytes = bytes;
  }
}
