import type { RowsOf } from '../../arrow/column/concat-rows.ts';
import type { FieldPath } from '../../arrow/schema/field-path.ts';
import type { HeadCommits, Snapshot } from '../../engine/port/dataset.ts';
import type { Datasets, OpenRequest } from '../../engine/port/engine.ts';
import type { Replaced } from '../../engine/port/row-address.ts';
import type { KeyHasher } from '../../keys/key-hasher.ts';
import { leastBytesPerKey } from '../../keys/key-table.ts';
import type { KeyBudget } from '../../memory/key-quota.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Head } from '../../write/write.ts';
import type { Batch, MergeOfRows } from '../batch.ts';
import { KeyIndex, type Unknowable } from './key-index.ts';

export interface KeyIndexLoaderDeps {
  readonly engine: Datasets;
  readonly logger: Logger;
  readonly keyBudget: KeyBudget;
  readonly keyHasher: KeyHasher;
}

/** Reading one key with its address, among many. Measured; some of it is the engine's, on other threads. */
const readingMs = 0.001;
/** The loader reads at most so many rows under the branch's lock, and more of them concurrently with commits. */
const mostRowsUnderLock = 10_000;
/** Where commits bring more rows than can be read meanwhile, reading would never end. */
const mostRounds = 8;
/** All clients of a batch have waited for it, and will come again. But reading a large table takes long, and they may not. */
const mostClientsCounted = 8;
/** The engine's merges have to cost so many times more before an index is read that was given up, or one of other keys. */
const patience = 16;

/**
 * The key index of one branch, if there is one, and how it is made: its keys are read concurrently with commits, once merges
 * without it have cost as much as reading will. Whatever makes the index doubtful makes it given up.
 */
export class KeyIndexLoader {
  readonly #deps: KeyIndexLoaderDeps;
  #known: KeyIndex | undefined;
  #isReading = false;
  /** What merges without an index have cost since the last attempt to read one. */
  #spentMs = 0;
  #timesDearer = 1;
  /** A branch with a single merge, or whose writer is dropped before the second, has no use for an index. */
  #hasDoneWithout = false;

  constructor(deps: KeyIndexLoaderDeps) {
    this.#deps = deps;
  }

  /** Frees the index; safe at any time. */
  forget(): void {
    this.#known?.release();
    this.#known = undefined;
  }

  /** The index at the head, if there is one for the key columns of this merge. At a planned version it is only where it is already. */
  async at({ dataset, location, branch, version, turn }: Head, { on }: MergeOfRows): Promise<KeyIndex | undefined> {
    const known = this.#known;
    if (known === undefined || this.#isReading || !isSameKey(known.on, on)) return undefined;
    if (turn?.follows !== undefined) return known.tracked.version === version ? known : undefined;
    const problem = known.lineage === dataset.lineage ? await this.#bringUpToDate(known, dataset) : 'changed';
    if (this.#known !== known) return undefined; // another table needed the room meanwhile
    if (problem !== undefined) this.giveUp(problem);
    else if (known.unreadRows === 0) return known;
    else void this.#readConcurrently(known, { location, branch });
    return undefined;
  }

  /** A commit was made by the index. */
  used(): void {
    this.#timesDearer = 1;
  }

  giveUp(problem: Unknowable): void {
    this.#deps.logger.debug({ problem }, 'the key index is given up');
    if (problem !== 'changed') this.#timesDearer *= patience;
    this.forget();
  }

  /**
   * The engine took this long for merges that could have used the index. An index of other keys is given up once that has cost
   * much more than reading a new one. Never rejects: the merges are committed, and only their answers are missing.
   */
  async didWithout(head: Head, batch: Batch, engineMs: number): Promise<void> {
    try {
      await this.#weigh(head, batch, engineMs);
    } catch (error) {
      this.#deps.logger.debug({ error }, 'whether to read the key index could not be decided');
    }
  }

  /** Notes where the rows of a batch are now. The caller still holds the branch's lock. */
  learn(index: KeyIndex, replaced: Replaced, { requests }: Batch, parts: readonly RowsOf[]): void {
    if (this.#known !== index) return; // another table needed the room meanwhile
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
    this.#spentMs += engineMs * Math.min(requests.length, mostClientsCounted);
    const isFirst = !this.#hasDoneWithout && requests.length === 1;
    this.#hasDoneWithout = true;
    if (isFirst) return;
    const rows = await dataset.countRows();
    const timesDearer = this.#timesDearer * (known === undefined ? 1 : patience);
    if (this.#spentMs < rows * readingMs * timesDearer) return;
    this.#spentMs = 0;
    this.forget();
    const index = this.#open(dataset, first, rows);
    if (index !== undefined) void this.#readConcurrently(index, { location, branch });
  }

  #open(dataset: Snapshot & HeadCommits, merge: MergeOfRows, rows: number): KeyIndex | undefined {
    const tracked = dataset.liveRows();
    const hold = this.#deps.keyBudget.open(() => this.forget());
    if (tracked !== undefined && hold.resize(rows * leastBytesPerKey)) {
      this.#known = new KeyIndex(dataset, merge, tracked, { hold, hasher: this.#deps.keyHasher });
      return this.#known;
    }
    hold.release();
    this.giveUp('no room');
    return undefined;
  }

  async #bringUpToDate(known: KeyIndex, dataset: Snapshot): Promise<Unknowable | undefined> {
    try {
      // A request of another client may move the dataset to a newer version during the reading.
      for (let round = 0; round < mostRounds; round++) {
        const problem = known.follow(await dataset.version());
        if (problem !== undefined || known.unreadRows > mostRowsUnderLock) return problem;
        const unread = await known.readRest(dataset);
        if (unread !== 'changed' || (await dataset.version()) === known.tracked.version) return unread;
      }
      return 'changed';
    } catch (error) {
      // Such as when the files of a version have been removed meanwhile.
      this.#deps.logger.debug({ error }, 'the key index could not follow other commits');
      return 'changed';
    }
  }

  /** Never rejects. */
  async #readConcurrently(known: KeyIndex, branch: OpenRequest): Promise<void> {
    this.#isReading = true;
    const problem = await this.#readRounds(known, branch).catch((error: unknown): Unknowable => {
      this.#deps.logger.debug({ location: branch.location, error }, 'the key index could not be read');
      return 'changed';
    });
    this.#isReading = false;
    if (this.#known !== known) known.release();
    else if (problem !== undefined) this.giveUp(problem);
  }

  /** Each round reads what commits brought during the one before; the last few rows are left to read under the lock. */
  async #readRounds(known: KeyIndex, branch: OpenRequest): Promise<Unknowable | undefined> {
    for (let round = 0; round < mostRounds; round++) {
      const newest = await this.#deps.engine.open(branch);
      try {
        const problem = known.follow(await newest.version());
        if (problem !== undefined || known.unreadRows <= mostRowsUnderLock) return problem;
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
