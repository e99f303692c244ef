import { randomUUID } from 'node:crypto';
import { type FileHandle, open, statfs, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../kernel/clock.ts';
import { LancegateError } from '../kernel/errors.ts';
import { onAbort } from '../kernel/request-scope.ts';
import { type Holder, Quota } from '../memory/body-memory.ts';
import { free, type ResultPart } from './message-frames.ts';
import { type Answered, expectAnswer, type QueryFacts, type QueryResult } from './protocol.ts';

type Queried = Extract<Answered, { readonly kind: 'queried' }>;

interface RelayParts {
  /** The request has this signal. */
  readonly signal: AbortSignal;
  readonly clock: Clock;
  readonly spool: ResultSpool;
  /** Says whether a query that waits would have the reader of this one, or such a query of another principal. */
  readonly isReaderWanted: (by: 'anybody' | 'others') => boolean;
}

/** A reader waits for its client so long in all before others that wait count. */
const waitsForClientMs = 100;
const lookEveryMs = 25;
/** A result that is too long to be spooled waits so long for a client that takes less than this, while others wait. */
const waitsWhileWantedMs = 2_000;
const leastBytesPerMs = 16_000;
const spooledPartBytes = 256 * 1024;

/**
 * Relays the bytes of a result from a reader to a client, one message at a time: the reader's next message is not taken before
 * the client's side has asked for it, so the reader goes no faster than the client. Where others wait for the reader of a
 * client that lets it wait, the rest of the result is spooled, and the reader is free as soon as it has computed it (P10).
 */
export class RelayedResult implements QueryResult {
  /** Ends the query: aborts with the request, or once the result is left. */
  readonly signal: AbortSignal;
  readonly #parts: RelayParts;
  readonly #ending = new AbortController();
  readonly #started = Promise.withResolvers<void>();
  #waiting: ResultPart | undefined;
  #taken: () => void = () => undefined;
  #wake: () => void = () => undefined;
  /** How long the reader has waited for the client. */
  #waitedMs = 0;
  /** What the client has taken so far. */
  #takenBytes = 0;
  /** Since when there is no room to spool, and what the client had taken by then. */
  #full: { readonly sinceMs: number; readonly takenBytes: number } | undefined;
  #queried: Queried | undefined;
  #failure: unknown;
  #whole: Buffer | undefined;
  #hasStarted = false;
  #isRead = false;

  constructor(parts: RelayParts) {
    this.#parts = parts;
    this.signal = this.#ending.signal;
    onAbort(parts.signal, () => this.#ending.abort(parts.signal.reason));
    onAbort(this.signal, () => this.#fail(this.signal.reason));
    this.#started.promise.catch(() => undefined); // each wait on `started` handles it
  }

  /** Resolves when there are bytes to read; rejects with what ended the query before that. */
  get started(): Promise<void> {
    return this.#started.promise;
  }

  get whole(): Buffer | undefined {
    return this.#whole;
  }

  get parts(): AsyncIterable<Uint8Array> {
    return this.#read();
  }

  facts(): QueryFacts | undefined {
    const isDone = this.#isRead || this.#whole !== undefined;
    return isDone ? this.#queried : undefined;
  }

  /** Resolves when the client's side has asked for the bytes, when they are spooled, or when the query has ended. */
  readonly take = async (part: ResultPart): Promise<void> => {
    if (this.#failure !== undefined) return;
    const { clock, spool, isReaderWanted } = this.#parts;
    const sinceMs = clock.nowMs();
    const waitedBeforeMs = this.#waitedMs;
    this.#offer(part);
    this.#started.resolve();
    for (let mayWait = spool.unreadBytes === 0; this.#waiting === part; mayWait = true) {
      if (mayWait) await this.#takenWithin(lookEveryMs);
      this.#waitedMs = waitedBeforeMs + clock.nowMs() - sinceMs;
      if (this.#waiting !== part || this.#waitedMs < waitsForClientMs || !isReaderWanted('anybody')) continue;
      if (!(await this.#spool(part)) && this.#isTooSlow() && isReaderWanted('others')) this.#giveUp();
    }
  };

  /** The reader has answered, or it never will. */
  follow(answered: Promise<Answered>): void {
    answered.then((answer) => this.#end(expectAnswer(answer, 'queried'))).catch((error: unknown) => this.#fail(error));
  }

  #end(answer: Queried): void {
    if (!this.#hasStarted) this.#whole = answer.bytes;
    this.#queried = answer;
    this.#offer({ bytes: answer.bytes, readChunk: undefined });
    this.#started.resolve();
  }

  #offer(part: ResultPart): void {
    this.#hasStarted = true;
    this.#waiting = part;
    this.#wake();
  }

  #takenWithin(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#parts.clock.schedule(ms, resolve);
      this.#taken = () => {
        cancel();
        resolve();
      };
    });
  }

  /** The part is still the one that waits where this returns false. The client's side asks for nothing meanwhile. */
  async #spool(part: ResultPart): Promise<boolean> {
    this.#waiting = undefined;
    const isSpooled = await this.#parts.spool.write(part.bytes);
    if (isSpooled && part.readChunk !== undefined) free(part.readChunk);
    if (!isSpooled && this.#failure === undefined) this.#waiting = part;
    if (isSpooled) this.#full = undefined;
    else this.#full ??= { sinceMs: this.#parts.clock.nowMs(), takenBytes: this.#takenBytes };
    this.#wake();
    return isSpooled;
  }

  #isTooSlow(): boolean {
    if (this.#full === undefined) return false;
    const fullForMs = this.#parts.clock.nowMs() - this.#full.sinceMs;
    return fullForMs > waitsWhileWantedMs && this.#takenBytes - this.#full.takenBytes < fullForMs * leastBytesPerMs;
  }

  #giveUp(): void {
    this.#fail(new LancegateError('TimedOut', 'the client takes the answer too slowly while others wait for a reader'));
    this.#ending.abort();
  }

  #fail(error: unknown): void {
    this.#failure ??= error;
    this.#waiting = undefined;
    this.#parts.spool.close();
    this.#started.reject(error);
    this.#taken();
    this.#wake();
  }

  async *#read(): AsyncGenerator<Buffer, void, void> {
    try {
      for (;;) {
        const next = await this.#next();
        if (next === undefined) break;
        yield next.bytes;
        if (next.readChunk !== undefined) free(next.readChunk);
      }
      this.#isRead = true;
    } finally {
      this.#parts.spool.close();
      if (!this.#isRead) this.#ending.abort();
    }
  }

  async #next(): Promise<ResultPart | undefined> {
    const part = await this.#nextPart();
    this.#takenBytes += part?.bytes.length ?? 0;
    return part;
  }

  async #nextPart(): Promise<ResultPart | undefined> {
    const { spool } = this.#parts;
    for (;;) {
      if (this.#failure !== undefined) throw this.#failure;
      if (spool.unreadBytes > 0) return { bytes: await spool.read(spooledPartBytes), readChunk: undefined };
      const part = this.#waiting;
      if (part !== undefined) {
        this.#waiting = undefined;
        this.#taken();
        return part;
      }
      if (this.#queried !== undefined) return undefined;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}

interface SpoolLimits {
  readonly folder: string;
  /** The limit of all spools together. The disk must have twice as much free. */
  readonly mostBytes: number;
  readonly principalShare: number;
}

/**
 * The rest of a result waits here if its client does not take it while others wait for its reader: in a file of the scratch folder that has no name, so nothing of it outlives the process. One quota bounds all of them, and a principal has a share of it. What finds no room here stays with its reader.
 */
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
class ResultSpool {
  readonly #quota: Quota;
  readonly #holders: readonly Holder[];
  readonly #open: () => Promise<FileHandle | undefined>;
  #file: FileHandle | undefined;
  #writtenBytes = 0;
  #readBytes = 0;
  /** What the file takes on the disk. */
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

  /** Returns at most `mostBytes`, of those that were not read yet. */
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
