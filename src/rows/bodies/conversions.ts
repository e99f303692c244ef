/**
 * Bodies of text that become Arrow IPC streams. Small ones are converted where they arrive. The others share a thread, so that the
 * event loop goes on serving (P10).
 */
import { setImmediate } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import type { Schema } from '../../arrow/schema/schema.ts';
import { type ErrorName, LancegateError } from '../../kernel/errors.ts';
import type { InvalidReport, InvalidRows } from '../../kernel/invalid-rows.ts';
import type { RowFormat } from '../answer-form.ts';
import { RowConversion } from './row-conversion.ts';

/** The thread answers all messages but `leave`, before the next one of the body is sent. */
export type ToConvert = { readonly body: number } & (
  | {
      readonly kind: 'begin';
      readonly format: RowFormat;
      readonly table: Schema | undefined;
      readonly isExtending: boolean;
      readonly leavesOut: boolean;
    }
  | { readonly kind: 'add'; readonly bytes: Uint8Array<ArrayBuffer> }
  | { readonly kind: 'more' | 'end' | 'leave' }
);

/** The rest of the parts is asked for with `more` where `isMore`. */
export interface ConvertedParts {
  readonly parts: readonly Uint8Array[];
  readonly isMore: boolean;
  /** The rows that were left out so far, where they are left out and no part is left. */
  readonly invalid?: InvalidReport | undefined;
}

export type Converted = { readonly body: number } & (
  | ConvertedParts
  | { readonly fault: { readonly kind: ErrorName; readonly message: string; readonly cause?: unknown } }
);

/** It takes as long to start and ask the thread as to convert some of these here. */
const smallBytes = 32 << 10;

export class Conversions {
  #thread: Worker | undefined;
  readonly #waiting = new Map<number, PromiseWithResolvers<ConvertedParts>>();
  /** The thread has a part of these bodies. */
  readonly #begun = new Set<number>();
  #lastBody = 0;

