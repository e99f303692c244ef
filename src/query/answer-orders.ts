/**
 * A reader carries out one order after the other, with its own engine handles, until the channel ends.
 *
 * During an order it checks its own memory every few milliseconds. It can, because the engine computes on its own threads and
 * this event loop is idle; that of a busy service is not. Beyond the limit the reader reports that and kills itself.
 */
import { once } from 'node:events';
import type { Duplex } from 'node:stream';
import { LRUCache } from 'lru-cache';
import { type IpcFile, ownFile } from '../arrow/format/ipc-file.ts';
import { FileStream, rowsOfFile } from '../arrow/stream/file-stream.ts';
import type { BranchHead, EngineWrites, Snapshot, VersionFaults } from '../engine/port/dataset.ts';
import type { Datasets } from '../engine/port/engine.ts';
import type { RowQueries } from '../engine/port/query-spec.ts';
import type { Upkeep } from '../engine/port/upkeep.ts';
import { LancegateError } from '../kernel/errors.ts';
import type { AnswerForm } from '../rows/answer-form.ts';
import { ArrowStreamBytes } from '../rows/answers/arrow-stream-bytes.ts';
import { RowText } from '../rows/answers/row-text.ts';
import { fitted } from './fit-query.ts';
import { requireFittingValues } from './fitting-values.ts';
import { framed } from './framed-files.ts';
import { frameHead, lengthOf, type MessageFrame, readFrames, writeFrame } from './message-frames.ts';
import {
  mostReplyBytes,
  type Order,
  plainError,
  type ReadAt,
  type ReaderOutcome,
  type ReaderSetup,
  type Reply,
  type Work,
} from './protocol.ts';
import { changedRows } from './row-changes.ts';

interface ReaderParts {
  readonly channel: Duplex;
  readonly openEngines: (setup: ReaderSetup) => Readonly<Record<Order['at']['store'], Datasets>>;
  readonly residentBytes: () => number;
  /** Writes the message to the channel and kills the process. */
  readonly endAtOnce: (lastWords: Buffer) => never;
}

/** Resolves when the service has closed the channel or has ended. Rejects on a malformed order, or one that comes during another. */
export async function answerOrders({ channel, openEngines, residentBytes, endAtOnce }: ReaderParts): Promise<void> {
  const send = (reply: Reply, bytes?: readonly Buffer[]): boolean => writeFrame(channel, reply, bytes);
  /** Resolves when the service has taken enough that the channel takes more. */
  const sendBytes = async (bytes: readonly Buffer[]): Promise<void> => {
    if (!send({ kind: 'bytes' }, bytes)) await once(channel, 'drain');
  };
  let reader: Reader | undefined;
  let isBusy = false;
  // The engine takes a source as one buffer, which cannot be longer.
  for await (const frame of readFrames(channel, 2 ** 31)) {
    if (reader === undefined) {
      const setup = frame.header as ReaderSetup;
      reader = new Reader(setup, new KeptDatasets(openEngines(setup)), { residentBytes, endAtOnce, sendBytes });
      send({ kind: 'ready' });
      continue;
    }
    if (isBusy) throw new LancegateError('Internal', 'an order came while another one was under way');
    isBusy = true;
    // It is not awaited, so that the end of the channel is noticed at once.
    void reader.carryOut(frame).then(({ reply, bytes }) => {
      isBusy = false;
      send(reply, bytes);
      reader?.lookAtMemory();
    });
  }
}

interface ReaderSurroundings extends Pick<ReaderParts, 'residentBytes' | 'endAtOnce'> {
  readonly sendBytes: (bytes: readonly Buffer[]) => Promise<void>;
}

/** An outcome comes with the last bytes of the result of a query. */
interface Carried {
  readonly outcome: ReaderOutcome;
  readonly bytes?: readonly Buffer[];
}

type QueryWork = Extract<Work, { readonly kind: 'query' }>;
type ChangesWork = Extract<Work, { readonly kind: 'changes' }>;
type ReadWork = Extract<Work, { readonly kind: 'read' }>;

class Reader {
  readonly #setup: ReaderSetup;
  readonly #datasets: KeptDatasets;
  readonly #process: ReaderSurroundings;
  #isSpent = false;

  constructor(setup: ReaderSetup, datasets: KeptDatasets, process: ReaderSurroundings) {
    this.#setup = setup;
    this.#datasets = datasets;
    this.#process = process;
  }

