/**
 * What operations ask of readers (`Queries`), and the messages between the service and a reader process (P12): one order at a
 * time, which may be a query, a step of a write, or work on an index or a compaction.
 *
 * A message over the channel is a header of JSON and, for rows, bytes: eight bytes of lengths (header, bytes; little endian),
 * the header and the bytes. The channel's back-pressure applies to the messages.
 */
import type { Duplex } from 'node:stream';
import type { ChangeStep } from '../engine/port/change.ts';
import type { RowsBetween } from '../engine/port/dataset.ts';
import type { IndexSpec } from '../engine/port/index-spec.ts';
import type { MergeCounts } from '../engine/port/merge-spec.ts';
import type { PlanForm, QuerySpec } from '../engine/port/query-spec.ts';
import type { CompactionResult, CompactionSpec, RowsToRead, ToTry } from '../engine/port/reader-work.ts';
import type { CheckedSql } from '../kernel/checked-sql.ts';
import { type ErrorName, errorCatalogue, LancegateError } from '../kernel/errors.ts';
import type { BranchName, Location, Properties } from '../kernel/ids.ts';
import type { RequestScope } from '../kernel/request-scope.ts';
import type { AnswerForm } from '../rows/answer-form.ts';
import type { ChangesSpec } from './row-changes.ts';

export interface Queries {
  /**
   * Answers, or rejects with the reason of the scope's signal, as soon as that aborts. `ReaderDied`; `SlowDown`; and what
   * `Engine.open` and `Dataset.countRows` throw.
   */
  count(at: ReadAt, predicate: CheckedSql, scope: RequestScope): Promise<number>;
  /**
   * Resolves once the first bytes of the result are there, or all of them. Rejects as `count`, and with what `RowQueries.query`
   * throws; so does the reading of `parts`, which ends in the middle then.
   */
  query(at: ReadAt, spec: QuerySpec, form: AnswerForm, scope: RequestScope): Promise<QueryResult>;
  /** As `query`: the rows that differ between two versions of a branch, and what was done to each. `ChangesGone`. */
  changes(asked: AskedChanges, form: AnswerForm, scope: RequestScope): Promise<QueryResult>;
  /** Rejects as `count`, and with what `RowQueries.explain` throws. */
  explain(at: ReadAt, spec: QuerySpec, form: PlanForm, scope: RequestScope): Promise<string>;
}

export interface AskedChanges extends Pick<ChangesSpec, 'after' | 'columns' | 'on'> {
  readonly location: Location;
  readonly branch: BranchName | undefined;
  readonly until: number;
  readonly rows: RowsBetween;
}

/** The rows have the form that was asked for. */
export interface QueryResult {
  /**
   * Each is computed when it is asked for, or a little before; its bytes are gone once the next one is asked for. To be read to the
   * end or left, which ends the query.
   */
  readonly parts: AsyncIterable<Uint8Array>;
  /** It has all of the bytes, if they are few and there already; then `parts` need not be read. */
  readonly whole: Uint8Array | undefined;
  /** Undefined until the last byte has been read. */
  facts(): QueryFacts | undefined;
}

export interface QueryFacts {
  /** This version was read. */
  readonly version: number;
  readonly rows: number;
}

/** The first message says how the reader reaches the tables. */
export interface ReaderSetup {
  readonly root: string;
  /** May hold credentials, so they are sent here and not in an argument or environment variable. */
  readonly rootOptions: Properties;
  readonly scratchFolder: string;
  readonly indexCacheBytes: number;
  readonly metadataCacheBytes: number;
  /** The reader kills itself beyond so much resident memory, unless the order may have more. */
  readonly memoryBytes: number;
  /** Its engine threads are scheduled so far behind the service (`setpriority(2)`). */
  readonly niceness: number;
}

/** It names a dataset, and has what the service knows of it. */
export interface ReadAt {
  /** The location is under the storage root, in a shadow there, or in the folder for intermediate results. */
  readonly store: 'root' | 'shadow' | 'scratch';
  readonly location: Location;
  readonly branch?: BranchName | undefined;
  readonly version: number;
  /**
   * The reader reads the version or a newer one (P11), from a dataset that it keeps open for the next order of this lineage
   * (`Dataset.lineage`). Where it is undefined, it reads that version alone.
   */
  readonly lineage?: string | undefined;
}

