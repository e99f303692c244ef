import { LRUCache } from 'lru-cache';
import type { Space } from '../engine/port/engine.ts';
import type { HistoryRequest, KeptHistory } from '../engine/port/upkeep.ts';
import { type Clock, dayMs } from '../kernel/clock.ts';
import { type HistoryRules, historyMs } from '../kernel/history.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { isNearlyFull } from './disk-space.ts';
import { type BranchRef, keyOf } from './report.ts';

interface HistoryOfBranch extends KeptHistory {
  readonly notedAtMs: number;
}

export interface HistoryPolicy {
  readonly rules: HistoryRules;
  /** What the history of all tables may take; undefined for a part of the disk, and for no bound on an object store. */
  readonly mostBytes: number | undefined;
}

interface HistoryParts extends HistoryPolicy {
  readonly clock: Clock;
  readonly metrics: Metrics;
}

const mostBranches = 10_000;
const partOfDisk = 1 / 5;
/** All tables are looked at once a day, so what was not noted for so long is gone, or another replica's. */
const notedForMs = 2 * dayMs;

/**
 * What the history takes of the branches that this process has pruned, which together have a bound: at it each gives up its oldest
 * versions, in proportion to what it takes. It is in memory only: after a start a branch counts once it was pruned.
 */
export class HistoryRoom {
  readonly #parts: HistoryParts;
  readonly #branches = new LRUCache<string, HistoryOfBranch>({ max: mostBranches });

  constructor(parts: HistoryParts) {
    this.#parts = parts;
    parts.metrics.watchHistoryBytes(() => this.#bytes);
    parts.metrics.watchUndoReach(() => this.reachMs / 1_000);
  }

  /** On a nearly full disk half goes at each look. */
  requestFor(target: BranchRef, space: Space | undefined): HistoryRequest {
    const { rules, clock } = this.#parts;
    const limit =
      this.#parts.mostBytes ?? (space === undefined ? Number.POSITIVE_INFINITY : space.totalBytes * partOfDisk);
    const others = this.#bytes - (this.#branches.peek(keyOf(target))?.bytes ?? 0);
    const mostBytes = (own: number): number => {
      if (space !== undefined && isNearlyFull(space)) return Math.min(own / 2, limit);
      return others + own <= limit ? own : (own * limit) / (others + own);
    };
    return { rules, nowMs: clock.nowMs(), mostBytes };
  }

  note(target: BranchRef, { versions, bytes, cutToMs }: KeptHistory): void {
    const key = keyOf(target);
    const before = this.#branches.peek(key)?.cutToMs;
    const cutTo = Math.max(cutToMs ?? 0, before ?? 0) || undefined;
    this.#branches.set(key, { versions, bytes, cutToMs: cutTo, notedAtMs: this.#parts.clock.nowMs() });
  }

  /** How far back every table can be taken: less than the rules say where there was no room for more. */
  get reachMs(): number {
    const cuts = this.#noted.map(({ cutToMs = 0 }) => cutToMs);
    return Math.min(historyMs(this.#parts.rules), this.#parts.clock.nowMs() - Math.max(0, ...cuts));
  }

  get isCut(): boolean {
    return this.reachMs < historyMs(this.#parts.rules);
  }

  get #bytes(): number {
    return this.#noted.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  get #noted(): readonly HistoryOfBranch[] {
    const sinceMs = this.#parts.clock.nowMs() - notedForMs;
    return [...this.#branches.values()].filter(({ notedAtMs }) => notedAtMs > sinceMs);
  }
}
