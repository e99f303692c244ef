/**
 * One reader process, as the service sees it: begun with a channel and an environment of few variables, asked one order at a
 * time, and gone in one way: however it ends, `ended` says why, and the order under way is refused with it.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Duplex, PassThrough, type Readable } from 'node:stream';
import { LancegateError } from '../kernel/errors.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { ReaderDeath } from '../telemetry/metrics.ts';
import { readFrames, writeFrame } from './frames.ts';
import { type Answered, type Beginning, errorOf, type Order, type Outcome, type Reply } from './protocol.ts';

export interface ReaderProcessParts {
  readonly beginning: Beginning;
  /** All that the process gets of the service's own environment. */
  readonly environment: Readonly<Record<string, string>>;
  readonly logger: Logger;
}

const program = join(import.meta.dirname, '../reader.ts');
/** Its heap of JavaScript is small, and needs no helpers. */
const nodeOptions = ['--max-semi-space-size=2', '--v8-pool-size=1'];
/** The last that it wrote: a panic of the engine with some of its trace. */
const lastWordsLength = 2_000;

export class ReaderProcess {
  /** Resolves once it is gone, to why. */
  readonly ended: Promise<ReaderDeath>;
  readonly #child: ChildProcess;
  readonly #channel: Duplex;
  readonly #memoryBytes: number;
  /** Of the order under way. */
  #extraBytes = 0;
  readonly #ready = Promise.withResolvers<void>();
  #answer: PromiseWithResolvers<Outcome> | undefined;
  /** Why it is about to end, where that is known before. */
  #reason: ReaderDeath | undefined;
  #wasReady = false;
  #isSpent = false;
  #isGone = false;
  #lastWords = '';

