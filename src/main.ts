/** The process edge: the only reader of arguments, environment and signals, and the only one to set the exit code. */
import { existsSync, readFileSync } from 'node:fs';
import { basename, join, relative } from 'node:path';
import type { CliContext } from './cli/context.ts';
import { runCli } from './cli/run.ts';
import type { StartService } from './cli/service-port.ts';
import { systemClock } from './kernel/clock.ts';

const [, program = '', ...args] = process.argv;

/** npm changes to the package's folder before it runs a script, and its PATH has the Node that this package pins. */
function invocation(): string {
  if (['start', 'lancegate'].includes(process.env.npm_lifecycle_event ?? '')) return 'npm run --silent lancegate --';
  return basename(program) === 'main.ts' ? `node ${relative(process.cwd(), program)}` : 'lancegate';
}

const context: CliContext = {
  env: process.env,
  cwd: process.cwd(),
  invocation: invocation(),
  packageFolder: join(import.meta.dirname, '..'),
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  clock: systemClock,
  readFile: (path) => readFileSync(path),
  fileExists: existsSync,
  onStopSignal(listener) {
    process.on('SIGTERM', listener);
    process.on('SIGINT', listener);
  },
};

/** Loaded when it is needed: the engine's native code would only slow the other commands down. */
const startService: StartService = async (config, parts) => {
  const service = await import('./service.ts');
  return service.startService(config, parts);
};

process.exit(await runCli(args, context, startService));