export type Work =
  | { readonly kind: 'count'; readonly predicate: CheckedSql }
  /** The file of the step is the bytes of the message. */
  | { readonly kind: 'change'; readonly step: ChangeStep; readonly timeoutMs: number | undefined }
  | { readonly kind: 'read'; readonly what: Pick<RowsToRead, 'columns' | 'where' | 'rows'> }
  | { readonly kind: 'index'; readonly spec: IndexSpec }
  | { readonly kind: 'compact'; readonly spec: CompactionSpec }
  | { readonly kind: 'trial'; readonly toTry: ToTry }
  | { readonly kind: 'query'; readonly spec: QuerySpec; readonly answer: AnswerForm }
  | { readonly kind: 'changes'; readonly spec: ChangesSpec; readonly answer: AnswerForm }
  | { readonly kind: 'explain'; readonly spec: QuerySpec; readonly form: PlanForm };

/** An order has a purpose: it answers a client who reads, it is a part of a write, or it keeps a table fast. */
export type Purpose = 'reading' | 'writing' | 'upkeep';

export function purposeOf(kind: Work['kind']): Purpose {
  switch (kind) {
    case 'count':
    case 'query':
    case 'changes':
    case 'explain':
      return 'reading';
    case 'change':
    case 'read':
    case 'trial':
    case 'index':
      return 'writing';
    case 'compact':
      return 'upkeep';
  }
}

export interface Order {
  readonly at: ReadAt;
  readonly work: Work;
  /** It may have so much resident memory beyond the reader's own; none if absent. */
  readonly extraBytes?: number;
}

export type ReaderOutcome =
  | { readonly kind: 'counted'; readonly rows: number }
  | { readonly kind: 'changed'; readonly counts: MergeCounts }
  | { readonly kind: 'built' }
  | ({ readonly kind: 'compacted' } & CompactionResult)
  /** It says why the version cannot be read; undefined where it can. */
  | { readonly kind: 'tried'; readonly fault: string | undefined }
  | ({ readonly kind: 'queried' } & QueryFacts)
  | { readonly kind: 'explained'; readonly plan: string }
  | { readonly kind: 'refused'; readonly refusal: PlainError };

/** An outcome that is no refusal comes with the last bytes of a query's result. */
export type Answered =
  | Exclude<ReaderOutcome, { readonly kind: 'refused' | 'queried' }>
  | ({ readonly kind: 'queried'; readonly bytes: Buffer } & QueryFacts);

/** These bytes of a result are as they came from the channel. */
export interface ResultPart {
  readonly bytes: Buffer;
  /** The chunk of the channel ends with these bytes, so it can be freed when they have been read. */
  readonly readChunk: Buffer | undefined;
}

/** Resolves when more bytes of a result are wanted, or none ever will be. */
export type TakeBytes = (part: ResultPart) => Promise<void>;

/** A message of a reader has no more bytes. */
export const mostReplyBytes = 256 * 1024;

/** Requires the outcome to be that of an order of this kind. */
export function expectAnswer<Kind extends Answered['kind']>(
  answered: Answered,
  kind: Kind,
): Extract<Answered, { readonly kind: Kind }> {
  const isOfKind = (of: Answered): of is Extract<Answered, { readonly kind: Kind }> => of.kind === kind;
  if (isOfKind(answered)) return answered;
  throw new LancegateError('Internal', 'a reader answered another question');
}

export type Reply =
  | { readonly kind: 'ready' }
  /** The next bytes of the result of a query; more messages follow. */
  | { readonly kind: 'bytes' }
  /** Its bytes are the last of a query's result. `isSpent`: the reader holds so much memory that the next order might have too little. */
  | { readonly kind: 'done'; readonly outcome: ReaderOutcome; readonly isSpent: boolean }
  /** A reader that kills itself sends it last. */
  | { readonly kind: 'beyond memory'; readonly residentBytes: number };

