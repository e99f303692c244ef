import { setImmediate } from 'node:timers/promises';
import { concatRows } from '../../arrow/column/concat-rows.ts';
import type { FieldPath } from '../../arrow/schema/field-path.ts';
import type { Schema } from '../../arrow/schema/schema.ts';
import { schemaFingerprint } from '../../arrow/schema/schema-message.ts';
import type { Dataset, Engine, OpenRequest } from '../../engine/port/engine.ts';
import type { Replaced, RowAddress } from '../../engine/port/row-address.ts';
import type { CanonicalKey } from '../../keys/key-columns.ts';
import type { KeyDigest } from '../../keys/key-digest.ts';
import { mostBytesPerPlace } from '../../keys/key-table.ts';
import type { KeyBudget } from '../../memory/key-quota.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { type CommitTarget, isFaultOfOne } from '../engine-commit.ts';
import type { MergeRequest } from '../merge-request.ts';
import { type SharedRows, shareRows } from '../queue/batch.ts';
import { KeyIndex, type Unknowable } from './key-index.ts';

export interface KeyIndexLoaderParts {
  readonly engine: Engine;
  readonly logger: Logger;
  readonly keyBudget: KeyBudget;
  readonly keyDigest: KeyDigest;
}

type Requests = readonly [MergeRequest, ...MergeRequest[]];

/** A merge that is committed, for all of its requests together. */
export interface PlacedMerge {
  readonly requests: Requests;
  readonly shared: SharedRows;
  /** The keys that had a row. */
  readonly found: ReadonlyMap<CanonicalKey, RowAddress>;
  readonly replaced: Replaced;
}

