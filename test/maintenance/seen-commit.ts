/** A commit in which the engine found the rows, as upkeep is told of it. */
export const byEngine = {
  on: [{ segments: ['id'] }],
  engineMs: 1,
  gainsByIndex: true,
  isPlaced: false,
  mostFragments: Number.POSITIVE_INFINITY,
} as const;