/** It has the data of a `LancegateError`. */
interface PlainError {
  readonly kind: ErrorName;
  readonly message: string;
  readonly internal?: Readonly<Record<string, unknown>> | undefined;
  readonly retryAfterSeconds?: number | undefined;
  /** The log has the text of the cause. */
  readonly cause?: string | undefined;
}

export function plainError(error: unknown): PlainError {
  const known =
    error instanceof LancegateError ? error : new LancegateError('Internal', 'a reader failed', { cause: error });
  const { kind, message, internal, retryAfterSeconds, cause } = known;
  const text = cause instanceof Error ? (cause.stack ?? cause.message) : cause;
  return {
    kind,
    message,
    internal,
    retryAfterSeconds,
    cause: text === undefined ? undefined : String(text).slice(0, 4_000),
  };
}

export function errorOf({ kind, message, internal, retryAfterSeconds, cause }: PlainError): LancegateError {
  const known: ErrorName = Object.hasOwn(errorCatalogue, kind) ? kind : 'Internal';
  return new LancegateError(known, message, {
    ...(cause === undefined ? {} : { cause }),
    ...(internal === undefined ? {} : { internal }),
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
  });
}

export interface MessageFrame {
  readonly header: unknown;
  /** They are in memory of their own. */
  readonly bytes: Buffer;
}

const lengthsBytes = 8;
const noBytes = Buffer.alloc(0);

/** So few bytes are copied into one buffer, which costs the system less than several. */
const fewBytes = 16 * 1024;

/** Returns whether the channel takes more at once; otherwise it says 'drain' when it does. */
export function writeFrame(channel: Duplex, header: unknown, bytes: readonly Uint8Array[] = []): boolean {
  const length = lengthOf(bytes);
  const head = frameHead(header, length);
  if (length === 0) return channel.write(head);
  if (length <= fewBytes) return channel.write(Buffer.concat([head, ...bytes], head.length + length));
  channel.cork();
  let takesMore = channel.write(head);
  for (const part of bytes) takesMore = channel.write(part);
  channel.uncork();
  return takesMore;
}

export const lengthOf = (parts: readonly Uint8Array[]): number => parts.reduce((sum, { length }) => sum + length, 0);

/** Returns the lengths and the header of a message. */
export function frameHead(header: unknown, bytesLength = 0): Buffer {
  const text = JSON.stringify(header);
  const textLength = Buffer.byteLength(text);
  const head = Buffer.allocUnsafe(lengthsBytes + textLength);
  head.writeUInt32LE(textLength, 0);
  head.writeUInt32LE(bytesLength, 4);
  head.write(text, lengthsBytes);
  return head;
}

/** Throws on a malformed frame, or one with more bytes than `mostBytes`; ends when the stream does. */
export async function* readFrames(channel: Duplex, mostBytes: number): AsyncGenerator<MessageFrame, void, void> {
  const frames = new FrameReader(channel, mostBytes);
  for (;;) {
    const message = await frames.next();
    if (message === undefined) return;
    yield { header: message.header, bytes: await frames.bytes() };
  }
}

/** Reads the messages of a channel, one after the other. The bytes of each are to be read before the next one. */
export class FrameReader {
  readonly #incoming: Incoming;
  readonly #mostBytes: number;
  /** So many bytes of the present message were not read yet. */
  #left = 0;

  constructor(channel: Duplex, mostBytes: number) {
    this.#incoming = new Incoming(channel);
    this.#mostBytes = mostBytes;
  }

