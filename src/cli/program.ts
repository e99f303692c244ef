/**
 * Makes the commands a program of `commander`, which finds the command that is meant and prints help. Each reads its flags by itself.
 */
import { Option as FlagShown, Command as Program } from 'commander';
import type { Option } from '../config/options.ts';
import { groups } from '../config/settings.ts';
import type { CliContext, Command, CommandGroup } from './command.ts';

interface HelpOutput {
  shown(text: string): void;
  /** It gets help that was not asked for, where a command needs one more word. */
  refused(text: string): void;
}

const afterHelp = `
\`lancegate COMMAND --help\` shows the flags of a command. Settings are environment variables, too.
Exit codes: 0 done, 1 failed, 2 called or configured wrongly.`;

export function programOf(
  commands: readonly (Command | CommandGroup)[],
  version: string,
  context: CliContext,
  { shown, refused }: HelpOutput,
): Program {
  const width = (): number => context.stdout.columns ?? 100;
  const program = new Program('lancegate')
    .description('A service for Lance tables over HTTP, and commands that work with it.')
    .usage('COMMAND [flags]')
    .version(`lancegate ${version}`, '-v, --version', 'Print the version.')
    .helpOption('-h, --help', 'Show help.')
    .helpCommand('help [command]', 'Shows help of a command.')
    .addHelpText('after', afterHelp)
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput({ writeOut: shown, writeErr: refused, getOutHelpWidth: width, getErrHelpWidth: width });
  for (const command of commands) {
    if ('run' in command) addCommand(program, command, context);
    else addGroup(program, command, context);
  }
  program.command('version', { hidden: true }).action(() => shown(`lancegate ${version}\n`));
  return program;
}

function addGroup(program: Program, { name, alias, summary, commands }: CommandGroup, context: CliContext): void {
  const group = program.command(name).description(summary);
  if (alias !== undefined) group.alias(alias);
  for (const command of commands) addCommand(group, command, context);
}

/** What follows its name is left to the command: it names all mistakes at once, those in values included. */
function addCommand(parent: Program, command: Command, context: CliContext): void {
  const { name, positionals, summary, options, run } = command;
  const added = parent.command(name);
  added
    .description(summary)
    .usage([positionals, '[flags]'].filter(Boolean).join(' '))
    .allowUnknownOption()
    .allowExcessArguments()
    .configureHelp({ visibleOptions: () => options.map(flagShown) })
    .action(() => run.call(command, added.args, context));
}

function flagShown(option: Option<unknown>): FlagShown {
  const { flag, type, default: text, doc } = option;
  // Beside a longer one no help could be read.
  const isLong = type.placeholder.length > 30;
  const value = isLong ? 'VALUE' : type.placeholder;
  const usage = type.arity === 'switch' ? `--[no-]${flag}` : `--${flag} ${value}`;
  const usual = type.arity === 'list' ? text?.replaceAll(',', ', ') : text;
  const words = [doc, isLong && `Takes ${type.expects}.`, usual !== undefined && `[${usual}]`];
  const shown = new FlagShown(usage, words.filter(Boolean).join(' '));
  const of = 'group' in option ? String(option.group) : '';
  const [, group = 'Flags'] = Object.entries(groups).find(([name]) => name === of) ?? [];
  return shown.helpGroup(`${group}:`);
}
