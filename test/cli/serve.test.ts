import assert from 'node:assert/strict';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { StartService } from '#src/cli/serve.ts';
import type { Config } from '#src/config/settings.ts';
import { Collector, type Outcome, runInProcess } from './in-process.ts';

/** A service that records how it was started and closed, and closes when the test asks. */
class RecordingService {
  config: Config | undefined;
  readonly drains: number[] = [];
  reloads = 0;
  readonly closed = Promise.withResolvers<void>();

  readonly start: StartService = async (config) => {
    this.config = config;
    const close = (drainMs: number): Promise<void> => {
      this.drains.push(drainMs);
      return this.closed.promise;
    };
    const reload = async (): Promise<void> => {
      this.reloads += 1;
    };
    return { url: 'http://127.0.0.1:4321', reload, close };
  };
}

interface Serving {
  readonly service: RecordingService;
  readonly stdout: Collector;
  readonly outcome: Promise<Outcome>;
  signal(afterMs: number): void;
}

function serve(...args: readonly string[]): Serving {
  const service = new RecordingService();
  const stdout = new Collector();
  let nowMs = 0;
  let listener = (): void => {};
  const outcome = runInProcess(['serve', ...args], {
    stdout,
    clock: { nowMs: () => nowMs, schedule: () => () => {} },
    startService: service.start,
    onStopSignal: (stop) => {
      listener = stop;
    },
  });
  const signal = (afterMs: number): void => {
    nowMs += afterMs;
    listener();
  };
  return { service, stdout, outcome, signal };
}

test('one line says where the service listens; the first stop signal drains it, and the exit code is 0', async () => {
  const { service, outcome, signal } = serve('--drain-timeout', '7s');
  signal(0);
  service.closed.resolve();
  const { code, stdout } = await outcome;
  assert.equal(code, 0);
  assert.equal(stdout.toString().split('\n')[0], 'lancegate listening on http://127.0.0.1:4321');
  assert.deepEqual(service.drains, [7_000]);
});

test('a second signal ends a drain at once, with an exit code that says so', async () => {
  const { outcome, signal } = serve();
  signal(0);
  signal(1_000);
  const { code, stderr } = await outcome;
  assert.equal(code, 1);
  assert.match(stderr, /ended at once, by a second signal/);
});

test('a Ctrl-C that arrives twice, from the terminal and through npm, is one wish', async () => {
  const { service, outcome, signal } = serve();
  signal(0);
  signal(50);
  service.closed.resolve();
  assert.equal((await outcome).code, 0);
});

test('a service that cannot start says why, without a stack, and the exit code is 1', async () => {
  const startService: StartService = () => Promise.reject(new Error('the data folder is held by process 7'));
  const { code, stdout, stderr } = await runInProcess(['serve'], { startService });
  assert.equal(code, 1);
  assert.equal(stdout.length, 0);
  assert.equal(stderr, 'lancegate: the data folder is held by process 7\n');
});

test('settings given by flag and environment reach the service', async () => {
  const service = new RecordingService();
  service.closed.resolve();
  await runInProcess(['serve', '--port', '0'], {
    env: { LANCEGATE_MAX_QUEUED_MERGES: '9' },
    startService: service.start,
    onStopSignal: (stop) => stop(),
  });
  assert.equal(service.config?.port, 0);
  assert.equal(service.config?.maxQueuedMerges, 9);
});

async function printed(...args: readonly string[]): Promise<string> {
  const { service, outcome, signal } = serve(...args);
  signal(0);
  service.closed.resolve();
  return (await outcome).stdout.toString();
}

test('the commands to paste honour the base path and the data folder, quoted for the shell', async () => {
  const folder = join(mkdtempSync(join(tmpdir(), 'lancegate-')), "it's here");
  const commands = await printed('--data', folder, '--base-path', '/lance');
  assert.ok(commands.includes(`--data '${folder.replace("'", `'\\''`)}')`), commands);
  assert.match(commands, /curl .*http:\/\/127\.0\.0\.1:4321\/lance\/v1\/table\/capitals\/create /);
  assert.match(commands, /'http:\/\/127\.0\.0\.1:4321\/lance\/v1\/table\/capitals\/merge_insert\?on=state'/);
  assert.match(commands, /lancegate arrow node_modules\/vega-datasets\/data\/us-state-capitals\.json \| curl/);
});

test('the commands to paste name no data folder where it is the default, and no own token where there is none', async () => {
  assert.match(await printed(), /^TOKEN=\$\(lancegate token --subject me --scope 'lancegate:write'\)$/m);
  const commands = await printed('--no-own-issuer');
  assert.doesNotMatch(commands, /lancegate token/);
  assert.match(commands, /^TOKEN=… # from your authorization server$/m);
});
