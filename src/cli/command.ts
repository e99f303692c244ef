import type { Option } from '../config/options.ts';
import type { CliContext } from './context.ts';

export interface Command {
  readonly name: string;
  readonly usage: string;
  /** One sentence or two. */
  readonly summary: string;
  /** Flags for the help text; undefined shows all settings. */
  readonly options: readonly Option<unknown>[] | undefined;
  /** Resolves when the command is done. Throws `UsageError` or `CliError` for what the caller can put right. */
  run(args: readonly string[], context: CliContext): Promise<void>;
}
