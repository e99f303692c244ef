import type { FieldPath } from '../../arrow/schema/field-path.ts';
import type { Dataset, Engine, MergeCounts, OpenRequest } from '../../engine/port/engine.ts';
import { LancegateError } from '../../kernel/errors.ts';
import type { CanonicalKey } from '../../keys/key-columns.ts';
import type { KeyBudget } from '../../memory/key-quota.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { CommitTarget } from '../engine-commit.ts';
import type { Settled } from '../external/external-commits.ts';
import { countSoughtRows, soughtKeys } from '../key-index/key-lookup.ts';
import type { MergeRequest } from '../merge-request.ts';
import { agreesWithTotals, type SharedRows, type ToldRows } from '../queue/batch.ts';
import type { KeyHash } from './fingerprint.ts';
import { KnownKeys } from './known-keys.ts';
import { rowsBeforeByCommit } from './rows-of-commit.ts';

type Requests = readonly [MergeRequest, ...MergeRequest[]];

/** A commit: what it wrote, as the engine counted it and as it turned out beside those of others. */
interface Committed {
  readonly shared: SharedRows;
  readonly counts: MergeCounts;
  readonly settled: Settled;
}

export interface KeyMemoryParts {
  readonly engine: Engine;
  readonly logger: Logger;
  readonly keyBudget: KeyBudget;
  readonly keyHash: KeyHash;
  /** The keys of tables with more rows are read beside their commits, once doing without has cost as much. */
  readonly readAtOnceRows?: number | undefined;
}

/** A tenth of a second's reading at most, which need not pay for itself, and for which writers wait. */
const defaultReadAtOnceRows = 100_000;
/** In microseconds, measured: for a row whose key is read with all others, for one of the commit, for a key searched. */
const cost = { reading: 1, telling: 8, searching: 50 } as const;

/** To note the keys of a commit takes 0.4 µs each, which is not spent on keys that nobody asks for. */
const mostUnasked = 64;

/** The keys that the writer of a branch knows, if it does, and how it comes to know them. */
export class KeyMemory {
  readonly #engine: Engine;
  readonly #budget: KeyBudget;
  readonly #hash: KeyHash;
  readonly #logger: Logger;
  readonly #readAtOnceRows: number;
  /** What doing without has cost since they were last read: once it is as much as reading them, they are read. */
  #spentUs = 0;
  #known: KnownKeys | undefined;
  /** Commits since somebody asked. */
  #unasked = 0;
  /** Another dataset of the same name, such as after an overwrite, has versions of its own. */
  #lineage: symbol | undefined;

  constructor({ engine, logger, keyBudget, keyHash, readAtOnceRows = defaultReadAtOnceRows }: KeyMemoryParts) {
    this.#engine = engine;
    this.#logger = logger;
    this.#readAtOnceRows = readAtOnceRows;
    this.#budget = keyBudget;
    this.#hash = keyHash;
  }

  get isEmpty(): boolean {
    return this.#known === undefined;
  }

