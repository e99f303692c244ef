/** What a process gives its command: its arguments, environment, streams and signals. Only programs import it. */
import { existsSync, readFileSync } from 'node:fs';
import { tmpdir, totalmem } from 'node:os';
import { basename, join, relative } from 'node:path';
import type { CliContext } from './cli/command.ts';
import type { Machine } from './config/fit-defaults.ts';
import { systemClock } from './kernel/clock.ts';
import { temporaryFilesIn } from './query/process-folder.ts';
import { serviceProbes } from './service-probes.ts';

/** `program` is the file that the process runs. */
export const processContext = (program: string): CliContext => ({
  // With the temporary folder of the system, which a process of ours falls back on.
  env: { ...process.env, TMPDIR: tmpdir() },
  cwd: process.cwd(),
  invocation: invocation(program),
  packageFolder: join(import.meta.dirname, '..'),
  machine: thisMachine(),
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  clock: systemClock,
  readFile: (path) => readFileSync(path),
  fileExists: existsSync,
  openCredentials: async (config) => (await import('./stored-state.ts')).openCredentials(config, systemClock),
  probes: serviceProbes,
  onStopSignal(listener) {
    process.on('SIGTERM', listener);
    process.on('SIGINT', listener);
  },
  onReloadSignal(listener) {
    process.on('SIGHUP', listener);
  },
});

/** npm changes to the package's folder before it runs a script, and its PATH has the Node that this package pins. */
function invocation(program: string): string {
  if (['start', 'lancegate'].includes(process.env.npm_lifecycle_event ?? '')) return 'npm run --silent lancegate --';
  if (process.env.npm_lifecycle_event === 'npx') return 'npx lancegate';
  return basename(program) === 'main.ts' ? `node ${relative(process.cwd(), program)}` : 'lancegate';
}

function thisMachine(): Machine {
  // Without a container the one is a number beyond every machine's, or 0.
  const memoryBytes = Math.min(process.constrainedMemory() || totalmem(), totalmem());
  return { memoryBytes, openFiles: openFilesLimit() };
}

/** proc_pid_limits(5); Node has raised the soft limit to the hard one by now. */
function openFilesLimit(): number {
  if (process.platform !== 'linux') return Number.POSITIVE_INFINITY;
  const limit = Number(/^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1'))?.[1]);
  return Number.isNaN(limit) ? Number.POSITIVE_INFINITY : limit;
}

export function useTemporaryFolder(path: string): void {
  Object.assign(process.env, temporaryFilesIn(path));
}