  /** A text with more bytes than `mostBytes` is `BodyTooLarge`. */
  open(format: RowFormat, mostBytes = Number.POSITIVE_INFINITY): TextConversion {
    this.#lastBody += 1;
    return new TextConversion(this, this.#lastBody, { format, mostBytes });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#thread?.terminate();
  }

  /** Answers what comes of the message. A body whose thread has ended is refused: another thread does not have the rows before. */
  async ask(message: ToConvert): Promise<ConvertedParts> {
    if (message.kind === 'begin') this.#begun.add(message.body);
    if (!this.#begun.has(message.body)) throw threadEnded();
    const waiting = Promise.withResolvers<ConvertedParts>();
    this.#waiting.set(message.body, waiting);
    this.#running().postMessage(message, message.kind === 'add' ? [message.bytes.buffer] : []);
    return waiting.promise;
  }

  /** Nothing waits for a body that is left. */
  leave(body: number): void {
    this.#begun.delete(body);
    this.#thread?.postMessage({ body, kind: 'leave' } satisfies ToConvert);
  }

  #running(): Worker {
    if (this.#thread !== undefined) return this.#thread;
    const thread = new Worker(new URL('./conversion-thread.ts', import.meta.url), {
      execArgv: [],
      // The bodies of the memory plan cannot reach it together; a thread beyond it is ended.
      resourceLimits: { maxOldGenerationSizeMb: 512 },
    });
    thread.unref();
    thread.on('message', (converted: Converted) => this.#answered(converted));
    thread.on('error', (error) => this.#ended(thread, error));
    thread.on('exit', () => this.#ended(thread));
    this.#thread = thread;
    return thread;
  }

  #answered(converted: Converted): void {
    const waiting = this.#waiting.get(converted.body);
    this.#waiting.delete(converted.body);
    if ('parts' in converted) waiting?.resolve(converted);
    else {
      const { kind, message, cause } = converted.fault;
      waiting?.reject(new LancegateError(kind, message, cause === undefined ? {} : { cause }));
    }
  }

  /** The next body has another thread. */
  #ended(thread: Worker, cause?: Error): void {
    if (this.#thread !== thread) return;
    this.#thread = undefined;
    const error = threadEnded(cause);
    this.#begun.clear();
    for (const waiting of this.#waiting.values()) waiting.reject(error);
    this.#waiting.clear();
  }
}

const threadEnded = (cause?: Error): LancegateError =>
  new LancegateError('SlowDown', 'the rows that are being read take too much memory; nothing was written', {
    cause,
    retryAfterSeconds: 1,
  });

const tooLarge = (mostBytes: number): LancegateError =>
  new LancegateError('BodyTooLarge', `the text has more than the ${mostBytes} bytes that this service accepts`);

/** The bytes are in memory of their own, which can go to the thread. A client may send each byte alone, and each costs a message there. */
function joined(pieces: readonly Uint8Array[], length: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(length);
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return bytes;
}

class TextConversion {
  readonly #conversions: Conversions;
  readonly #body: number;
  readonly #format: RowFormat;
  readonly #mostBytes: number;
  #table: Schema | undefined;
  #isExtending = false;
  #invalid: InvalidRows | undefined;
  #isInThread = false;

  constructor(
    conversions: Conversions,
    body: number,
    { format, mostBytes }: { readonly format: RowFormat; readonly mostBytes: number },
  ) {
    this.#conversions = conversions;
    this.#body = body;
    this.#format = format;
    this.#mostBytes = mostBytes;
  }

  into(table: Schema, isExtending: boolean): void {
    this.#table = table;
    this.#isExtending = isExtending;
  }

  leaveOut(invalid: InvalidRows): void {
    this.#invalid = invalid;
  }

  /** Bytes of `text` may be used for something else once the next ones are asked for. */
  async *convert(text: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, void> {
    let bytes = 0;
    let held: Uint8Array[] = [];
    let heldBytes = 0;
    for await (const piece of text) {
      bytes += piece.length;
      if (bytes > this.#mostBytes) throw tooLarge(this.#mostBytes);
      held.push(Uint8Array.from(piece));
      heldBytes += piece.length;
      if (heldBytes <= smallBytes) continue;
      yield* this.#add(joined(held, heldBytes));
      [held, heldBytes] = [[], 0];
    }
    const rest = joined(held, heldBytes);
    if (!this.#isInThread) {
      yield* this.#convertHere(rest);
      return;
    }
    yield* this.#add(rest);
    yield* this.#parts({ body: this.#body, kind: 'end' });
  }

  /** What the thread has of the body is dropped. */
  close(): void {
    if (this.#isInThread) this.#conversions.leave(this.#body);
    this.#isInThread = false;
  }

  /** Begins in the thread with the first bytes. */
  async *#add(bytes: Uint8Array<ArrayBuffer>): AsyncGenerator<Uint8Array, void, void> {
    const body = this.#body;
    if (!this.#isInThread) {
      this.#isInThread = true;
      await this.#conversions.ask({
        body,
        kind: 'begin',
        format: this.#format,
        table: this.#table,
        isExtending: this.#isExtending,
        leavesOut: this.#invalid !== undefined,
      });
    }
    yield* this.#parts({ body, kind: 'add', bytes });
  }

  async *#parts(message: ToConvert): AsyncGenerator<Uint8Array, void, void> {
    let answered = await this.#conversions.ask(message);
    yield* answered.parts;
    while (answered.isMore) {
      answered = await this.#conversions.ask({ body: message.body, kind: 'more' });
      yield* answered.parts;
    }
    if (answered.invalid) this.#invalid?.take(answered.invalid);
  }

  async *#convertHere(text: Uint8Array): AsyncGenerator<Uint8Array, void, void> {
    const invalid = this.#invalid;
    const leftOut = invalid && ((reason: string, row: number) => invalid.add(row, reason));
    const into = { table: this.#table, isExtending: this.#isExtending };
    const conversion = new RowConversion({ format: this.#format, ...into, leftOut });
    for await (const part of conversion.add(text)) {
      yield part;
      if (part.length > smallBytes) await setImmediate(); // a few bytes can become much, and others wait for this thread
    }
    for await (const part of conversion.end()) {
      yield part;
      if (part.length > smallBytes) await setImmediate();
    }
  }
}
