/**
 * The service holds one of these for each reader process. It starts with a channel and few environment variables and gets one
 * order at a time. However it ends, `ended` has the reason, and the order under way is refused with it.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Duplex, PassThrough, type Readable } from 'node:stream';
import { LancegateError } from '../kernel/errors.ts';
import type { ServiceMemory } from '../memory/resident-limit.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { ReaderDeath } from '../telemetry/metrics.ts';
import { FrameReader, writeFrame } from './message-frames.ts';
import { makeProcessFolder, removeProcessFolder, temporaryFilesIn } from './process-folder.ts';
import {
  type Answered,
  errorOf,
  mostReplyBytes,
  type Order,
  type Purpose,
  purposeOf,
  type ReaderOutcome,
  type ReaderSetup,
  type Reply,
  type TakeBytes,
} from './protocol.ts';

export interface ReaderProcessParts {
  readonly setup: ReaderSetup;
  /** The process has no other environment, but for where its temporary files are. */
  readonly environment: Readonly<Record<string, string>>;
  readonly logger: Logger;
  /** It counts the memory that a merge takes beyond the reader's own. */
  readonly serviceMemory: Pick<ServiceMemory, 'countReader' | 'forgetReader'>;
}

const program = join(import.meta.dirname, '../reader.ts');
/** A reader's JavaScript heap is small. */
const nodeOptions = ['--max-semi-space-size=2', '--v8-pool-size=1'];

export class ReaderProcess {
  /** Resolves to the reason once the process has ended. */
  readonly ended: Promise<ReaderDeath>;
  /** Resolves once its temporary files are removed, too. */
  readonly cleared: Promise<void>;
  readonly #child: ChildProcess;
  readonly #channel: Duplex;
  readonly #memoryBytes: number;
  readonly #serviceMemory: ReaderProcessParts['serviceMemory'];
  /** `Order.extraBytes` of the latest order. */
  #extraBytes = 0;
  #purpose: Purpose = 'reading';
  readonly #ready = Promise.withResolvers<void>();
  #answer: PromiseWithResolvers<{ readonly outcome: ReaderOutcome; readonly bytes: Buffer }> | undefined;
  #take: TakeBytes | undefined;
  /** Resolves when the process was killed: nothing that it has sent is wanted. */
  readonly #killed = Promise.withResolvers<void>();
  /** It is set if the reason is known before the process has ended. */
  #reason: ReaderDeath | undefined;
  #wasReady = false;
  #isSpent = false;
  #hasEnded = false;
  #lastWords = '';