  /** To be called when a turn begins: upkeep may have committed since the last one, and so may somebody outside. */
  async carryOver(dataset: Dataset): Promise<void> {
    const known = this.#known;
    if (known === undefined) return;
    const version = await dataset.version();
    const isSame = this.#lineage === dataset.lineage && (await dataset.rowChange(known.version, version)) === 'none';
    if (this.#known !== known) return; // others needed the room meanwhile
    if (isSame) known.carryTo(version);
    else this.forget();
  }

  /** Safe at any time: what is not known is asked for. */
  forget(): void {
    this.#known?.release();
    this.#known = undefined;
  }

  /**
   * How many rows each key of the requests had before their commit: from memory where that agrees with the engine's totals,
   * else by what the commit did, else by searching the version before.
   */
  async rowsBefore(target: CommitTarget, requests: Requests, commit: Committed): Promise<ToldRows> {
    this.#unasked = 0;
    const known = this.#proved(requests[0], commit);
    if (known !== undefined) return known;
    try {
      return await this.#ask(target, requests, commit);
    } catch (cause) {
      throw new LancegateError('Internal', 'the rows were merged, but whose were new could not be told', { cause });
    }
  }

  /** To be called after every commit. `shared` are the rows it wrote; without them what was known is forgotten. */
  keep({ wasAlone, version, versionBefore }: Settled, request: MergeRequest, shared: SharedRows | undefined): void {
    this.#unasked += 1;
    const isWanted = this.#unasked <= mostUnasked;
    const isUpToDate = wasAlone && shared !== undefined && this.#known?.isOf(versionBefore, request.on) === true;
    if (!isWanted || !isUpToDate || this.#known?.advance(version, request, shared) !== true) this.forget();
  }

  #proved({ on, spec }: MergeRequest, { shared, counts, settled }: Committed): ToldRows | undefined {
    if (this.#known?.isWhole !== true || !this.#known.isOf(settled.versionBefore, on)) return undefined;
    const found = this.#known.find(shared);
    return agreesWithTotals(found, spec, shared, counts) ? toldBy('memory', found) : undefined;
  }

  async #ask({ dataset, location }: CommitTarget, requests: Requests, commit: Committed): Promise<ToldRows> {
    const [request] = requests;
    const { versionBefore } = commit.settled;
    const place = { location, branch: request.branch, version: versionBefore };
    const past = await this.#engine.open(place);
    try {
      if (this.#known?.isOf(versionBefore, request.on) !== true) await this.#read(past, dataset, place, request.on);
      return (
        this.#proved(request, commit) ??
        (await this.#told(past, dataset, request, commit)) ??
        (await this.#searched(past, requests))
      );
    } finally {
      past.close();
    }
  }

  async #told(
    past: Dataset,
    dataset: Dataset,
    request: MergeRequest,
    { counts, settled: { wasAlone, versionBefore } }: Committed,
  ): Promise<ToldRows | undefined> {
    if (!wasAlone || counts.version !== versionBefore + 1) return undefined;
    const readRows = request.spec.whenMatchedUpdateAll === false ? counts.numInsertedRows : counts.numUpdatedRows;
    this.#spentUs += readRows * cost.telling;
    const rowsBefore = await rowsBeforeByCommit({ request, counts, dataset, past });
    return rowsBefore && { by: 'commit', rowsBefore };
  }

  async #searched(past: Dataset, requests: Requests): Promise<ToldRows> {
    const sought = soughtKeys(requests);
    this.#spentUs += sought.keys.size * cost.searching;
    return toldBy('search', await countSoughtRows(past, sought));
  }

  async #read(past: Dataset, dataset: Dataset, place: OpenRequest, on: readonly FieldPath[]): Promise<void> {
    this.forget();
    const rows = await past.countRows();
    const isSmall = rows <= this.#readAtOnceRows;
    if (!isSmall && this.#spentUs < rows * cost.reading) return;
    this.#spentUs = 0;
    this.#lineage = dataset.lineage;
    const hold = this.#budget.open(() => this.forget());
    try {
      const known = await KnownKeys.open(past, on, { hold, hash: this.#hash });
      if (known === undefined) return;
      if (isSmall && !(await known.readAll(past))) return;
      this.#known = known;
      if (!isSmall) void this.#readBeside(known, place);
    } finally {
      if (this.#known === undefined) hold.release();
    }
  }

  /** Never rejects. Until it is done commits are told by themselves; `keep` and `carryOver` say what they did. */
  async #readBeside(known: KnownKeys, place: OpenRequest): Promise<void> {
    try {
      const past = await this.#engine.open(place);
      try {
        if (await known.readAll(past)) return;
      } finally {
        past.close();
      }
    } catch (error) {
      // Such as when the version has been removed meanwhile.
      this.#logger.debug({ location: place.location, error }, 'the keys of a table could not be read');
    }
    if (this.#known === known) this.forget();
  }
}

const toldBy = (by: ToldRows['by'], rows: ReadonlyMap<CanonicalKey, number>): ToldRows => ({
  by,
  rowsBefore: (key) => rows.get(key) ?? 0,
});
