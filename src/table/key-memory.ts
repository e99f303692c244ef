import type { FieldPath } from '../arrow/field-path.ts';
import type { Dataset, Engine, MergeCounts } from '../engine/port.ts';
import { LancegateError } from '../kernel/errors.ts';
import type { CommitTarget } from './engine-commit.ts';
import type { KeyBudget } from './key-budget.ts';
import { countSoughtRows, soughtKeys } from './key-lookup.ts';
import { KnownKeys } from './known-keys.ts';
import type { RowsBefore, SharedRows } from './merge-group.ts';
import type { MergeRequest } from './merge-request.ts';
import type { Settled } from './outside-commits.ts';
import { rowsBeforeByCommit } from './rows-of-commit.ts';

/** To read a million keys in vain takes as long as some ten lookups. */
const lookupsBetweenTries = 100;

type Requests = readonly [MergeRequest, ...MergeRequest[]];

/** A commit, as the engine counted it and as it turned out beside those of others. */
interface Committed {
  readonly counts: MergeCounts;
  readonly settled: Settled;
}

/** The keys that the writer of a branch knows, if it does, and how it comes to know them. */
export class KeyMemory {
  readonly #engine: Engine;
  readonly #budget: KeyBudget;
  #lookupsUntilNextTry = 0;
  #known: KnownKeys | undefined;
  /** Another one of the same name, such as after an overwrite, has versions of its own. */
  #dataset: Dataset | undefined;

  constructor({ engine, keyBudget }: { readonly engine: Engine; readonly keyBudget: KeyBudget }) {
    this.#engine = engine;
    this.#budget = keyBudget;
  }

  get isEmpty(): boolean {
    return this.#known === undefined;
  }

  /** To be called when a turn begins: upkeep may have committed since the last one, and so may somebody outside. */
  async carryOver(dataset: Dataset): Promise<void> {
    const known = this.#known;
    if (known === undefined) return;
    const version = await dataset.version();
    const isSame = this.#dataset === dataset && (await dataset.rowChange(known.version, version)) === 'none';
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
   * How many rows each key of the requests had before their commit: from memory, else by what the commit did, else by
   * asking the version before.
   */
  async rowsBefore(target: CommitTarget, requests: Requests, commit: Committed): Promise<RowsBefore> {
    if (this.#known?.isOf(commit.settled.versionBefore, requests[0].on) === true) return this.#known.rowsBefore();
    try {
      return await this.#ask(target, requests, commit);
    } catch (cause) {
      throw new LancegateError('Internal', 'the rows were merged, but whose were new could not be told', { cause });
    }
  }

  /** To be called after every commit. `shared` are the rows it wrote; without them what was known is forgotten. */
  keep({ wasAlone, version, versionBefore }: Settled, request: MergeRequest, shared: SharedRows | undefined): void {
    const isUpToDate = wasAlone && shared !== undefined && this.#known?.isOf(versionBefore, request.on) === true;
    if (!isUpToDate || this.#known?.advance(version, request, shared) !== true) this.forget();
  }

  async #ask(
    { dataset, location }: CommitTarget,
    requests: Requests,
    { counts, settled: { wasAlone, versionBefore } }: Committed,
  ): Promise<RowsBefore> {
    const [request] = requests;
    const past = await this.#engine.open({ location, branch: request.branch, version: versionBefore });
    try {
      this.#dataset = dataset;
      this.#known = await this.#readAll(past, request.on);
      if (this.#known !== undefined) return this.#known.rowsBefore();
      const isNext = wasAlone && counts.version === versionBefore + 1;
      const told = isNext ? await rowsBeforeByCommit({ request, counts, dataset, past }) : undefined;
      if (told !== undefined) return told;
      const rows = await countSoughtRows(past, soughtKeys(requests));
      return (key) => rows.get(key) ?? 0;
    } finally {
      past.close();
    }
  }

  async #readAll(past: Dataset, on: readonly FieldPath[]): Promise<KnownKeys | undefined> {
    this.forget();
    if (this.#lookupsUntilNextTry > 0) {
      this.#lookupsUntilNextTry -= 1;
      return undefined;
    }
    const hold = this.#budget.open(() => this.forget());
    let known: KnownKeys | undefined;
    try {
      known = await KnownKeys.read(past, on, hold);
      return known;
    } finally {
      if (known === undefined) {
        hold.release();
        this.#lookupsUntilNextTry = lookupsBetweenTries;
      }
    }
  }
}
