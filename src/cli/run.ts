import { CommanderError } from 'commander';
import { codeOf } from '../kernel/errors.ts';
import { redactText } from '../telemetry/redact.ts';
import { arrowCommand } from './arrow.ts';
import { type CliContext, type Command, type CommandGroup, UsageError, versionOf, write } from './command.ts';
import { completionCommand } from './completion.ts';
import { configCommand } from './config.ts';
import { issuerKeyCommands, keyCommands, tokenCommand } from './credential-commands.ts';
import { devCommand } from './dev.ts';
import { doctorCommand } from './doctor/doctor.ts';
import { programOf } from './program.ts';
import { exportCommand } from './remote/export-command.ts';
import { loadCommand } from './remote/load-command.ts';
import { queryCommand } from './remote/query-command.ts';
import {
  maintainCommand,
  restoreCommand,
  showCommand,
  statusCommand,
  tablesCommand,
  versionsCommand,
} from './remote/table-commands.ts';
import { purgeCommand, trashCommand, undropCommand } from './remote/trash-commands.ts';
import { type StartService, serveCommand } from './serve.ts';

type ExitCode = 0 | 1 | 2;

/** Runs one command line to its end: 0 done, 1 failed, 2 called or configured wrongly. Never throws. */
export async function runCli(
  args: readonly string[],
  context: CliContext,
  startService: StartService,
): Promise<ExitCode> {
  const commands: (Command | CommandGroup)[] = [
    devCommand(startService),
    serveCommand(startService),
    tokenCommand,
    keyCommands,
    issuerKeyCommands,
    configCommand,
    arrowCommand,
    maintainCommand,
    statusCommand,
    tablesCommand,
    showCommand,
    versionsCommand,
    restoreCommand,
    trashCommand,
    undropCommand,
    purgeCommand,
    queryCommand,
    doctorCommand,
    completionCommand(() => commands),
    loadCommand,
    exportCommand,
  ];
  try {
    return await runProgram(args, commands, context);
  } catch (error) {
    if (codeOf(error) === 'EPIPE') return 0; // who reads has seen enough
    await write(context.stderr, explain(error));
    return error instanceof UsageError ? 2 : 1;
  }
}

async function runProgram(
  args: readonly string[],
  commands: readonly (Command | CommandGroup)[],
  context: CliContext,
): Promise<ExitCode> {
  const shown: string[] = [];
  const refused: string[] = [];
  const output = { shown: (text: string) => shown.push(text), refused: (text: string) => refused.push(text) };
  const program = programOf(commands, versionOf(context), context, output);
  const [first, ...asked] = args;
  // `help` itself takes one word, and some commands have two.
  const isOfTwo = first === 'help' && asked.length > 1;
  try {
    await program.parseAsync(first === undefined ? ['--help'] : isOfTwo ? [...asked, '--help'] : args, {
      from: 'user',
    });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.exitCode !== 0) {
      await write(context.stderr, error.code === 'commander.help' ? refused.join('') : mistaken(error));
      return 2;
    }
  }
  await write(context.stdout, shown.join(''));
  return 0;
}

/** One sentence of commander, perhaps with what was meant. */
function mistaken({ message }: CommanderError): string {
  const [what, meant] = message.replace(/^error: /, '').split('\n');
  const next = meant === undefined ? '`lancegate --help` lists the commands' : meant.replace(/^\((.*)\)$/, '$1');
  return `lancegate: ${what}; ${next.replace(/^D/, 'd')}\n`;
}

/** For a person, who needs no stack, unless the error is a defect of ours. */
function explain(error: unknown): string {
  const problems = error instanceof UsageError ? error.problems : [messageOf(error)];
  return problems.map((problem) => `lancegate: ${redactText(problem)}\n`).join('');
}

function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const isDefect = error instanceof TypeError || error instanceof ReferenceError || error instanceof RangeError;
  return isDefect ? (error.stack ?? error.message) : error.message;
}