  constructor({ setup, environment, logger, serviceMemory }: ReaderProcessParts) {
    this.#memoryBytes = setup.memoryBytes;
    this.#serviceMemory = serviceMemory;
    const folder = makeProcessFolder(setup.scratchFolder, environment.TMPDIR ?? tmpdir());
    // It is detached: Ctrl-C on the terminal is for the service alone, which ends its readers.
    this.#child = spawn(process.execPath, [...nodeOptions, program], {
      env: { ...environment, ...(folder === undefined ? {} : temporaryFilesIn(folder)) },
      stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
      detached: true,
    });
    this.#channel = channelOf(this.#child);
    this.#ready.promise.catch(() => undefined); // each wait on `ready` handles it
    this.#keepLastWords(this.#child.stderr);
    this.ended = this.#watchEnd(logger);
    this.cleared = this.ended.then(() => (folder === undefined ? undefined : removeProcessFolder(folder)));
    // A write to a process that has ended fails; `ended` has the reason.
    this.#channel.on('error', () => undefined);
    void this.#listen();
    writeFrame(this.#channel, setup);
  }

  /** Says whether the reader holds too much memory for the next order to have enough. */
  get isSpent(): boolean {
    return this.#isSpent;
  }

  /** The reader has ended, or is about to. */
  get isOver(): boolean {
    return this.#hasEnded || this.#reason !== undefined;
  }

  get wasReady(): boolean {
    return this.#wasReady;
  }

  /** Resolves once it takes orders; `ReaderDied` if it ends before. */
  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  /** Resolves as `ready` does. A refusal names what this order is for. */
  readyFor({ work }: Order): Promise<void> {
    this.#purpose = purposeOf(work.kind);
    return this.ready;
  }

  /** Rejects with the reader's own refusal, or `ReaderDied`. `take` gets the bytes of a query's result, all but the last. */
  async ask(order: Order, rows?: Uint8Array, take?: TakeBytes): Promise<Answered> {
    if (!this.#wasReady) await this.readyFor(order);
    const { pid } = this.#child;
    if (this.#hasEnded || pid === undefined) throw this.#died(this.#reason ?? 'exit');
    this.#answer = Promise.withResolvers();
    this.#take = take;
    this.#extraBytes = order.extraBytes ?? 0;
    this.#purpose = purposeOf(order.work.kind);
    if (this.#extraBytes > 0) this.#serviceMemory.countReader(pid, this.#memoryBytes);
    try {
      writeFrame(this.#channel, order, rows && [rows]);
      const { outcome, bytes } = await this.#answer.promise;
      if (outcome.kind === 'refused') throw errorOf(outcome.refusal);
      return outcome.kind === 'queried' ? { ...outcome, bytes } : outcome;
    } finally {
      this.#serviceMemory.forgetReader(pid);
    }
  }

  /** Kills the process. */
  end(reason: ReaderDeath): void {
    this.#reason ??= reason;
    this.#killed.resolve();
    this.#child.kill('SIGKILL');
  }

  async #listen(): Promise<void> {
    try {
      const frames = new FrameReader(this.#channel, mostReplyBytes);
      for (let message = await frames.next(); message !== undefined; message = await frames.next()) {
        await this.#receive(message.header as Reply, frames);
      }
    } catch (error) {
      // A reader that dies in the middle of a message breaks the channel; `ended` has the reason.
      if (!(error instanceof Error && 'code' in error)) this.end('protocol');
    }
  }

  /** Until it resolves, the channel is not read on. */
  async #receive(reply: Reply, frames: FrameReader): Promise<void> {
    switch (reply.kind) {
      case 'ready':
        this.#wasReady = true;
        this.#ready.resolve();
        return;
      case 'bytes':
        for (let part = await frames.part(); part !== undefined; part = await frames.part()) {
          await Promise.race([this.#take?.(part), this.#killed.promise]);
        }
        return;
      case 'beyond memory':
        this.#reason ??= 'memory';
        return;
      case 'done':
        this.#isSpent = reply.isSpent;
        this.#answer?.resolve({ outcome: reply.outcome, bytes: await frames.bytes() });
        this.#answer = undefined;
        return;
      default:
        reply satisfies never;
        throw new LancegateError('Internal', 'a reply of an unknown kind');
    }
  }

  async #watchEnd(logger: Logger): Promise<ReaderDeath> {
    const { promise, resolve } = Promise.withResolvers<End>();
    this.#child.on('error', (error) => {
      if (this.#child.pid === undefined) resolve({ code: null, signal: null, error });
    });
    this.#child.once('close', (code, signal) => resolve({ code, signal, error: undefined }));
    const { code, signal, error: startError } = await promise;
    this.#hasEnded = true;
    const reason = this.#reason ?? reasonOf({ code, signal, error: startError });
    const { pid } = this.#child;
    const wasBusy = this.#answer !== undefined;
    const fields = { pid, reason, code, signal, wasBusy, stderr: this.#lastWords, error: startError };
    if (isNormal(reason)) logger.debug(fields, 'a reader ended');
    else if (reason === 'deadline' || reason === 'memory')
      logger.warn(fields, 'a reader was killed: its order exceeded its time or memory');
    else logger.warn(fields, 'a reader died');
    const error = this.#died(reason, signal ?? undefined);
    this.#ready.reject(error);
    this.#answer?.reject(error);
    this.#answer = undefined;
    return reason;
  }

  #keepLastWords(stderr: Readable | null): void {
    stderr?.on('data', (text: Buffer) => {
      // So many characters hold a panic of the engine with some of its trace.
      this.#lastWords = (this.#lastWords + text.toString()).slice(-2_000);
    });
  }

  #died(reason: ReaderDeath, signal?: string): LancegateError {
    return new LancegateError('ReaderDied', `${this.#whatHappened(reason, signal)}; nothing was written`, {
      internal: { reason, signal },
      retryAfterSeconds: 1,
    });
  }

  #whatHappened(reason: ReaderDeath, signal: string | undefined): string {
    const what = called[this.#purpose];
    switch (reason) {
      case 'memory':
        return `${what} needed more than the ${Math.floor((this.#memoryBytes + this.#extraBytes) / 2 ** 20)} MiB that it may have`;
      case 'deadline':
        return `${what} was ended at its deadline`;
      case 'cancelled':
        return `${what} was cancelled`;
      case 'stop':
        return 'the service is stopping';
      case 'start':
        return `no process could be started for ${what}`;
      case 'signal':
        return `the process that ran ${what} died (${signal})`;
      case 'idle':
      case 'spent':
      case 'exit':
      case 'protocol':
        return `the process that ran ${what} ended unexpectedly`;
    }
  }
}

/** A refusal calls the order so. */
const called: Readonly<Record<Purpose, string>> = {
  reading: 'the query',
  writing: 'the write',
  upkeep: 'the compaction',
};

interface End {
  readonly code: number | null;
  readonly signal: string | null;
  /** The start failed, as when the machine has no process or file left. */
  readonly error: Error | undefined;
}

function reasonOf({ signal, error }: End): ReaderDeath {
  if (error !== undefined) return 'start';
  return signal === null ? 'exit' : 'signal';
}

/** If no file descriptor is left, `stdio` is missing (the types do not say so): then a stream without effect, until 'error'. */
function channelOf({ stdio }: { readonly stdio: ChildProcess['stdio'] | undefined }): Duplex {
  const channel = stdio?.[3];
  return channel instanceof Duplex ? channel : new PassThrough();
}

/** The service ends readers so in normal operation. */
const isNormal = (reason: ReaderDeath): boolean => ['idle', 'spent', 'stop', 'cancelled'].includes(reason);
