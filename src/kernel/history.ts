/**
 * How long versions stay once a later one has taken their place: of those that are younger than `forMs` the last of every `everyMs`, or
 * all where that is 0. The youngest come first, and the first rule keeps all. The state just before a commit that takes something
 * away stays as long as the last rule says.
 */
export interface HistoryRule {
  readonly forMs: number;
  readonly everyMs: number;
}

export type HistoryRules = readonly [HistoryRule, ...HistoryRule[]];

/** Nothing is kept for longer. */
export const historyMs = (rules: HistoryRules): number => rules.at(-1)?.forMs ?? 0;
