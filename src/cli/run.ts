import { nearest } from '../kernel/nearest-word.ts';
import { redactText } from '../telemetry/redact.ts';
import { apiKeyCommand } from './api-key.ts';
import { arrowCommand } from './arrow.ts';
import { type CliContext, type Command, commandHelp, helpText, UsageError, versionOf, write } from './command.ts';
import { configCommand } from './config.ts';
import { devCommand } from './dev.ts';
import { issuerKeyCommand } from './issuer-key.ts';
import { maintainCommand } from './maintain.ts';
import { type StartService, serveCommand } from './serve.ts';
import { tokenCommand } from './token.ts';

export type ExitCode = 0 | 1 | 2;

/** Runs one command line to its end: 0 done, 1 failed, 2 called or configured wrongly. Never throws. */
export async function runCli(
  args: readonly string[],
  context: CliContext,
  startService: StartService,
): Promise<ExitCode> {
  const commands = [
    devCommand(startService),
    serveCommand(startService),
    tokenCommand,
    apiKeyCommand,
    issuerKeyCommand,
    configCommand,
    arrowCommand,
    maintainCommand,
  ];
  try {
    await dispatch(args, commands, context);
    return 0;
  } catch (error) {
    await write(context.stderr, explain(error));
    return error instanceof UsageError ? 2 : 1;
  }
}

async function dispatch(args: readonly string[], commands: readonly Command[], context: CliContext): Promise<void> {
  const [name, ...rest] = args;
  if (name === undefined || ['help', '--help', '-h'].includes(name)) {
    const topic = commands.find((command) => command.name === rest[0]);
    return write(context.stdout, topic ? commandHelp(topic) : helpText(commands));
  }
  if (['version', '--version'].includes(name)) return write(context.stdout, `lancegate ${versionOf(context)}\n`);
  const command = commands.find((candidate) => candidate.name === name) ?? refuseCommand(name, commands);
  if (rest.includes('--help') || rest.includes('-h')) return write(context.stdout, commandHelp(command));
  await command.run(rest, context);
}

function refuseCommand(name: string, commands: readonly Command[]): never {
  const names = commands.map((command) => command.name);
  const meant = nearest(name, names);
  const hint =
    meant === undefined ? `the commands are ${names.join(', ')}, help and version` : `did you mean ${meant}?`;
  throw new UsageError([`unknown command ${JSON.stringify(name)}; ${hint}`]);
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
