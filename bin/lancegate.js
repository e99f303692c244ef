#!/usr/bin/env node
// Plain JavaScript of any age: an older Node cannot even read src/main.ts, and would say so in a puzzling way.
import { availableParallelism } from 'node:os';

const [major, minor] = process.versions.node.split('.').map(Number);
if (major < 24 || (major === 24 && minor < 12)) {
  console.error(`lancegate needs Node 24.12 or newer, and this is ${process.version}.`);
  console.error('In its own folder, "npm run lancegate -- …" runs it with the Node that it brings along.');
  process.exit(1);
}

/**
 * The collector on demand is the last resort of the limit on resident memory. Besides, the service has few arenas for the
 * allocator of glibc, which otherwise keeps freed memory for each of dozens of threads; a small space for the youngest objects
 * of JavaScript; and as many helpers for V8 as there are cores beside the event loop's, since four that mark the heap at once
 * keep the engine from both cores (docs/adr/0010, docs/adr/0016).
 */
const helpers = Math.min(4, Math.max(1, availableParallelism() - 1));
const flags = ['--expose-gc', '--max-semi-space-size=8', `--v8-pool-size=${helpers}`];

/**
 * A process gets these only when it begins, so this one is replaced, with the same pid, files and arguments. What the operator chose
 * stays. Not for a parent that talks over a channel, which would be lost.
 */
const [, program, ...args] = process.argv;
const isReplaced = process.execArgv.includes(flags[0]);
if (args[0] === 'serve' && process.platform === 'linux' && !isReplaced && !process.send) {
  const all = [process.argv0, ...flags, ...process.execArgv, program, ...args];
  process.execve?.(process.execPath, all, { MALLOC_ARENA_MAX: '2', ...process.env });
}
await import('../src/main.ts');
