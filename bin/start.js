const { availableParallelism } = require('node:os');

/**
 * The collector on demand is the last resort of the limit on resident memory. Besides, the service has few arenas for the
 * allocator of glibc, which otherwise keeps freed memory for each of dozens of threads; a small space for the youngest objects
 * of JavaScript; and as many helpers for V8 as there are cores beside the event loop's, since four that mark the heap at once
 * keep the engine from both cores. What reads the policies is WebAssembly, of which V8 would compile a part a second time at each
 * start, for a quarter of a second; with this budget it does so for what is called as often as a service calls it.
 */
const helpers = Math.min(4, Math.max(1, availableParallelism() - 1));
const flags = [
  '--expose-gc',
  '--max-semi-space-size=8',
  `--v8-pool-size=${helpers}`,
  '--wasm-tiering-budget=500000000',
];

/**
 * A process gets these only when it begins, so this one is replaced, with the same pid, files and arguments. What the operator chose
 * stays. Not for a parent that talks over a channel, which would be lost.
 */
function replaceProcess() {
  const [, program, ...args] = process.argv;
  const isReplaced = process.execArgv.includes(flags[0]);
  const serves = ['serve', 'dev'].includes(args[0]);
  if (!serves || process.platform !== 'linux' || isReplaced || process.send) return;
  const all = [process.argv0, ...flags, ...process.execArgv, program, ...args];
  process.execve?.(process.execPath, all, { MALLOC_ARENA_MAX: '2', ...process.env });
}

/** Node 22 calls its SQLite experimental on each start, and patterns of files. The log has lines of the log alone. */
function keepExperimentsSilent() {
  const { emitWarning } = process;
  process.emitWarning = (warning, ...rest) => {
    if (rest[0] === 'ExperimentalWarning' && /^(SQLite|globSync) /.test(warning)) return;
    emitWarning.call(process, warning, ...rest);
  };
}

/** Starts the program that this module names. */
module.exports = (main) => {
  replaceProcess();
  keepExperimentsSilent();
  return import(main);
};
