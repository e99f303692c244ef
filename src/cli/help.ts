import { join } from 'node:path';
import { showOptions, showSettings } from '../config/describe-config.ts';
import type { Command } from './command.ts';
import type { CliContext } from './context.ts';

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