  /** Never rejects. */
  async carryOut({
    header,
    bytes,
  }: MessageFrame): Promise<{ readonly reply: Reply; readonly bytes?: readonly Buffer[] }> {
    const { memoryBytes } = this.#setup;
    const order = header as Order;
    const watch = this.#watchMemory(memoryBytes + (order.extraBytes ?? 0));
    try {
      const { outcome, ...last } = await this.#outcomeOf(order, bytes);
      if (watch.hasLooked()) this.lookAtMemory();
      return { reply: { kind: 'done', outcome, isSpent: this.#isSpent }, ...last };
    } finally {
      watch.stop();
    }
  }

  /**
   * A reader that holds so much between two orders is replaced. The client of a brief order does not wait for this look: what such an
   * order takes is little, and the reply to the next one tells of it.
   */
  lookAtMemory(): void {
    this.#isSpent = this.#process.residentBytes() > 0.75 * this.#setup.memoryBytes;
  }

  async #outcomeOf({ at, work }: Order, bytes: Buffer): Promise<Carried> {
    try {
      return await this.#datasets.use(at, (dataset) =>
        work.kind === 'changes' ? this.#changed(at, dataset, work, bytes) : this.#carried(dataset, work, bytes),
      );
    } catch (error) {
      return { outcome: { kind: 'refused', refusal: plainError(error) } };
    }
  }

  async #carried(dataset: KeptDataset, work: Exclude<Work, ChangesWork>, bytes: Buffer): Promise<Carried> {
    switch (work.kind) {
      case 'count':
        return { outcome: { kind: 'counted', rows: await dataset.countRows(work.predicate) } };
      case 'index':
        await dataset.buildIndex(work.spec);
        return { outcome: { kind: 'built' } };
      case 'compact':
        return { outcome: { kind: 'compacted', ...(await dataset.compact(work.spec)) } };
      case 'trial':
        return { outcome: { kind: 'tried', fault: await dataset.fault(work.toTry) } };
      case 'change': {
        await requireFittingValues(dataset, work.step);
        const limits = { timeoutMs: work.timeoutMs, principal: undefined };
        const counts = await dataset.change(work.step, ownFile(bytes), limits); // the service has checked every byte
        return { outcome: { kind: 'changed', counts } };
      }
      case 'query':
        return this.#queried(dataset, work);
      case 'read':
        return this.#read(dataset, work.what);
      case 'explain': {
        const plan = await dataset.explain(await fitted(work.spec, dataset), work.form);
        return { outcome: { kind: 'explained', plan } };
      }
    }
  }

  /** A small result leaves in one message. The next bytes are computed while the last ones leave. */
  async #queried(dataset: KeptDataset, { spec, answer }: QueryWork): Promise<Carried> {
    return this.#sent(dataset.query(await fitted(spec, dataset)), answer, await dataset.version());
  }

  #changed(at: ReadAt, later: KeptDataset, { spec, answer }: ChangesWork, bytes: Buffer): Promise<Carried> {
    const sent = async (earlier?: Snapshot) =>
      this.#sent(changedRows(later, earlier, spec, bytes), answer, await later.version());
    return spec.removed.length === 0 ? sent() : this.#datasets.use({ ...at, version: spec.after }, sent);
  }

  async #sent(batches: AsyncIterable<IpcFile>, answer: AnswerForm, version: number): Promise<Carried> {
    const results = new ResultBytes(batches, answerBytesOf(answer));
    let leaving: Promise<void> | undefined;
    for (;;) {
      const [{ bytes, isLast }] = await Promise.all([results.next(), leaving]);
      if (isLast) return { outcome: { kind: 'queried', version, rows: results.rows }, bytes };
      leaving = this.#process.sendBytes(bytes);
    }
  }

  /** Sends the files one after the other, each behind its length. */
  async #read(dataset: KeptDataset, { columns, where, rows }: ReadWork['what']): Promise<Carried> {
    const files = rows === undefined ? dataset.select(columns ?? [], where) : dataset.take(rows, columns);
    let [waiting, numRows]: [Buffer[], number] = [[], 0];
    for await (const file of files) {
      numRows += rowsOfFile(file);
      for (const part of framed(file)) {
        if (lengthOf(waiting) + part.length > mostReplyBytes) {
          await this.#process.sendBytes(waiting);
          waiting = [];
        }
        waiting.push(part);
      }
    }
    return { outcome: { kind: 'queried', version: await dataset.version(), rows: numRows }, bytes: waiting };
  }

  #watchMemory(mostResidentBytes: number): { readonly hasLooked: () => boolean; readonly stop: () => void } {
    const { residentBytes, endAtOnce } = this.#process;
    let hasLooked = false;
    // The engine fills 1 to 2 GB a second, so a reader can exceed its limit by some 20 MB before it sees that.
    const timer = setInterval(() => {
      hasLooked = true;
      const bytes = residentBytes();
      const lastWords: Reply = { kind: 'beyond memory', residentBytes: bytes };
      if (bytes > mostResidentBytes) endAtOnce(frameHead(lastWords));
    }, 10);
    return { hasLooked: () => hasLooked, stop: () => clearInterval(timer) };
  }
}

