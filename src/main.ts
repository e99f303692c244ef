/** The program: what its process needs before any command, then the command. Only it sets the exit code. */
import { existsSync, mkdtempSync, rmdirSync } from 'node:fs';
import { enableCompileCache } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { StartService } from './cli/serve.ts';
import { sharedMemory } from './config/memory-folder.ts';
import { processContext, useTemporaryFolder } from './process-context.ts';

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

/**
 * Every start but the first takes a third less: stripping types and compiling is most of it. Kept in the package's own folder,
 * since a user who can write there can change the program anyway, which is not so of the shared folder that Node would choose.
 * Where it cannot be written, nothing is kept.
 */
enableCompileCache(join(import.meta.dirname, '../node_modules/.cache/node'));

// A log that cannot be written, on a full disk or with its reader gone, is no reason to end the service.
process.stderr.on('error', () => undefined);
// Who writes learns of it.
process.stdout.on('error', () => undefined);

/** Loaded when it is needed: the engine's native code would only slow the other commands down. */
const startService: StartService = async (config, parts) => {
  const service = await import('./service.ts');
  return service.startService(config, { ...parts, useTemporaryFolder });
};

const { runCli } = await import('./cli/run.ts');
process.exit(await runCli(args, processContext(program), startService));
