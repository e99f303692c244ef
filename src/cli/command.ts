import { join } from 'node:path';
import { showOptions, showSettings } from '../config/describe-config.ts';
import type { Option } from '../config/options.ts';
import { UsageError } from './cli-error.ts';
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

type Run = Command['run'];

/** Runs the action that the first argument names. `UsageError` lists the actions. */
export const runAction =
  (command: string, actions: Readonly<Record<string, Run>>): Run =>
  async ([action = '', ...args], context) => {
    if (!Object.hasOwn(actions, action)) {
      throw new UsageError([`${command} needs one of: ${Object.keys(actions).join(', ')}`]);
    }
    await actions[action]!(args, context);
  };

export function helpText(commands: readonly Command[]): string {
  const rows = commands.map(({ usage, summary }) => `  lancegate ${usage}\n      ${summary}\n`);
  return `lancegate: a write service for Lance tables\n\n${rows.join('')}\n\`lancegate COMMAND --help\` shows the flags of a command.\n`;
}

export function commandHelp({ usage, summary, options }: Command): string {
  const flags = options === undefined ? showSettings() : showOptions(options);
  return `lancegate ${usage}\n\n${summary}\n\n${flags}`;
}

export function versionText({ packageFolder, readFile }: CliContext): string {
  const { version } = JSON.parse(readFile(join(packageFolder, 'package.json')).toString('utf8')) as { version: string };
  return `lancegate ${version}\n`;
}
