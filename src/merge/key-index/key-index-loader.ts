import type { RowsOf } from '../../arrow/column/concat-rows.ts';
import type { FieldPath } from '../../arrow/schema/field-path.ts';
import type { Dataset, Engine, OpenRequest } from '../../engine/port/engine.ts';
import type { Replaced } from '../../engine/port/row-address.ts';
import type { KeyHasher } from '../../keys/key-hasher.ts';
import { leastBytesPerKey } from '../../keys/key-table.ts';
import type { KeyBudget } from '../../memory/key-quota.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Batch, Head, MergeRequest } from '../batch.ts';
import { KeyIndex, type Unknowable } from './key-index.ts';

export interface KeyIndexLoaderParts {
  readonly engine: Engine;
  readonly logger: Logger;
  readonly keyBudget: KeyBudget;
  readonly keyHasher: KeyHasher;
}

/** Measured: a row whose key and place are read, with all others. Some of it is the engine's, on other threads. */
const readingMs = 0.001;
/** Unread rows that may be left for a turn; more are read beside the commits. */
const mostRowsInTurn = 10_000;
/** Beside commits that bring more rows than can be read meanwhile, it would never end. */
const mostRounds = 8;
/** All who shared a commit have waited for it, and will come again. But to read a large table takes long, and they may not. */
const mostWhoWaited = 8;
/** What could not be known is tried again once doing without has cost so many times more than before. */
const patience = 16;

/**
 * The places that the writer of a branch knows, if it does, and how it comes to know them: they are read beside the commits
 * once merges without them have cost as much as reading them will. Whatever makes them doubtful makes them forgotten.
 */
export class KeyIndexLoader {
  readonly #parts: KeyIndexLoaderParts;
  #known: KeyIndex | undefined;
  #isReading = false;
  /** What doing without has cost, those who waited, since the last attempt. */
  #spentMs = 0;
  #timesDearer = 1;
  /** A branch that is written to once, or whose writer is forgotten before the second time, has no use for places. */
  #hasDoneWithout = false;

  constructor(parts: KeyIndexLoaderParts) {
    this.#parts = parts;
  }

  /** Safe at any time. */
  forget(): void {
    this.#known?.release();
    this.#known = undefined;
  }

  /** Of the head, if it is known and is of the keys of such a merge. */
  async at({ dataset, location, branch }: Head, { on }: MergeRequest): Promise<KeyIndex | undefined> {
    const known = this.#known;
    if (known === undefined || this.#isReading || !isSameKey(known.on, on)) return undefined;
    const problem = known.lineage === dataset.lineage ? await this.#bringUpToDate(known, dataset) : 'changed';
    if (this.#known !== known) return undefined; // others needed the room meanwhile
    if (problem !== undefined) this.giveUp(problem);
    else if (known.unreadRows === 0) return known;
    else void this.#readBeside(known, { location, branch });
    return undefined;
  }

  /** A commit was made by it. */
  used(): void {
    this.#timesDearer = 1;
  }

  giveUp(problem: Unknowable): void {
    this.#parts.logger.debug({ problem }, 'the key index is given up');
    if (problem !== 'changed') this.#timesDearer *= patience;
    this.forget();
  }

  /**
   * The engine took this long for merges that could have used the index. One of other keys is given up once that has cost much
   * more than reading anew. Never rejects: the merges are committed, and only their answers are missing.
   */
  async didWithout(head: Head, batch: Batch, engineMs: number): Promise<void> {
    try {
      await this.#weigh(head, batch, engineMs);
    } catch (error) {
      this.#parts.logger.debug({ error }, 'whether to read the key index could not be decided');
    }
  }

  /** Before the branch's lock is released: notes where the rows of a batch came to be. */
  learn(index: KeyIndex, replaced: Replaced, { requests }: Batch, parts: readonly RowsOf[]): void {
    if (this.#known !== index) return; // others needed the room meanwhile
    let problem: Unknowable | undefined = 'changed';
    try {
      problem = index.replaced(replaced, requests, parts);
    } finally {
      if (problem !== undefined) this.giveUp(problem);
    }
  }

  async #weigh({ dataset, location, branch }: Head, { requests, first }: Batch, engineMs: number): Promise<void> {
    const known = this.#known;
    if (this.#isReading || (known !== undefined && isSameKey(known.on, first.on))) return;
    this.#spentMs += engineMs * Math.min(requests.length, mostWhoWaited);
    const isFirst = !this.#hasDoneWithout && requests.length === 1;
    this.#hasDoneWithout = true;
    if (isFirst) return;
    const rows = await dataset.countRows();
    const isKnown = known !== undefined;
    if (this.#spentMs < rows * readingMs * this.#timesDearer * (isKnown ? patience : 1)) return;
    this.#spentMs = 0;
    this.forget();
    const index = this.#open(dataset, first.on, rows);
    if (index !== undefined) void this.#readBeside(index, { location, branch });
  }

  #open(dataset: Dataset, on: readonly FieldPath[], rows: number): KeyIndex | undefined {
    const tracked = dataset.liveRows();
    const hold = this.#parts.keyBudget.open(() => this.forget());
    if (tracked !== undefined && hold.resize(rows * leastBytesPerKey)) {
      this.#known = new KeyIndex(dataset, on, tracked, { hold, hasher: this.#parts.keyHasher });
      return this.#known;
    }
    hold.release();
    this.giveUp('no room');
    return undefined;
  }

  async #bringUpToDate(known: KeyIndex, dataset: Dataset): Promise<Unknowable | undefined> {
    try {
      // A request of another client may move the dataset on during the reading.
      for (let round = 0; round < mostRounds; round++) {
        const problem = known.follow(await dataset.version());
        if (problem !== undefined || known.unreadRows > mostRowsInTurn) return problem;
        const unread = await known.readRest(dataset);
        if (unread !== 'changed' || (await dataset.version()) === known.tracked.version) return unread;
      }
      return 'changed';
    } catch (error) {
      // Such as when the files of a version have been removed meanwhile.
      this.#parts.logger.debug({ error }, 'the key index could not follow other commits');
      return 'changed';
    }
  }

  /** Never rejects. */
  async #readBeside(known: KeyIndex, place: OpenRequest): Promise<void> {
    this.#isReading = true;
    const problem = await this.#readRounds(known, place).catch((error: unknown): Unknowable => {
      this.#parts.logger.debug({ location: place.location, error }, 'the key index could not be read');
      return 'changed';
    });
    this.#isReading = false;
    if (this.#known !== known) known.release();
    else if (problem !== undefined) this.giveUp(problem);
  }

  /** Each round reads what the commits beside the one before brought; the last few are left for a turn. */
  async #readRounds(known: KeyIndex, place: OpenRequest): Promise<Unknowable | undefined> {
    for (let round = 0; round < mostRounds; round++) {
      const newest = await this.#parts.engine.open(place);
      try {
        const problem = known.follow(await newest.version());
        if (problem !== undefined || known.unreadRows <= mostRowsInTurn) return problem;
        const unread = await known.readRest(newest);
        if (unread !== undefined) return unread;
      } finally {
        newest.close();
      }
    }
    return 'changed';
  }
}

const isSameKey = (a: readonly FieldPath[], b: readonly FieldPath[]): boolean =>
  JSON.stringify(a.map(({ segments }) => segments)) === JSON.stringify(b.map(({ segments }) => segments));
