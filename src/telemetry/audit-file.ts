/**
 * Audit records in their own file, one JSON object a line, appended in batches off the event loop.
 *
 * A full or stalled disk delays no request: records wait in memory up to a limit, beyond which new ones are lost. A metric, the
 * log and the next written record (`lostBefore`) report how many. A stop writes all that wait. After a crash the records of the
 * last fraction of a second are missing, also those of acknowledged requests: a sync for each record would make every request
 * wait for the disk.
 *
 * After the file was moved or removed, as logrotate does, the next portion goes to a new file of that name.
 */
import { constants } from 'node:fs';
import { type FileHandle, open, stat } from 'node:fs/promises';
import type { Clock } from '../kernel/clock.ts';
import { codeOf } from '../kernel/errors.ts';
import { type Audit, type AuditRecord, auditLine, logRequest } from './audit.ts';
import type { Logger } from './logger.ts';
import type { Metrics } from './metrics.ts';

interface AuditFileParts {
  readonly path: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'auditWritten' | 'auditLost'>;
  /** Only tests set it. */
  readonly maxWaitingBytes?: number;
}

/** A record waits no longer for others. */
const flushAfterMs = 100;

export class AuditFile implements Audit {
  readonly #parts: AuditFileParts;
  readonly #maxWaitingBytes: number;
  #file: FileHandle;
  /** They are of records that are not written yet. */
  readonly #lines: Buffer[] = [];
  #waitingBytes = 0;
  /** How much of the first line the file has. */
  #begunBytes = 0;
  #writing: Promise<void> | undefined;
  #cancelTimer: (() => void) | undefined;
  #nextFileCheckMs = 0;
  #lost = 0;
  #nextLossLogMs = 0;
  #fault: string | undefined;
  #isClosed = false;

  private constructor(parts: AuditFileParts, file: FileHandle) {
    this.#parts = parts;
    // Some thirty thousand records.
    this.#maxWaitingBytes = parts.maxWaitingBytes ?? 16 * 2 ** 20;
    this.#file = file;
  }

  /** Throws an error that names the file if it cannot be opened for writing. */
  static async open(parts: AuditFileParts): Promise<AuditFile> {
    try {
      return new AuditFile(parts, await openFile(parts.path));
    } catch (cause) {
      throw new Error(`the audit log ${parts.path} cannot be opened for appending: ${faultOf(cause)}`, { cause });
    }
  }

  requestEnded(record: AuditRecord): void {
    logRequest(this.#parts.logger, record);
    if (this.#isClosed || this.#waitingBytes >= this.#maxWaitingBytes) {
      this.#lose();
      return;
    }
    const line = Buffer.from(auditLine(record, this.#parts.clock.nowMs(), this.#lost));
    this.#lost = 0;
    this.#lines.push(line);
    this.#waitingBytes += line.length;
    // A quarter of a MiB does not wait.
    if (this.#waitingBytes >= 2 ** 18 && this.#fault === undefined) this.#start();
    else this.#startAfter(flushAfterMs);
  }

  /** Checks at once whether the file was moved; otherwise that takes up to a second. */
  reopen(): void {
    this.#nextFileCheckMs = 0;
    this.#start();
  }

  /** Writes all that wait, but waits at most a few seconds for a stalled disk. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const late = Promise.withResolvers<void>();
    const cancel = this.#parts.clock.schedule(5_000, late.resolve);
    await Promise.race([this.#writeRest(), late.promise]);
    cancel();
    this.#cancelTimer?.();
    const left = this.#lines.length;
    if (left === 0) await this.#file.close();
    else {
      this.#parts.metrics.auditLost(left);
      this.#parts.logger.error({ records: left }, 'audit records are lost: they could not be written before the end');
    }
  }

  async #writeRest(): Promise<void> {
    await this.#writing;
    this.#start();
    await this.#writing;
    if (this.#fault === undefined) await this.#file.datasync().catch(() => undefined); // a pipe cannot be synced
  }

  #lose(): void {
    this.#lost += 1;
    this.#parts.metrics.auditLost(1);
    const { clock, logger, path } = this.#parts;
    if (clock.nowMs() < this.#nextLossLogMs) return;
    this.#nextLossLogMs = clock.nowMs() + 10_000;
    logger.error({ path, fault: this.#fault ?? 'the disk is too slow' }, 'audit records are being lost');
  }

  #startAfter(afterMs: number): void {
    if (this.#writing === undefined) this.#cancelTimer ??= this.#parts.clock.schedule(afterMs, () => this.#start());
  }

  #start(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#writing ??= this.#write().finally(() => {
      this.#writing = undefined;
      if (this.#isClosed) return;
      if (this.#nextFileCheckMs === 0) this.#start();
      else if (this.#lines.length > 0) this.#startAfter(this.#fault === undefined ? flushAfterMs : 1_000);
    });
  }

  /** Ends at the first fault, and keeps what is not written for the next attempt. Never rejects. */
  async #write(): Promise<void> {
    try {
      await this.#followFile();
      while (this.#lines.length > 0) {
        // To make so many into one buffer takes the event loop a millisecond.
        const bytes = Buffer.concat(this.#lines.slice(0, 2_048));
        const { bytesWritten } = await this.#file.write(bytes, this.#begunBytes);
        this.#written(this.#begunBytes + bytesWritten);
      }
      this.#setFault(undefined);
    } catch (error) {
      this.#setFault(faultOf(error));
    }
  }

  /** The file has so many bytes of the lines that waited. */
  #written(bytes: number): void {
    this.#begunBytes = bytes;
    let records = 0;
    for (const { length } of this.#lines) {
      if (length > this.#begunBytes) break;
      this.#begunBytes -= length;
      records += 1;
    }
    this.#lines.splice(0, records);
    this.#waitingBytes -= bytes - this.#begunBytes;
    this.#parts.metrics.auditWritten(records);
  }

  /** If no new file can be created, records still go to the old one. */
  async #followFile(): Promise<void> {
    const nowMs = this.#parts.clock.nowMs();
    if (nowMs < this.#nextFileCheckMs) return;
    this.#nextFileCheckMs = nowMs + 1_000;
    const { path, logger } = this.#parts;
    const [ours, named] = await Promise.all([this.#file.stat(), stat(path).catch(() => undefined)]);
    if (named?.ino === ours.ino && named.dev === ours.dev) return;
    try {
      const old = this.#file;
      this.#file = await openFile(path);
      this.#begunBytes = 0; // the new file gets the whole line
      await old.close();
    } catch (error) {
      logger.warn({ path, fault: faultOf(error) }, 'the audit log was moved, and a new one cannot be created');
    }
  }

  #setFault(fault: string | undefined): void {
    if (fault === this.#fault) return;
    const { logger, path } = this.#parts;
    this.#fault = fault;
    if (fault === undefined) logger.info({ path }, 'audit records are written again');
    else logger.error({ path, fault }, 'audit records cannot be written; they wait in memory');
  }
}

/** Opening a pipe without a reader is an error, not a wait. A new file is for its owner only; an existing one keeps its mode. */
const openFile = (path: string): Promise<FileHandle> =>
  open(path, constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NONBLOCK, 0o600);

function faultOf(error: unknown): string {
  if (codeOf(error) === 'ENXIO') return 'no process reads the pipe';
  return error instanceof Error ? error.message : String(error);
}