  constructor({ beginning, environment, logger }: ReaderProcessParts) {
    this.#memoryBytes = beginning.memoryBytes;
    // Detached: Ctrl-C on the terminal is for the service alone, which ends its readers. Nothing of it reaches stdout.
    this.#child = spawn(process.execPath, [...nodeOptions, program], {
      env: environment,
      stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
      detached: true,
    });
    this.#channel = channelOf(this.#child);
    this.#ready.promise.catch(() => undefined); // whoever waits hears it
    this.#keepLastWords(this.#child.stderr);
    this.ended = this.#watchEnd(logger);
    // Writing to a process that is gone fails; that it is gone is known by its end.
    this.#channel.on('error', () => undefined);
    void this.#listen();
    writeFrame(this.#channel, beginning);
  }

  /** Has kept so much memory that the next order might find too little. */
  get isSpent(): boolean {
    return this.#isSpent;
  }

  /** It is gone, or about to be. */
  get isOver(): boolean {
    return this.#isGone || this.#reason !== undefined;
  }

  /** Has taken orders, or could have. */
  get wasReady(): boolean {
    return this.#wasReady;
  }

  /** Resolves once it takes orders; `ReaderDied` where it ends before. */
  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  /** The reader's own refusal, or `ReaderDied`. */
  async ask(order: Order, rows?: Uint8Array): Promise<Answered> {
    await this.ready;
    if (this.#isGone) throw this.#died(this.#reason ?? 'exit');
    this.#answer = Promise.withResolvers();
    this.#extraBytes = order.extraBytes;
    writeFrame(this.#channel, order, rows);
    const outcome = await this.#answer.promise;
    if (outcome.kind === 'refused') throw errorOf(outcome.refusal);
    return outcome;
  }

  /** Of its resident memory what an order has beyond the reader's own, now. Not known but on Linux. */
  get extraResidentBytes(): number {
    return this.#extraBytes === 0 ? 0 : Math.max(0, residentBytesOf(this.#child.pid) - this.#memoryBytes);
  }

  /** It has nothing to do, or is not wanted any more. */
  end(reason: ReaderDeath): void {
    this.#reason ??= reason;
    this.#child.kill('SIGKILL');
  }

  async #listen(): Promise<void> {
    try {
      for await (const { header } of readFrames(this.#channel, 0)) this.#hear(header as Reply);
    } catch (error) {
      // One that died with a message half read breaks the channel; why it died is for its end to say.
      if (!isOfSystem(error)) this.end('protocol');
    }
  }

  #hear(reply: Reply): void {
    switch (reply.kind) {
      case 'ready':
        this.#wasReady = true;
        this.#ready.resolve();
        return;
      case 'beyond memory':
        this.#reason ??= 'memory';
        return;
      case 'done':
        this.#isSpent = reply.isSpent;
        this.#extraBytes = 0;
        this.#answer?.resolve(reply.outcome);
        this.#answer = undefined;
        return;
      default:
        reply satisfies never;
        throw new Error('a reply of an unknown kind');
    }
  }

  async #watchEnd(logger: Logger): Promise<ReaderDeath> {
    const { promise, resolve } = Promise.withResolvers<End>();
    this.#child.on('error', (error) => {
      if (this.#child.pid === undefined) resolve({ code: null, signal: null, error });
    });
    this.#child.once('close', (code, signal) => resolve({ code, signal, error: undefined }));
    const { code, signal, error: notBegun } = await promise;
    this.#isGone = true;
    const reason = this.#reason ?? reasonOf({ code, signal, error: notBegun });
    const { pid } = this.#child;
    const wasBusy = this.#answer !== undefined;
    const fields = { pid, reason, code, signal, wasBusy, stderr: this.#lastWords, error: notBegun };
    if (isInOrder(reason)) logger.debug(fields, 'a reader ended');
    else if (reason === 'deadline' || reason === 'memory')
      logger.warn(fields, 'a reader was ended for what it was asked');
    else logger.warn(fields, 'a reader died');
    const error = this.#died(reason, signal ?? undefined);
    this.#ready.reject(error);
    this.#answer?.reject(error);
    this.#answer = undefined;
    return reason;
  }

  #keepLastWords(stderr: Readable | null): void {
    stderr?.on('data', (text: Buffer) => {
      this.#lastWords = (this.#lastWords + text.toString()).slice(-lastWordsLength);
    });
  }

  #died(reason: ReaderDeath, signal?: string): LancegateError {
    return new LancegateError('ReaderDied', `${this.#whatHappened(reason, signal)}; nothing was written`, {
      internal: { reason, signal },
      retryAfterSeconds: 1,
    });
  }

  #whatHappened(reason: ReaderDeath, signal: string | undefined): string {
    switch (reason) {
      case 'memory':
        return `the query needed more than the ${Math.floor((this.#memoryBytes + this.#extraBytes) / 2 ** 20)} MiB that it may have`;
      case 'deadline':
        return 'the query was ended at its deadline';
      case 'stop':
        return 'the service is stopping';
      case 'start':
        return 'no process could be begun for the query';
      case 'signal':
        return `the process that ran the query died (${signal})`;
      case 'idle':
      case 'spent':
      case 'exit':
      case 'protocol':
        return 'the process that ran the query ended unexpectedly';
    }
  }
}

interface End {
  readonly code: number | null;
  readonly signal: string | null;
  /** It was not begun at all, as where no process or no file is left. */
  readonly error: Error | undefined;
}

function reasonOf({ signal, error }: End): ReaderDeath {
  if (error !== undefined) return 'start';
  return signal === null ? 'exit' : 'signal';
}

/** Where no file is left there is none (the types do not know it); then one that nobody hears, until the error is told. */
const channelOf = ({ stdio }: { readonly stdio: ChildProcess['stdio'] | undefined }): Duplex =>
  (stdio?.[3] as Duplex | null | undefined) ?? new PassThrough();

/** proc_pid_status(5). */
function residentBytesOf(pid: number | undefined): number {
  try {
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1] ?? 0) * 1024;
  } catch {
    return 0; // it has ended, or this is not Linux
  }
}

const isOfSystem = (error: unknown): boolean => error instanceof Error && 'code' in error;

/** Ended by the service, for reasons that are in order. */
const isInOrder = (reason: ReaderDeath): boolean => reason === 'idle' || reason === 'spent' || reason === 'stop';
