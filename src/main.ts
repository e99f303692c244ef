/** The process edge: the only reader of arguments, environment and signals, and the only one to set the exit code. */
import { existsSync, mkdtempSync, readFileSync, rmdirSync } from 'node:fs';
import { enableCompileCache } from 'node:module';
import { tmpdir, totalmem } from 'node:os';
import { basename, join, relative } from 'node:path';
import type { CliContext } from './cli/command.ts';
import type { StartService } from './cli/serve.ts';
import type { Machine } from './config/fit-defaults.ts';
import { sharedMemory } from './config/memory-folder.ts';
import { systemClock } from './kernel/clock.ts';
import { temporaryFilesIn } from './query/process-folder.ts';
import { serviceProbes } from './service-probes.ts';

const [, program = '', ...args] = process.argv;

/**
 * The engine needs a temporary folder. Where the disk of these is full, perhaps of old versions of tables, the service
 * still has to start, because it removes them.
 */
function haveTemporaryFolder(): void {
  try {
    rmdirSync(mkdtempSync(join(tmpdir(), 'lancegate-')));
  } catch {
    if (existsSync(sharedMemory)) process.env.TMPDIR = sharedMemory;
  }
}

if (args[0] === 'serve' || args[0] === 'dev') haveTemporaryFolder();

const packageFolder = join(import.meta.dirname, '..');

/**
 * Every start but the first takes a third less: stripping types and compiling is most of it. Kept in the package's own folder,
 * since a user who can write there can change the program anyway, which is not so of the shared folder that Node would choose.
 * Where it cannot be written, nothing is kept.
 */
enableCompileCache(join(packageFolder, 'node_modules/.cache/node'));

/** npm changes to the package's folder before it runs a script, and its PATH has the Node that this package pins. */
function invocation(): string {
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

// A log that cannot be written, on a full disk or with its reader gone, is no reason to end the service.
process.stderr.on('error', () => undefined);
// Who writes learns of it.
process.stdout.on('error', () => undefined);

const context: CliContext = {
  // With the temporary folder of the system, which a process of ours falls back on.
  env: { ...process.env, TMPDIR: tmpdir() },
  cwd: process.cwd(),
  invocation: invocation(),
  packageFolder,
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
};

/** Loaded when it is needed: the engine's native code would only slow the other commands down. */
const startService: StartService = async (config, parts) => {
  const service = await import('./service.ts');
  return service.startService(config, { ...parts, useTemporaryFolder });
};

function useTemporaryFolder(path: string): void {
  Object.assign(process.env, temporaryFilesIn(path));
}

const { runCli } = await import('./cli/run.ts');
process.exit(await runCli(args, context, startService));