/** Measured: a row whose key and place are read, with all others. Some of it is the engine's, on other threads. */
const readingMs = 0.001;
/** Half of what there is to do before the engine takes over, 2 ms, after which others have a turn of the event loop (P10). */
const mostRowsWithoutPause = 2_000;
/** Unread rows that may be left for a turn; more are read beside the commits. */
const mostRowsInTurn = 10_000;
/** Beside commits that bring more rows than can be read meanwhile, it would never end. */
const mostRounds = 8;
/** Schemas, which clients have a few of. */
const mostRefused = 64;
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
  /** Schemas of sources that were refused, and of the table that did: it is another object once that may have changed. */
  readonly #refused = new Map<string, Schema>();
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

  /** To be called under the turn: those of the dataset's version, if they are known and of the keys of such a merge. */
  async placesFor({ dataset, location }: CommitTarget, request: MergeRequest): Promise<KeyIndex | undefined> {
    const known = this.#known;
    if (known === undefined || this.#isReading || !(await this.#isFor(request, dataset))) return undefined;
    const problem = known.lineage === dataset.lineage ? await this.#bringUpToDate(known, dataset) : 'changed';
    if (this.#known !== known) return undefined; // others needed the room meanwhile
    if (problem !== undefined) this.#giveUp(problem);
    else if (known.unreadRows === 0) return known;
    else void this.#readBeside(known, { location, branch: request.branch });
    return undefined;
  }

  /**
   * The engine took this long for merges that could have used them. Those of other keys are given up once that has cost much
   * more than reading anew. Never rejects: the merges are committed, and only their answers are missing.
   */
  async didWithout(target: CommitTarget, requests: Requests, engineMs: number): Promise<void> {
    try {
      await this.#weigh(target, requests, engineMs);
    } catch (error) {
      this.#parts.logger.debug({ error }, 'whether to read the places of rows could not be told');
    }
  }

  /**
   * Under the same turn. undefined, with nothing written, where the engine is to merge them after all. Where the new rows are
   * is known after `learn`.
   */
  async merge({ dataset }: CommitTarget, requests: Requests, places: KeyIndex): Promise<PlacedMerge | undefined> {
    try {
      const shared = shareRows(requests);
      const chunk = requests.length === 1 ? requests[0].chunk : concatRows(shared.parts);
      if (chunk.rows > mostRowsWithoutPause) await setImmediate();
      const found = places.find(shared);
      const replaced = await dataset.replaceRows(places.tracked, found.values(), chunk);
      if (replaced === 'refused') this.#refuse(requests[0], await dataset.schema(), places);
      if (replaced === 'overtaken') this.#giveUp('changed');
      if (typeof replaced === 'string') return undefined;
      this.#timesDearer = 1;
      return { requests, shared, found, replaced };
    } catch (error) {
      // Whose fault it is, and how it is called, is found out where merges are tried one by one.
      if (isFaultOfOne(error)) return undefined;
      throw error;
    }
  }

  /** Before the turn ends. Not part of `merge`, since nobody has to wait for it who waits for the disk. */
  learn({ requests, shared, replaced }: PlacedMerge, places: KeyIndex): void {
    if (this.#known !== places) return; // others needed the room meanwhile
    let problem: Unknowable | undefined = 'changed';
    try {
      problem = places.replaced(replaced, requests, shared);
    } finally {
      if (problem !== undefined) this.#giveUp(problem);
    }
  }

  async #weigh({ dataset, location }: CommitTarget, requests: Requests, engineMs: number): Promise<void> {
    const [request] = requests;
    if (this.#isReading || (await this.#isFor(request, dataset)) || (await this.#isRefused(request, dataset))) return;
    this.#spentMs += engineMs * Math.min(requests.length, mostWhoWaited);
    const isFirst = !this.#hasDoneWithout && requests.length === 1;
    this.#hasDoneWithout = true;
    if (isFirst) return;
    const rows = await dataset.countRows();
    const isKnown = this.#known !== undefined;
    if (this.#spentMs < rows * readingMs * this.#timesDearer * (isKnown ? patience : 1)) return;
    this.#spentMs = 0;
    this.forget();
    const known = this.#open(dataset, request.on, rows);
    if (known !== undefined) void this.#readBeside(known, { location, branch: request.branch });
  }

  /** Of the same keys, and not with columns that the table has otherwise. */
  async #isFor(request: MergeRequest, dataset: Dataset): Promise<boolean> {
    if (this.#known === undefined || !isSameKey(this.#known.on, request.on)) return false;
    return !(await this.#isRefused(request, dataset));
  }

  async #isRefused({ chunk }: MergeRequest, dataset: Dataset): Promise<boolean> {
    return this.#refused.size > 0 && this.#refused.get(schemaFingerprint(chunk)) === (await dataset.schema());
  }

  /** It may be the table that is not fit. */
  #refuse({ chunk }: MergeRequest, schema: Schema, places: KeyIndex): void {
    if (this.#refused.size >= mostRefused) this.#refused.clear();
    this.#refused.set(schemaFingerprint(chunk), schema);
    if (!places.isUsed) this.forget();
  }

  #giveUp(problem: Unknowable): void {
    this.#parts.logger.debug({ problem }, 'the places of rows are not known any more');
    if (problem !== 'changed') this.#timesDearer *= patience;
    this.forget();
  }

  #open(dataset: Dataset, on: readonly FieldPath[], rows: number): KeyIndex | undefined {
    const tracked = dataset.liveRows();
    const hold = this.#parts.keyBudget.open(() => this.forget());
    if (tracked !== undefined && hold.resize(rows * mostBytesPerPlace)) {
      this.#known = new KeyIndex(dataset, on, tracked, { hold, digest: this.#parts.keyDigest });
      return this.#known;
    }
    hold.release();
    this.#giveUp('no room');
    return undefined;
  }

  async #bringUpToDate(known: KeyIndex, dataset: Dataset): Promise<Unknowable | undefined> {
    try {
      const problem = known.follow(await dataset.version());
      if (problem !== undefined || known.unreadRows > mostRowsInTurn) return problem;
      return await known.readRest(dataset);
    } catch (error) {
      // Such as when the files of a version have been removed meanwhile.
      this.#parts.logger.debug({ error }, 'the places of rows could not be followed');
      return 'changed';
    }
  }

  /** Never rejects. */
  async #readBeside(known: KeyIndex, place: OpenRequest): Promise<void> {
    this.#isReading = true;
    const problem = await this.#readRounds(known, place).catch((error: unknown): Unknowable => {
      this.#parts.logger.debug({ location: place.location, error }, 'the places of rows could not be read');
      return 'changed';
    });
    this.#isReading = false;
    if (this.#known !== known) known.release();
    else if (problem !== undefined) this.#giveUp(problem);
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
