import type { Commit } from '../write/commit-observer.ts';
import {
  type CostFactors,
  columnsToIndex,
  corrected,
  type Inspection,
  indexFromMerges,
  type MaintenancePolicy,
  minCommits,
  noFactors,
  type Options,
  optionsFor,
  type Plan,
  plansFor,
} from './decide/policy.ts';
import { afterCommit, type Debt, noDebt, VersionAges } from './observe/debt.ts';
import type { BranchRef } from './report.ts';

export interface WatchPolicy extends MaintenancePolicy {
  /** How long a version is kept after it was superseded. */
  readonly retentionMs: number;
}

type SeenCommit = Pick<Commit, 'on' | 'gainsByIndex' | 'mostFragments'>;

const firstRetryMs = 1_000;
const longestRetryMs = 300_000;

/** What this process has seen of one branch, and which plan that leads to. Bounded: sums, a few marks, and the key columns. */
export class BranchWatch {
  readonly target: BranchRef;
  readonly ages: VersionAges;
  readonly #policy: WatchPolicy;
  readonly #mergesOn = new Map<string, number>();
  /** No job before this time, and no job of this kind. */
  readonly #coolDownUntilMs = { any: 0, compact: 0, index: 0, refresh: 0, prune: 0 };
  #debt = noDebt;
  /** The options by the layout as it was last seen, and how many commits there had been then. */
  #seen: { readonly options: Options; readonly commits: number } | undefined;
  #factors: CostFactors = noFactors;
  #failures = 0;
  #isWarmed = false;

  constructor({ table, tableId, branch, location }: BranchRef, policy: WatchPolicy) {
    this.target = { table, tableId, branch, location };
    this.ages = new VersionAges(policy.retentionMs);
    this.#policy = policy;
  }

  get debt(): Debt {
    return this.#debt;
  }

  /** Top-level columns that merges used as their only key, with the number of commits. */
  get mergesOn(): ReadonlyMap<string, number> {
    return this.#mergesOn;
  }

  committed(commit: SeenCommit, nowMs: number): void {
    this.#debt = afterCommit(this.#debt, commit);
    this.ages.committed(nowMs);
    const [path, ...others] = commit.on;
    const column = path?.segments.length === 1 && others.length === 0 ? path.segments[0] : undefined;
    if (column === undefined) return;
    const merges = (this.#mergesOn.get(column) ?? 0) + 1;
    this.#mergesOn.set(column, merges);
    if (merges === indexFromMerges) this.#seen = undefined;
  }

  /** Notes that maintenance has made so many versions. `debt` is what is left. */
  maintained(debt: Debt, versions: number, nowMs: number): void {
    this.#debt = debt;
    this.#seen = undefined;
    for (let made = 0; made < versions; made += 1) this.ages.committed(nowMs);
  }

  /** Indexes are worth reading into memory once the second merge has come. True the first time only. */
  beginWarming(): boolean {
    const isFirst = !this.#isWarmed;
    this.#isWarmed = true;
    return isFirst;
  }

  /** Whether a look at its layout may lead to a job. */
  isDue(nowMs: number, mayPrune: boolean): boolean {
    if (nowMs < this.#coolDownUntilMs.any) return false;
    // After so many more commits, the layout may allow what it did not before.
    if (this.#seen !== undefined && this.#debt.commits < this.#seen.commits + minCommits)
      return this.#choose(this.#seen.options, nowMs, mayPrune) !== undefined;
    // Fewer commits lead to no job before old versions can be removed.
    return this.#debt.commits >= indexFromMerges || (mayPrune && this.ages.removable(nowMs) > 0);
  }

  /** What is to be done now. Until that is something, what was found is remembered. */
  plan({ layout, schema }: Inspection, nowMs: number, mayPrune: boolean): Plan | undefined {
    const isMain = this.target.branch === undefined;
    // Merges into branches use no index, so only those of other programs matter there.
    const known = isMain ? layout : { ...layout, indexes: layout.indexes.filter(({ isPlain }) => !isPlain) };
    const columns = isMain ? columnsToIndex(this.#mergesOn, { layout, schema }, this.#policy) : [];
    const options = optionsFor(known, columns, this.#factors, this.#policy);
    this.#seen = { options, commits: this.#debt.commits };
    return this.#choose(options, nowMs, mayPrune);
  }

  /** Jobs of a kind take half of the time at most, and the guess of the next one is corrected by what this one took. */
  succeeded(plan: Plan, tookMs: number, nowMs: number): void {
    this.#failures = 0;
    this.#coolDownUntilMs[plan.job] = nowMs + tookMs;
    // A first index is built from rows that are not in memory yet.
    if (plan.job === 'prune' || plan.job === 'refresh' || plan.reason === 'merges on the column') return;
    const guessMs = plan.cost.lockedMs + plan.cost.backgroundMs;
    this.#factors = { ...this.#factors, [plan.job]: corrected(this.#factors[plan.job], guessMs, tookMs) };
  }

  /** Notes that a refresh begins: until it has ended, there is no second one. */
  beginsRefresh(): void {
    this.#coolDownUntilMs.refresh = Number.POSITIVE_INFINITY;
  }

  /** Returns for how long there is no other attempt: each time twice as long. `job` is what failed, undefined for the planning. */
  failed(nowMs: number, job?: Plan['job']): number {
    const retryAfterMs = Math.min(longestRetryMs, firstRetryMs * 2 ** this.#failures);
    this.#failures += 1;
    this.#coolDownUntilMs.any = nowMs + retryAfterMs;
    if (job === 'refresh') this.#coolDownUntilMs.refresh = 0;
    return retryAfterMs;
  }

  #choose(options: Options, nowMs: number, mayPrune: boolean): Plan | undefined {
    const facts = {
      debt: this.#debt,
      quietForMs: this.ages.quietForMs(nowMs),
      removableVersions: mayPrune ? this.ages.removable(nowMs) : 0,
      keptVersions: this.ages.kept(nowMs),
      unseenCommits: this.#debt.commits - (this.#seen?.commits ?? 0),
    };
    return plansFor(facts, options, this.#policy).find(({ job }) => nowMs >= this.#coolDownUntilMs[job]);
  }
}