/** What an order needs of its dataset. */
type KeptDataset = Snapshot & BranchHead & EngineWrites & Pick<Upkeep, 'compact'> & RowQueries & VersionFaults;

/**
 * A reader keeps datasets open from one order to the next, which makes a count of 6 ms instead of 8. The least recently used is
 * closed first; few are kept, because each holds its manifest.
 */
class KeptDatasets {
  readonly #engines: Readonly<Record<ReadAt['store'], Datasets>>;
  /** The open datasets by lineage. A reader has one order at a time, so no query reads from a dataset while it is closed. */
  readonly #kept = new LRUCache<string, KeptDataset>({ max: 32, dispose: (dataset) => dataset.close() });

  constructor(engines: Readonly<Record<ReadAt['store'], Datasets>>) {
    this.#engines = engines;
  }

  async use<Result>(at: ReadAt, run: (dataset: KeptDataset) => Promise<Result>): Promise<Result> {
    const { location, branch, version, lineage } = at;
    if (lineage !== undefined) return run(await this.#latest(at, lineage));
    const dataset = await this.#engines[at.store].open({ location, branch, version, isPrivate: at.store !== 'root' });
    try {
      return await run(dataset);
    } finally {
      dataset.close();
    }
  }

  /**
   * Returns the dataset at the version that the service knows, or at a newer one (P11). If another table got the location, or a
   * branch was created again under its name, the service names another lineage, so the dataset that was kept does not match.
   */
  async #latest(at: ReadAt, lineage: string): Promise<KeptDataset> {
    const kept = this.#kept.get(lineage);
    if (kept !== undefined && (await reaches(kept, at.version))) return kept;
    this.#kept.delete(lineage);
    const { location, branch } = at;
    const opened = await this.#engines[at.store].open({ location, branch, isPrivate: at.store !== 'root' });
    if ((await opened.version()) < at.version) throw tooOld(at);
    this.#kept.set(lineage, opened);
    return opened;
  }
}

async function reaches(dataset: Snapshot & BranchHead, version: number): Promise<boolean> {
  if ((await dataset.version()) >= version) return true;
  await dataset.refresh();
  return (await dataset.version()) >= version;
}

const tooOld = ({ location, version }: ReadAt): LancegateError =>
  new LancegateError('Internal', 'the newest version of the table was not found', { internal: { location, version } });

/** Makes bytes of batches, in parts as they come. */
interface AnswerBytes {
  /** The batches so far have so many. */
  readonly rows: number;
  /** Parts may be views of the batch, and of memory that is written again once two more messages are full. */
  add(batch: IpcFile): Generator<Buffer, void, void>;
  end(): Generator<Buffer, void, void>;
}

export function answerBytesOf(form: AnswerForm): AnswerBytes {
  switch (form.kind) {
    case 'arrow file':
      return new FileStream();
    case 'arrow stream':
      return new ArrowStreamBytes();
    case 'text':
      return new RowText(form, mostReplyBytes);
  }
}

/** Makes the bytes of one answer of the batches of a result, in parts of one message each. */
export class ResultBytes {
  readonly #encoding: AnswerBytes;
  readonly #batches: AsyncIterator<IpcFile>;
  /** The parts of the batch that was read last, and then those that end the file. */
  #parts: Iterator<Buffer, void> = [][Symbol.iterator]();
  #hasEnd = false;
  /** What was cut off the last part. */
  #rest: Buffer = Buffer.alloc(0);

  constructor(batches: AsyncIterable<IpcFile>, encoding: AnswerBytes) {
    this.#encoding = encoding;
    this.#batches = batches[Symbol.asyncIterator]();
  }

  /** What was read so far has so many. */
  get rows(): number {
    return this.#encoding.rows;
  }

  /** Returns at most so many bytes as a message may have, and whether they are the last. */
  async next(): Promise<{ readonly bytes: readonly Buffer[]; readonly isLast: boolean }> {
    const bytes: Buffer[] = [];
    let room = mostReplyBytes;
    while (room > 0) {
      const part = this.#rest.length > 0 ? this.#rest : this.#parts.next().value;
      if (part === undefined) {
        if (this.#hasEnd) return { bytes, isLast: true };
        await this.#readBatch();
        continue;
      }
      const taken = part.subarray(0, room);
      bytes.push(taken);
      this.#rest = part.subarray(room);
      room -= taken.length;
    }
    return { bytes, isLast: false };
  }

  async #readBatch(): Promise<void> {
    const { done, value } = await this.#batches.next();
    this.#hasEnd = done === true;
    this.#parts = done === true ? this.#encoding.end() : this.#encoding.add(value);
  }
}
