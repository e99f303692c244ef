/** Something the person at the terminal can put right; shown without a stack. Exit code 1. */
export class CliError extends Error {
  override readonly name = 'CliError';
}

/** Everything that is wrong with how the program was called. Exit code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(problems.join('\n'));
    this.problems = problems;
  }
}
