import { parseArguments } from '../config/arguments.ts';
import { clientVariables } from '../config/environment.ts';
import { type Found, type OptionTable, type OptionValues, readOptions } from '../config/options.ts';
import { type ConfigReading, readConfig } from '../config/read-config.ts';
import { type SettingName, settings } from '../config/settings.ts';
import { entriesOf } from '../kernel/paired.ts';
import type { Some } from '../kernel/some.ts';
import { type CliContext, UsageError } from './command.ts';

/** What a command takes on its command line. */
interface CommandSyntax<Options extends OptionTable, Names extends readonly string[]> {
  /** Its own, which are no settings. */
  readonly options: Options;
  /** Settings it takes as flags; all of them are read from the environment. */
  readonly settingNames: readonly SettingName[];
  /** Names of the positionals; one in brackets may be absent, and one with `…` behind it may be several. */
  readonly positionals?: Names;
}

/** What stands at the names of the syntax. */
export type Positionals<Names extends readonly string[]> = Names extends readonly [
  infer First extends string,
  ...infer Others extends readonly string[],
]
  ? First extends `${string}…`
    ? Some<string>
    : First extends `[${string}]`
      ? readonly [string?]
      : readonly [string, ...Positionals<Others>]
  : readonly [];

interface CommandLine<Options, Names extends readonly string[]> {
  readonly options: OptionValues<Options>;
  /** By option: `--url`, `LANCEGATE_URL`, `default`. */
  readonly sources: Readonly<Record<string, string>>;
  readonly reading: ConfigReading;
  readonly positionals: Positionals<Names>;
}

/** Where credentials are. */
export const credentialSettings = ['dataFolder', 'catalogUrl', 'catalogPasswordFile'] as const;

export const allSettingNames: readonly SettingName[] = entriesOf(settings).map(([name]) => name);

/** Reads arguments and environment; throws one `UsageError` with everything that is wrong in either. */
export function readCommandLine<Options extends OptionTable, const Names extends readonly string[] = readonly []>(
  syntax: CommandSyntax<Options, Names>,
  args: readonly string[],
  context: CliContext,
): CommandLine<Options, Names> {
  const taken = [...syntax.settingNames.map((name) => settings[name]), ...Object.values(syntax.options)];
  const { flags, positionals, problems } = parseArguments(args, taken);
  const own = readOptions(syntax.options, ({ flag }) => flags.get(flag) ?? inEnvironment(flag, context), context.cwd);
  const readTextFile = (path: string): string => context.readFile(path).toString('utf8');
  const { env, cwd, machine } = context;
  const reading = readConfig({ flags, env, cwd, machine, readTextFile });
  const all = [
    ...problems,
    ...positionalProblems(syntax.positionals ?? [], positionals),
    ...own.problems,
    ...reading.problems,
  ];
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
