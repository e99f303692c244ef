/** What a newcomer does: start the service, paste what it prints, and have a table. */
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, describe, test } from 'node:test';
import { guarded, sharedPostgres, withoutPostgres } from '#test/fixtures/postgres.ts';
import { listeningUrl } from '#test/fixtures/service-process.ts';
import { onTerminal } from '#test/fixtures/terminal.ts';

const packageFolder = join(import.meta.dirname, '../..');
const scratch = mkdtempSync(join(tmpdir(), 'lancegate-first-'));
after(() => rmSync(scratch, { recursive: true }));

/** This run's Node first, as npm does it; nothing of the test run's own LANCEGATE_* variables. */
const env = { PATH: `${dirname(process.execPath)}:${process.env.PATH}` };

const start = (...args: readonly string[]): ChildProcess =>
  spawn(process.execPath, ['src/main.ts', 'serve', '--port', '0', ...args], {
    cwd: packageFolder,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });

const dev = (environment: NodeJS.ProcessEnv, ...args: readonly string[]) =>
  onTerminal([process.execPath, 'src/main.ts', 'dev', '--port', '0', ...args], {
    cwd: packageFolder,
    env: environment,
  });

/** The last thing that `dev` prints when it is ready. */
const lastStep = /\.toArray\(\)\);\n/;

/** Of the commands for curl, when they are pasted into a shell. */
function answersTo(printed: string): readonly string[] {
  const [, key] = /^(export KEY=.*)$/m.exec(printed)!;
  const [, commands] = /^(# curl.*?)^# Python/ms.exec(printed)!;
  return execFileSync('bash', ['-euo', 'pipefail'], {
    input: `lancegate() { '${process.execPath}' src/main.ts "$@"; }\n${key}\n${commands!.replaceAll('node src/main.ts', 'lancegate')}`,
    cwd: packageFolder,
    env,
    stdio: ['pipe', 'pipe', 'pipe'],
  })
    .toString()
    .split('\n');
}

test('what dev prints works when pasted, on another data folder, port and base path', async () => {
  const service = dev(env, '--data', join(scratch, "it's mine"), '--base-path', '/lance');
  const printed = await service.saysMatchOf(lastStep);
  const [created, merged, nearest] = answersTo(printed).filter((line) => line !== '');
  assert.equal(JSON.parse(created!).version, 1);
  const { num_inserted_rows, num_updated_rows } = JSON.parse(merged!);
  assert.deepEqual([num_inserted_rows, num_updated_rows], [1, 0]);
  assert.equal(JSON.parse(nearest!).state, 'Maryland');

  const program = printed.slice(printed.indexOf('import { connect }'));
  const [, url] = /hostOverride: '(.*?)'/.exec(program)!;
  const answer = execFileSync(process.execPath, ['--input-type=module', '--eval', program], {
    cwd: packageFolder,
    env,
  });
  assert.match(answer.toString(), /Maryland/, url);
  assert.equal(await service.interrupt(), 0);
});

test('dev --sample has the table, also at the second start', async () => {
  for (const _ of ['first', 'second']) {
    const service = dev(env, '--data', join(scratch, 'sample'), '--sample');
    const printed = await service.saysMatchOf(lastStep);
    const [, url] = /host_override="(.*?)"/.exec(printed)!;
    const [key] = /lgk_\w+/.exec(printed)!;
    const headers = { 'x-api-key': key, 'content-type': 'application/json' };
    const count = await fetch(`${url}/v1/table/capitals/count_rows`, { method: 'POST', headers, body: '{}' });
    assert.equal(await count.json(), 50);
    assert.equal(await service.interrupt(), 0);
  }
});

describe('with a catalog on PostgreSQL', { skip: withoutPostgres ?? false }, () => {
  test('dev makes its key there, and shows no password (P9)', async () => {
    const url = Object.assign(new URL(await (await sharedPostgres()).newDatabase()), {
      username: guarded.user,
      password: encodeURIComponent(guarded.password),
    });
    const service = dev({ ...env, LANCEGATE_CATALOG: url.href }, '--data', join(scratch, 'guarded'));
    const printed = await service.saysMatchOf(lastStep);
    assert.ok(!printed.includes(url.password), printed);
    assert.equal(JSON.parse(answersTo(printed)[0]!).version, 1);
    assert.equal(await service.interrupt(), 0);
  });
});

test('a second service on the same data folder does not start, and says who holds it', async () => {
  const data = join(scratch, 'held');
  const holder = start('--data', data);
  try {
    await listeningUrl(holder);
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