  /** Returns undefined at the end. Throws on a malformed frame, or one with more than `mostBytes`. */
  async next(): Promise<{ readonly header: unknown } | undefined> {
    const lengths = this.#incoming.view(lengthsBytes) ?? (await this.#incoming.copy(lengthsBytes));
    if (lengths === undefined) return undefined;
    const headerLength = lengths.readUInt32LE(0);
    this.#left = lengths.readUInt32LE(4);
    // A header fits a predicate of the largest JSON body, escaped.
    if (headerLength > 64 * 2 ** 20 || this.#left > this.#mostBytes)
      throw new LancegateError('Internal', 'a message is too long');
    const text = this.#incoming.view(headerLength) ?? (await this.#incoming.copy(headerLength));
    if (text === undefined) throw cutOff();
    const header: unknown = JSON.parse(text.toString());
    return { header };
  }

  /** Returns all bytes of the message, in memory of their own. */
  async bytes(): Promise<Buffer> {
    if (this.#left === 0) return noBytes;
    const whole = await this.#incoming.copy(this.#left);
    if (whole === undefined) throw cutOff();
    this.#left = 0;
    return whole;
  }

  /** Returns the next bytes of the message, as they came; undefined behind the last. */
  async part(): Promise<ResultPart | undefined> {
    if (this.#left === 0) return undefined;
    const part = await this.#incoming.part(this.#left);
    if (part === undefined) throw cutOff();
    this.#left -= part.bytes.length;
    return part;
  }
}

const cutOff = (): LancegateError => new LancegateError('Internal', 'the channel ended in the middle of a message');

/** The channel is not read on while so many bytes wait. */
const mostWaitingBytes = 256 * 1024;

/** Reads a stream by numbers of bytes. */
class Incoming {
  readonly #channel: Duplex;
  readonly #chunks: Buffer[] = [];
  #waitingBytes = 0;
  /** So much of the first chunk was read. */
  #offset = 0;
  #end: { readonly error: Error | undefined } | undefined;
  #wake: () => void = () => undefined;

  constructor(channel: Duplex) {
    this.#channel = channel;
    channel.on('data', (chunk: Buffer) => this.#add(chunk));
    channel.once('end', () => this.#finish(undefined));
    channel.once('error', (error: Error) => this.#finish(error));
    channel.once('close', () => this.#finish(undefined));
  }

  /**
   * Returns them at once and where they lie, for reading before anything else is read; undefined if they are not all in one
   * chunk.
   */
  view(count: number): Buffer | undefined {
    const chunk = this.#chunks[0];
    if (chunk === undefined || this.#offset + count > chunk.length) return undefined;
    const bytes = chunk.subarray(this.#offset, this.#offset + count);
    this.#pass(chunk, count);
    return bytes;
  }

  /** Returns them in memory of their own; undefined if the stream ends before. */
  async copy(count: number): Promise<Buffer | undefined> {
    const whole = Buffer.allocUnsafeSlow(count);
    for (let filled = 0; filled < count; ) {
      const chunk = this.#chunks[0] ?? (await this.#first());
      if (chunk === undefined) return undefined;
      const copied = chunk.copy(whole, filled, this.#offset);
      filled += copied;
      this.#pass(chunk, copied);
    }
    return whole;
  }

  /** Returns at most so many bytes; undefined if the stream has ended. */
  async part(most: number): Promise<ResultPart | undefined> {
    const chunk = this.#chunks[0] ?? (await this.#first());
    if (chunk === undefined) return undefined;
    const bytes = chunk.subarray(this.#offset, this.#offset + most);
    const isLast = this.#offset + bytes.length === chunk.length;
    this.#pass(chunk, bytes.length);
    return { bytes, readChunk: isLast ? chunk : undefined };
  }

  async #first(): Promise<Buffer | undefined> {
    while (this.#chunks.length === 0 && this.#end === undefined) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    if (this.#chunks.length === 0 && this.#end?.error !== undefined) throw this.#end.error;
    return this.#chunks[0];
  }

  #add(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#waitingBytes += chunk.length;
    if (this.#waitingBytes >= mostWaitingBytes) this.#channel.pause();
    this.#wake();
  }

  #pass(chunk: Buffer, count: number): void {
    this.#offset += count;
    if (this.#offset < chunk.length) return;
    this.#offset = 0;
    this.#chunks.shift();
    this.#waitingBytes -= chunk.length;
    if (this.#waitingBytes < mostWaitingBytes && this.#channel.isPaused()) this.#channel.resume();
  }

  #finish(error: Error | undefined): void {
    this.#end ??= { error };
    this.#wake();
  }
}

/**
 * Frees a chunk that no one reads any more. The collector would free those of a large result only by collecting the whole heap again
 * and again.
 */
export function free({ buffer, byteLength }: Buffer): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0);
}
