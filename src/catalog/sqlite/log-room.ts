/**
 * Room in the write-ahead log of a SQLite database, behind the last transaction in it: its file is made longer ahead of time, so
 * that a full disk cannot refuse what will be written there. The file never gets shorter while it is in use, so a log that begins
 * anew has the room that the one before had.
 *
 * A file system that writes elsewhere what is written again, such as ZFS, may have no room all the same.
 */
import { fstatSync, readSync, writeSync } from 'node:fs';

/** https://www.sqlite.org/fileformat.html#the_write_ahead_log */
const header = { bytes: 32, pageSizeAt: 8, saltAt: 16 };
const frameHeader = { bytes: 24, saltAt: 8 };
const saltBytes = 8;

/** One write makes room for many transactions. */
const stepBytes = 2 ** 18;

export class LogRoom {
  readonly #logFile: number;
  #reservedBytes = 0;
  /** Frames that the log certainly has, if it still has this salt. */
  #frames = 0;
  #salt: Buffer = Buffer.alloc(saltBytes);

  /** `logFile` is a descriptor of the log, which stays open. */
  constructor(logFile: number) {
    this.#logFile = logFile;
  }

  /** For transactions of so many bytes until it is disposed of. Throws the error of `node:fs` where the disk is full. */
  reserve(bytes: number): Disposable {
    // Kept with what is reserved: for transactions that reserve nothing, since they free names and files.
    this.#lengthen(this.#endOfLog() + this.#reservedBytes + bytes + 2 ** 19);
    this.#reservedBytes += bytes;
    return {
      [Symbol.dispose]: () => {
        this.#reservedBytes -= bytes;
      },
    };
  }

  /** So that a transaction of so many bytes takes nothing of what is reserved. Throws as `reserve` does. */
  keepReserved(bytes: number): void {
    if (this.#reservedBytes > 0) this.reserve(bytes)[Symbol.dispose]();
  }

  /** By zeros, which SQLite takes for the end of its log. What was written before a failure stays: it is room. */
  #lengthen(leastBytes: number): void {
    let size = fstatSync(this.#logFile).size;
    if (size >= leastBytes) return;
    const zeros = Buffer.alloc(stepBytes);
    while (size < leastBytes) size += writeSync(this.#logFile, zeros, 0, stepBytes - (size % stepBytes), size);
  }

  /** Behind the last frame that has the salt of the log: those behind it are of a log before, or nothing. */
  #endOfLog(): number {
    const start = this.#read(0, header.bytes);
    const salt = start.subarray(header.saltAt, header.saltAt + saltBytes);
    const frameBytes = frameHeader.bytes + start.readUInt32BE(header.pageSizeAt);
    if (!salt.equals(this.#salt)) this.#frames = 0;
    this.#salt = salt;
    const endOf = (frames: number): number => header.bytes + frames * frameBytes;
    const has = (frame: number): boolean =>
      this.#read(endOf(frame - 1) + frameHeader.saltAt, saltBytes).equals(salt) && frameBytes > frameHeader.bytes;
    this.#frames = lastOf(this.#frames, has);
    return endOf(this.#frames);
  }

  #read(position: number, length: number): Buffer {
    const bytes = Buffer.alloc(length);
    readSync(this.#logFile, bytes, 0, length, position);
    return bytes;
  }
}

/** Finds the last number, `known` or greater, for which `has` holds. It holds for no number above one for which it does not. */
function lastOf(known: number, has: (number: number) => boolean): number {
  let [last, step] = [known, 1];
  for (; has(last + step); step *= 2) last += step;
  for (; step >= 1; step /= 2) if (has(last + step)) last += step;
  return last;
}
