/**
 * Which files of tests share a process, one after the other. To load the service costs a process a second or two, which is
 * more than most files take once it is loaded. `npm test` runs the suites; each file still runs by itself:
 *   node --test test/http/errors.test.ts
 * What is in test/cluster takes minutes, or needs an object store, which npm cannot bring; `npm run test:cluster` runs it, and
 * `npm run test:package` what is in test/package.
 */
import { existsSync, globSync, statfsSync } from 'node:fs';
import { flushCompileCache } from 'node:module';
import { basename, join } from 'node:path';
import { setFlagsFromString } from 'node:v8';

const testFolder = join(import.meta.dirname, '..');

/**
 * A file belongs to the first suite here that names it. They begin in the order of their names, the long ones first, so that no core is
 * idle at the end.
 */
const patternsOf = {
  '10-engine': ['engine/*.test.ts'],
  '11-http-routes': ['http/{routes,types,access,uploads,timeouts,overload}*.test.ts'],
  '19-http-states': ['http/{states,idempotency,one-row-per-key}*.test.ts'],
  '12-http-first': ['http/[a-h]*.test.ts'],
  '13-http': ['http/*.test.ts'],
  '14-unit': ['{unit,keys,wire,kernel}/**/*.test.ts'],
  '15-cli': ['cli/*.test.ts'],
  '16-system': ['system/{crash,power-cut,full-disk}*.test.ts'],
  '21-memory': ['system/{memory,overload}*.test.ts', 'http-unit/refusals.test.ts'],
  '17-http-unit': ['{http-unit,auth}/*.test.ts'],
  '18-model': ['{model,fuzz}/**/*.test.ts'],
  '22-maintenance': ['maintenance/*.test.ts'],
  '23-table': ['table/*.test.ts'],
  '24-clients': ['clients/*.test.ts'],
  '25-catalog': ['catalog/*.test.ts'],
  '20-rest': ['**/*.test.ts'],
} as const;

type SuiteName = keyof typeof patternsOf;

export const suiteNames = Object.keys(patternsOf) as readonly SuiteName[];

const matching = (patterns: readonly string[]): string[] =>
  globSync([...patterns], { cwd: testFolder, exclude: ['cluster/**', 'package/**'] }).sort();

/** Paths below `test`. */
export function filesOf(suite: SuiteName): readonly string[] {
  const earlier = suiteNames.slice(0, suiteNames.indexOf(suite)).flatMap((name) => patternsOf[name]);
  const taken = new Set(matching(earlier));
  return matching(patternsOf[suite]).filter((file) => !taken.has(file));
}

/** Registers the tests of the suite that the file of this path is named after with the process that calls. */
export async function runSuite(path: string): Promise<void> {
  const suite = suiteNames.find((name) => name === basename(path, '.suite.ts'));
  if (suite === undefined) throw new Error(`there is no suite for ${path}`);
  keepFilesInMemory();
  // As `bin/start.js` does for the service.
  setFlagsFromString('--wasm-tiering-budget=500000000');
  for (const file of filesOf(suite)) await import(join(testFolder, file));
  // Otherwise it is written when this process ends, and those that its tests start compile the same again.
  flushCompileCache();
}

const sharedMemory = '/dev/shm';
/** Several times what the tests have there at once. */
const enoughBytes = 2 ** 30;

/**
 * A sync to a disk takes milliseconds, and the tests wait for tens of thousands of them. That they are made is proved by the trace of a
 * process and by disks that forget what was not synced, not by the disk of this machine.
 */
function keepFilesInMemory(): void {
  if (process.env.TMPDIR !== undefined || !existsSync(sharedMemory)) return;
  const { bavail, bsize } = statfsSync(sharedMemory);
  if (bavail * bsize >= enoughBytes) process.env.TMPDIR = sharedMemory;
}
