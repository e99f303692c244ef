/**
 * How much SQL a client may send. The engine reads, plans and evaluates an expression by recursion, on stacks of 2 MiB, and
 * a stack that overflows ends the process. `docs/measurements/sql-limits.md` says what was deadly; each limit keeps a
 * factor of four, which `test/sql/margins.test.ts` holds against the real engine.
 */
export const sqlLimits = {
  /** The length of the text in UTF-16 units: 100,000 UUIDs in an IN list take 4 million. */
  characters: 8 << 20,
  /** Literals, names, operators, brackets, commas. */
  tokens: 600_000,
  /**
   * So many operators and brackets may be on the way from the whole expression to its innermost value. The engine's parser
   * refuses 46 brackets, and in an update filter 46 signs.
   */
  depth: 44,
  /** The engine balances ANDs and ORs outside of functions before it recurses. */
  conditions: 4_096,
  /** What planning costs: of each operator how deep the operators around it are; about 10 µs each. */
  work: 1 << 16,
  /**
   * What makes the engine read or write its operand several times, each inside of another, which multiplies that. A function
   * counts once: those with a second name are planned twice. BETWEEN, CASE, `coalesce` and its kin, NOT before brackets, and
   * calls with a syntax of their own, such as CAST, count twice; so does what makes a value twice as long: `encode`, casts to
   * bytes.
   */
  multipliers: 8,
  tokensInKeywordCall: 1_000,
  /** An array may have so many elements, and IN any number. The engine makes one array for each first. */
  elements: 10_000,
  /** A call may have so many arguments: its result can be as long as all of them together, as in `concat(v, v, …)`. */
  arguments: 100,
  /** The most `%` and `_` in one LIKE. */
  wildcards: 100,
  /** `a.b.c` has three. */
  pathSegments: 32,
} as const;
