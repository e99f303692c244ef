/** What a newcomer does: start the service, paste what it prints into bash, and have a table. */
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, describe, test } from 'node:test';
import { guarded, sharedPostgres, withoutPostgres } from '#test/fixtures/postgres.ts';

const packageFolder = join(import.meta.dirname, '../..');
const scratch = mkdtempSync(join(tmpdir(), 'lancegate-first-'));
after(() => rmSync(scratch, { recursive: true }));

/** This run's Node first, as npm does it; nothing of the test run's own LANCEGATE_* variables. */
const env = { PATH: `${dirname(process.execPath)}:${process.env.PATH}` };

const start = (...args: readonly string[]): ChildProcess => startIn(env, ...args);

const startIn = (environment: NodeJS.ProcessEnv, ...args: readonly string[]): ChildProcess =>
  spawn(process.execPath, ['src/main.ts', 'serve', '--port', '0', ...args], {
    cwd: packageFolder,
    env: environment,
    stdio: ['ignore', 'pipe', 'pipe'],
  });

/** Everything up to the empty line that ends what `serve` prints when it is ready. */
async function printedWhenReady(service: ChildProcess): Promise<string> {
  let printed = '';
  for await (const chunk of service.stdout!) {
    printed += chunk;
    if (printed.endsWith('\n\n')) return printed;
  }
  throw new Error(`the service ended: ${await text(service.stderr!)}`);
}

/** Of the commands, when they are pasted into a shell with this environment. */
const answersTo = (printed: string, environment: NodeJS.ProcessEnv): readonly string[] =>
  execFileSync('bash', ['-euo', 'pipefail'], {
    input: printed.slice(printed.indexOf('\n')),
    cwd: packageFolder,
    env: environment,
    stdio: ['pipe', 'pipe', 'pipe'],
  })
    .toString()
    .split('\n');

test('the commands that serve prints work when pasted into bash, on another data folder, port and base path', async () => {
  const service = start('--data', join(scratch, "it's mine"), '--base-path', '/lance');
  try {
    const printed = await printedWhenReady(service);
    assert.match(printed, /^lancegate listening on http:\/\/127\.0\.0\.1:\d+\n/);
    const [created, merged] = answersTo(printed, env);
    assert.equal(JSON.parse(created!).version, 1);
    const { num_inserted_rows, num_updated_rows, num_deleted_rows } = JSON.parse(merged!);
    assert.deepEqual(
      { num_inserted_rows, num_updated_rows, num_deleted_rows },
      { num_inserted_rows: 1, num_updated_rows: 1, num_deleted_rows: 0 },
    );
  } finally {
    service.kill('SIGTERM');
  }
  assert.deepEqual(await once(service, 'exit'), [0, null]);
});

describe('with a catalog on PostgreSQL', { skip: withoutPostgres ?? false }, () => {
  test('the commands that serve prints name it where its URL has no password', async () => {
    const catalog = await (await sharedPostgres()).newDatabase();
    const service = start('--data', join(scratch, 'shared'), '--catalog', catalog);
    try {
      const printed = await printedWhenReady(service);
      assert.ok(printed.includes(` --catalog ${catalog})`), printed);
      assert.equal(JSON.parse(answersTo(printed, env)[0]!).version, 1);
    } finally {
      service.kill('SIGTERM');
    }
    assert.deepEqual(await once(service, 'exit'), [0, null]);
  });

  test('they show no password, and ask for the variable that has it (P9)', async () => {
    const url = Object.assign(new URL(await (await sharedPostgres()).newDatabase()), {
      username: guarded.user,
      password: encodeURIComponent(guarded.password),
    });
    const withPassword = { ...env, LANCEGATE_CATALOG: url.href };
    const service = startIn(withPassword, '--data', join(scratch, 'guarded'));
    try {
      const printed = await printedWhenReady(service);
      assert.ok(!printed.includes(url.password), printed);
      assert.throws(() => answersTo(printed, env), /LANCEGATE_CATALOG_FILE: set this variable/);
      assert.equal(JSON.parse(answersTo(printed, withPassword)[0]!).version, 1);
    } finally {
      service.kill('SIGTERM');
    }
    assert.deepEqual(await once(service, 'exit'), [0, null]);
  });
});

test('a second service on the same data folder does not start, and says who holds it', async () => {
  const data = join(scratch, 'held');
  const holder = start('--data', data);
  try {
    await printedWhenReady(holder);
    const second = start('--data', data);
    const stderr = await text(second.stderr!);
    assert.match(stderr, new RegExp(`^lancegate: .*${holder.pid}`, 'm'));
    assert.doesNotMatch(stderr, /^ +at /m);
    assert.equal(second.exitCode ?? (await once(second, 'exit'))[0], 1);
  } finally {
    holder.kill('SIGTERM');
  }
  assert.deepEqual(await once(holder, 'exit'), [0, null]);
});
