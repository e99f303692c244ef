import type { Dataset, Engine } from '../engine/port.ts';
import { LancegateError } from '../kernel/errors.ts';
import type { CommitTarget } from './engine-commit.ts';
import { countRowsByKey, soughtKeys } from './key-lookup.ts';
import { KnownKeys } from './known-keys.ts';
import type { RowsBefore, SharedRows } from './merge-group.ts';
import type { MergeRequest } from './merge-request.ts';
import type { Settled } from './outside-commits.ts';

/** The keys that the writer of a branch knows, if it does, and how it comes to know them. */
export class KeyMemory {
  readonly #engine: Engine;
  #known: KnownKeys | undefined;
  /** Another one of the same name, such as after an overwrite, has versions of its own. */
  #dataset: Dataset | undefined;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  get isEmpty(): boolean {
    return this.#known === undefined;
  }

  /** To be called when a turn begins: upkeep may have committed since the last one, and so may somebody outside. */
  async carryOver(dataset: Dataset): Promise<void> {
    if (this.#known === undefined) return;
    const version = await dataset.version();
    if (this.#dataset !== dataset) this.#known = undefined;
    else if ((await dataset.rowChange(this.#known.version, version)) === 'none') this.#known.carryTo(version);
    else this.#known = undefined;
  }

  /** How many rows each key of the requests had at `version`: from memory, else by asking that version. */
  async rowsBefore(target: CommitTarget, requests: readonly MergeRequest[], version: number): Promise<RowsBefore> {
    const [{ on }] = requests as readonly [MergeRequest];
    if (this.#known?.isOf(version, on) === true) return this.#known.rowsBefore();
    try {
      return await this.#ask(target, requests, version);
    } catch (cause) {
      throw new LancegateError('Internal', 'the rows were merged, but whose were new could not be told', { cause });
    }
  }

  /** To be called after every commit. `shared` are the rows it wrote; without them what was known is forgotten. */
  keep({ wasAlone, version, versionBefore }: Settled, request: MergeRequest, shared: SharedRows | undefined): void {
    const isUpToDate = wasAlone && shared !== undefined && this.#known?.isOf(versionBefore, request.on) === true;
    if (!isUpToDate || this.#known?.advance(version, request, shared) !== true) this.#known = undefined;
  }

  async #ask(
    { dataset, location }: CommitTarget,
    requests: readonly MergeRequest[],
    version: number,
  ): Promise<RowsBefore> {
    const [{ on, branch }] = requests as readonly [MergeRequest];
    const past = await this.#engine.open({ location, branch, version });
    try {
      this.#dataset = dataset;
      this.#known = await KnownKeys.read(past, on);
      if (this.#known !== undefined) return this.#known.rowsBefore();
      const rows = await countRowsByKey(past, on, soughtKeys(requests));
      return (key) => rows.get(key) ?? 0;
    } finally {
      past.close();
    }
  }
}
