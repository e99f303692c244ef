import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { StartService } from '#src/cli/serve.ts';
import type { Config } from '#src/config/settings.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { Collector, type Outcome, runInProcess } from './in-process.ts';

const packageJson = readFileSync(join(import.meta.dirname, '../../package.json'), 'utf8');
const { version: packageVersion } = JSON.parse(packageJson) as { readonly version: string };

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
    return { url: `http://${config.host}:4321`, reload, close };
  };
}

interface Serving {
  readonly service: RecordingService;
  readonly stdout: Collector;
  readonly outcome: Promise<Outcome>;
  signal(afterMs: number): void;
}

const serve = (...args: readonly string[]): Serving => run('serve', ...args);

function run(...args: readonly string[]): Serving {
  const service = new RecordingService();
  const stdout = new Collector();
  let nowMs = 0;
  let listener = (): void => {};
  const outcome = runInProcess(args, {
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

test('stdout has one line, of the log, at any level: what runs, where it listens, what it works on, and a page that opens', async () => {
  for (const [command, host] of [
    ['serve', '127.0.0.1'],
    ['dev', '127.0.0.1'],
    ['serve', '0.0.0.0'],
  ] as const) {
    const flags = ['--log-level', 'error', '--base-path', '/x', '--data', '/d', '--host', host];
    const { service, outcome, signal } = run(command, ...flags);
    signal(0);
    service.closed.resolve();
    const [line, ...others] = (await outcome).stdout.toString().split('\n');
    const { time, ...said } = JSON.parse(line!);
    assert.deepEqual(said, {
      level: 'info',
      version: packageVersion,
      dataFolder: '/d',
      storageRoot: '/d/tables',
      pages: ['http://127.0.0.1:4321/x/docs'],
      message: `lancegate listening on http://${host}:4321`,
    });
    assert.ok(time);
    assert.deepEqual(others, ['']);
  }
});

test('the first stop signal drains it, and the exit code is 0', async () => {
  const { service, outcome, signal } = serve('--drain-timeout', '7s');
  signal(0);
  service.closed.resolve();
  assert.equal((await outcome).code, 0);
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

test('dev ends with its terminal, and serve reads its files again', async (t) => {
  const data = temporaryFolder((clean) => t.after(clean));
  for (const [command, ends] of [
    ['dev', true],
    ['serve', false],
  ] as const) {
    const service = new RecordingService();
    service.closed.resolve();
    const stopped = Promise.withResolvers<void>();
    const outcome = runInProcess([command, '--data', data], {
      stdout: Object.assign(new Collector(), { isTTY: true }),
      startService: service.start,
      onStopSignal: (stop) => void stopped.promise.then(stop),
      onReloadSignal: (hangUp) => hangUp(),
    });
    if (!ends) stopped.resolve();
    assert.equal((await outcome).code, 0);
    assert.equal(service.reloads, ends ? 0 : 1);
  }
});

test('a service that cannot start says why, without a stack, and the exit code is 1', async () => {
  const startService: StartService = () => Promise.reject(new Error('the data folder is held by process 7'));
  const { code, stdout, stderr } = await runInProcess(['serve'], { startService });
  assert.equal(code, 1);
  assert.equal(stdout.length, 0);
  assert.equal(stderr, 'lancegate: the data folder is held by process 7\n');
});

test('a port that is taken, and a folder that cannot be made, are named with what to do', async () => {
  const refusal = async (fault: object): Promise<string> => {
    const startService: StartService = () => Promise.reject(Object.assign(new Error('as the system says it'), fault));
    return (await runInProcess(['serve', '--port', '80', '--data', '/d'], { startService })).stderr;
  };
  assert.equal(
    await refusal({ syscall: 'listen', code: 'EADDRINUSE' }),
    'lancegate: port 80 of 127.0.0.1 is taken by another program: stop that program, or name another port by --port\n',
  );
  assert.match(
    await refusal({ syscall: 'mkdir', code: 'EACCES', path: '/d' }),
    /^lancegate: the folder \/d .* --data\n$/,
  );
  assert.match(
    await refusal({ syscall: 'mkdir', code: 'EROFS', path: '/t' }),
    /^lancegate: the folder \/t .* --storage-root\n$/,
  );
});

test('settings given by flag and environment reach the service', async () => {
  const service = new RecordingService();
  service.closed.resolve();
  await runInProcess(['serve', '--port', '0'], {
    env: { LANCEGATE_MAX_CONNECTIONS: '9' },
    startService: service.start,
    onStopSignal: (stop) => stop(),
  });
  assert.equal(service.config?.port, 0);
  assert.equal(service.config?.maxConnections, 9);
});
