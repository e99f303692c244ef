/**
 * The reader's side: carries out one order after the other, over handles of the engine of its own, until the channel ends.
 *
 * While it works it looks at its own memory every few milliseconds: the engine computes on threads of its own, so the event
 * loop here is free, which that of a busy service is not. Beyond the limit it says so and ends itself.
 */
import type { Duplex } from 'node:stream';
import type { IpcFile } from '../arrow/source.ts';
import type { Engine } from '../engine/port.ts';
import { type Frame, frameHead, readFrames, writeFrame } from './frames.ts';
import { KeptDatasets } from './kept-datasets.ts';
import { type Beginning, type Order, type Outcome, plainError, type Reply } from './protocol.ts';

export interface ReaderParts {
  readonly channel: Duplex;
  readonly openEngines: (beginning: Beginning) => Readonly<Record<Order['at']['store'], Engine>>;
  readonly residentBytes: () => number;
  /** Ends the process after these last words. Does not return. */
  readonly endAtOnce: (lastWords: Buffer) => never;
}

/** The engine reads and computes 1 to 2 GB in a second: this far beyond the limit it comes before it is seen, 20 MB. */
const lookEveryMs = 10;
/** What a reader holds between two orders: above this part of its memory it is ended, and another one begun. */
const spentFrom = 3 / 4;
/** The engine takes a source as one buffer, which cannot be longer. */
const mostBytes = 2 ** 31;

/** Resolves when the service has ended the channel, or has itself ended. Rejects where what comes is no order, or one too many. */
export async function answerOrders({ channel, openEngines, residentBytes, endAtOnce }: ReaderParts): Promise<void> {
  const say = (reply: Reply): void => writeFrame(channel, reply);
  let reader: Reader | undefined;
  let isBusy = false;
  for await (const frame of readFrames(channel, mostBytes)) {
    if (reader === undefined) {
      const beginning = frame.header as Beginning;
      reader = new Reader(beginning, new KeptDatasets(openEngines(beginning)), { residentBytes, endAtOnce });
      say({ kind: 'ready' });
      continue;
    }
    if (isBusy) throw new Error('an order came while another one was under way');
    isBusy = true;
    // Not awaited here: the end of the channel is to be noticed at once.
    void reader.carryOut(frame).then((reply) => {
      isBusy = false;
      say(reply);
    });
  }
}

class Reader {
  readonly #beginning: Beginning;
  readonly #datasets: KeptDatasets;
  readonly #process: Pick<ReaderParts, 'residentBytes' | 'endAtOnce'>;

  constructor(beginning: Beginning, datasets: KeptDatasets, process: Pick<ReaderParts, 'residentBytes' | 'endAtOnce'>) {
    this.#beginning = beginning;
    this.#datasets = datasets;
    this.#process = process;
  }

  /** Never rejects. */
  async carryOut({ header, bytes }: Frame): Promise<Reply> {
    const { memoryBytes } = this.#beginning;
    const order = header as Order;
    const stopWatching = this.#watchMemory(memoryBytes + order.extraBytes);
    try {
      const outcome = await this.#outcomeOf(order, bytes);
      return { kind: 'done', outcome, isSpent: this.#process.residentBytes() > spentFrom * memoryBytes };
    } finally {
      stopWatching();
    }
  }

  async #outcomeOf({ at, work }: Order, bytes: Buffer): Promise<Outcome> {
    try {
      return await this.#datasets.use(at, async (dataset): Promise<Outcome> => {
        if (work.kind === 'count') return { kind: 'counted', rows: await dataset.countRows(work.predicate) };
        // The service has checked these bytes, every one.
        return { kind: 'merged', counts: await dataset.merge(work.spec, bytes as Buffer as IpcFile, work.timeoutMs) };
      });
    } catch (error) {
      return { kind: 'refused', refusal: plainError(error) };
    }
  }

  #watchMemory(mostResidentBytes: number): () => void {
    const { residentBytes, endAtOnce } = this.#process;
    const timer = setInterval(() => {
      const bytes = residentBytes();
      const lastWords: Reply = { kind: 'beyond memory', residentBytes: bytes };
      if (bytes > mostResidentBytes) endAtOnce(frameHead(lastWords));
    }, lookEveryMs);
    return () => clearInterval(timer);
  }
}
