import { historyMs } from '../../../kernel/history.ts';
import type { HistoryRequest } from '../../port/upkeep.ts';

/** A version of a branch, as pruning knows it. */
export interface VersionInHistory {
  readonly version: number;
  readonly madeAtMs: number;
  /** Its commit took something away that was there just before. */
  readonly takesAway: boolean;
}

/** More of them are a listing that pages and names that fill a folder; the oldest go first. */
const mostVersions = 10_000;

/**
 * Which versions the rules keep; `versions` are all of the branch, in their order. Of each hour, day or other step stays the last version,
 * so the choice for a step is part of the choice for a shorter one, and is the same at every look. Of a commit that takes something away both stay:
 * the version before, and the one it made, whose transaction says so after a restart and to the next owner.
 */
export function keptByRules(
  versions: readonly VersionInHistory[],
  { rules, nowMs }: HistoryRequest,
): ReadonlySet<number> {
  const kept = new Set<number>();
  for (const [index, { version, madeAtMs }] of versions.entries()) {
    const next = versions[index + 1];
    if (next === undefined) break;
    const ageMs = nowMs - next.madeAtMs;
    if (next.takesAway && next.version === version + 1 && ageMs < historyMs(rules)) kept.add(version).add(next.version);
    const rule = rules.find(({ forMs }) => ageMs < forMs);
    if (rule === undefined) continue;
    const stepOf = (atMs: number) => Math.floor(atMs / Math.max(1, rule.everyMs));
    if (rule.everyMs === 0 || stepOf(madeAtMs) !== stepOf(next.madeAtMs)) kept.add(version);
  }
  return kept;
}

/** The newest of `kept`, which ascend, that take no more than `mostBytes`. Each has the bytes that go once it and all before it have gone. */
export function withinBytes(
  kept: readonly { readonly version: number; readonly bytes: number }[],
  mostBytes: number,
): { readonly versions: readonly number[]; readonly bytes: number } {
  const versions: number[] = [];
  let bytes = 0;
  for (const each of kept.toReversed().slice(0, mostVersions)) {
    if (bytes + each.bytes > mostBytes) break;
    bytes += each.bytes;
    versions.unshift(each.version);
  }
  return { versions, bytes };
}
