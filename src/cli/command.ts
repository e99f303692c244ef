import { join } from 'node:path';
import type { Credentials } from '../catalog/credentials.ts';
import type { Environment } from '../config/environment.ts';
import type { Machine } from '../config/fit-defaults.ts';
import type { Option } from '../config/options.ts';
import type { Config } from '../config/settings.ts';
import type { Clock } from '../kernel/clock.ts';
import { codeOf } from '../kernel/errors.ts';
import { isObject } from '../kernel/json-bounds.ts';
import type { Probes } from './probes.ts';

interface CommandWords {
  readonly name: string;
  /** It is one sentence or two. */
  readonly summary: string;
}

export interface Command extends CommandWords {
  /** Stands between the name and the flags, such as `TABLE`. */
  readonly positionals?: string;
  /** Help shows these flags. */
  readonly options: readonly Option<unknown>[];
  /** Its summary says so, in the place of all these flags. */
  readonly takesAllSettings?: true;
  /** Resolves when the command is done. Throws `UsageError` or `CliError` for what the caller can put right. */
  run(args: readonly string[], context: CliContext): Promise<void>;
}

/** The commands of a group are called by two words, such as `key create`. */
export interface CommandGroup extends CommandWords {
  /** The group had this name before. */
  readonly alias?: string;
  readonly commands: readonly Command[];
}

/** The version is that of the package. */
export function versionOf({ packageFolder, readFile }: CliContext): string {
  const said: unknown = JSON.parse(readFile(join(packageFolder, 'package.json')).toString('utf8'));
  return isObject(said) ? String(said.version) : 'unknown';
}

/** The person at the terminal can put it right. It is shown without a stack, and the exit code is 1. */
export class CliError extends Error {
  override readonly name = 'CliError';
}

/** It has everything that is wrong with how the program was called. The exit code is 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(problems.join('\n'));
    this.problems = problems;
  }
}

export interface Output {
  readonly isTTY?: boolean;
  /** Only a terminal has a width. */
  readonly columns?: number;
  write(data: string | Uint8Array, done?: (error?: Error | null) => void): unknown;
}

/** All that a command may touch of the process it runs in; `src/process-context.ts` gives the real one. */
export interface CliContext {
  readonly env: Environment;
  readonly cwd: string;
  /** How the program was called, in a form that a shell understands: `npm run --silent lancegate --`. */
  readonly invocation: string;
  /** package.json is there. */
  readonly packageFolder: string;
  readonly machine: Machine;
  readonly stdin: AsyncIterable<Uint8Array>;
  readonly stdout: Output;
  readonly stderr: Output;
  readonly clock: Clock;
  readonly readFile: (path: string) => Buffer;
  readonly fileExists: (path: string) => boolean;
  /** It opens those that the configuration names. */
  readonly openCredentials: (config: Config) => Promise<Credentials>;
  readonly probes: Probes;
  /** Calls `listener` for each SIGTERM and SIGINT from now on. */
  readonly onStopSignal: (listener: () => void) => void;
  /** Calls `listener` for each SIGHUP from now on, which then does not end the process. */
  readonly onReloadSignal: (listener: () => void) => void;
}

const reasons: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file or folder',
  EACCES: 'this user has no right to it',
  EISDIR: 'it is a folder',
  ENOSPC: 'the disk is full',
};

/** Says what is the matter with a file that the caller named, behind `what`: `people.csv cannot be read`. */
export function fileFault(what: string, error: unknown): CliError {
  const reason = reasons[codeOf(error) ?? ''] ?? (error instanceof Error ? error.message : error);
  return new CliError(`${what}: ${reason}`, { cause: error });
}

/** Resolves when the data is out, so that the process may end afterwards. */
export function write(output: Output, data: string | Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    output.write(data, (error) => (error ? reject(error) : resolve()));
  });
}
