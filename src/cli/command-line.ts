/** Commands by tables of what they take: the help of a command, what completes it, and how its line is read follow from one. */
import { parseArguments } from '../config/arguments.ts';
import { clientVariables } from '../config/environment.ts';
import { type Found, type OptionTable, type OptionValues, readOptions } from '../config/options.ts';
import { type ConfigReading, readConfig } from '../config/read-config.ts';
import { type SettingName, settings } from '../config/settings.ts';
import type { Some } from '../kernel/some.ts';
import { type CliContext, type Command, UsageError } from './command.ts';

interface CommandTable<Options extends OptionTable, Names extends readonly string[]> {
  readonly name: string;
  readonly summary: string;
  /** The options that are no settings. */
  readonly options: Options;
  /** The settings that help names, and that the command takes as flags; all are read from the environment. */
  readonly settings?: readonly SettingName[];
  /** The command takes the other settings too, and its summary says so in the place of their flags. */
  readonly takesAllSettings?: true;
  /** A positional in brackets may be absent, and one with `…` behind it may be several. */
  readonly positionals?: Names;
}

/** What stands at the names of the positionals. */
type Positionals<Names extends readonly string[]> = Names extends readonly [
  infer First extends string,
  ...infer Others extends readonly string[],
]
  ? First extends `${string}…`
    ? Some<string>
    : First extends `[${string}]`
      ? readonly [string?]
      : readonly [string, ...Positionals<Others>]
  : readonly [];

export interface CommandLine<Options, Names extends readonly string[]> {
  readonly options: OptionValues<Options>;
  /** They say where the value of each option is from: `--url`, `LANCEGATE_URL`, `default`. */
  readonly sources: Readonly<Record<string, string>>;
  readonly reading: ConfigReading;
  readonly positionals: Positionals<Names>;
}

/** The settings that say where credentials are. */
export const credentialSettings = ['dataFolder', 'catalogUrl', 'catalogPasswordFile'] as const;

export function commandOf<Options extends OptionTable, const Names extends readonly string[] = readonly []>(
  table: CommandTable<Options, Names>,
  run: (line: CommandLine<Options, Names>, context: CliContext) => Promise<void>,
): Command {
  const { name, summary, options, settings: shown = [], takesAllSettings, positionals = [] } = table;
  return {
    name,
    summary,
    positionals: positionals.join(' '),
    options: [...Object.values(options), ...shown.map((each) => settings[each])],
    ...(takesAllSettings && { takesAllSettings }),
    run: async (args, context) => run(readCommandLine(table, args, context), context),
  };
}

/** Reads arguments and environment; throws one `UsageError` with everything that is wrong in either. */
function readCommandLine<Options extends OptionTable, const Names extends readonly string[]>(
  { options, settings: shown = [], takesAllSettings, positionals: expected }: CommandTable<Options, Names>,
  args: readonly string[],
  context: CliContext,
): CommandLine<Options, Names> {
  const taken = takesAllSettings ? Object.values(settings) : shown.map((name) => settings[name]);
  const { flags, positionals, problems } = parseArguments(args, [...taken, ...Object.values(options)]);
  const own = readOptions(options, ({ flag }) => flags.get(flag) ?? inEnvironment(flag, context), context.cwd);
  const readTextFile = (path: string): string => context.readFile(path).toString('utf8');
  const { env, cwd, machine } = context;
  const reading = readConfig({ flags, env, cwd, machine, readTextFile });
  const all = [...problems, ...positionalProblems(expected ?? [], positionals), ...own.problems, ...reading.problems];
  if (all.length > 0) throw new UsageError(all);
  return { options: own.values, sources: own.sources, reading, positionals: positionals as Positionals<Names> };
}

function inEnvironment(flag: string, { env }: CliContext): Found | undefined {
  const source = clientVariables.get(flag);
  const text = source && env[source];
  return source && text ? { text, source } : undefined;
}

function positionalProblems(expected: readonly string[], given: readonly string[]): readonly string[] {
  const missing = expected.slice(given.length).filter((name) => !name.startsWith('['));
  // A shell has nothing for a variable that is not set.
  const empty = given.flatMap((text, at) => (text === '' ? [expected[at] ?? expected.at(-1)] : []));
  const surplus = expected.at(-1)?.endsWith('…') ? [] : given.slice(expected.length);
  return [
    ...missing.map((name) => `${name} is missing`),
    ...empty.map((name) => `${name} is empty`),
    ...surplus.map((argument) => `unexpected argument ${JSON.stringify(argument)}`),
  ];
}
