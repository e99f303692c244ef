/** How memory is handed out can only be said to a process that begins, so the service begins twice. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type TestContext, test } from 'node:test';
import { textOf } from '#test/fixtures/service-process.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

const program = join(import.meta.dirname, '../../bin/lancegate.js');
const skip = process.platform === 'linux' ? false : 'Linux only';

interface Started {
  readonly child: ChildProcess;
  readonly errors: Promise<string>;
  /** What the running process has, whatever it was started with. */
  readonly flags: readonly string[];
  readonly variables: ReadonlyMap<string, string>;
}

async function start(t: TestContext, env: Readonly<Record<string, string>> = {}): Promise<Started> {
  const dataFolder = temporaryFolder((clean) => t.after(clean));
  const args = [program, 'serve', '--port', '0', '--log-level', 'error', '--data', dataFolder];
  const child = spawn(process.execPath, args, {
    env: { PATH: process.env.PATH, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  t.after(() => child.kill('SIGKILL'));
  const errors = textOf(child.stderr);
  const [line] = (await once(createInterface(child.stdout), 'line')) as [string];
  assert.match(line, /lancegate listening on /);
  const pairs = readFileSync(`/proc/${child.pid}/environ`, 'utf8').split('\0').filter(Boolean);
  const variables = new Map(pairs.map((pair) => [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)]));
  const words = readFileSync(`/proc/${child.pid}/cmdline`, 'utf8').split('\0');
  return { child, errors, flags: words.slice(1, words.indexOf(program)), variables };
}

async function stop({ child, errors }: Started): Promise<void> {
  child.kill('SIGTERM');
  const [code] = (await once(child, 'exit')) as [number | null];
  assert.equal(code, 0);
  assert.equal(await errors, '', 'neither a warning nor an error');
}

test('serve runs with few arenas and few helpers under the pid it was started with, and ends when asked to', {
  skip,
}, async (t) => {
  const started = await start(t, { NODE_OPTIONS: '--no-deprecation', LANCEGATE_BASE_PATH: '/x' });
  assert.equal(started.variables.get('MALLOC_ARENA_MAX'), '2');
  const helpers = Math.min(4, Math.max(1, availableParallelism() - 1));
  assert.deepEqual(started.flags, [
    '--expose-gc',
    '--max-semi-space-size=8',
    `--v8-pool-size=${helpers}`,
    '--wasm-tiering-budget=500000000',
  ]);
  assert.equal(started.variables.get('NODE_OPTIONS'), '--no-deprecation');
  assert.equal(started.variables.get('LANCEGATE_BASE_PATH'), '/x');
  await stop(started);
});

test('an operator who chooses how memory is handed out is not overruled', { skip }, async (t) => {
  const started = await start(t, { MALLOC_ARENA_MAX: '7' });
  assert.equal(started.variables.get('MALLOC_ARENA_MAX'), '7');
  await stop(started);
});
