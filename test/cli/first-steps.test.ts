/** What a newcomer does: start the service, paste what it prints into bash, and have a table. */
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, test } from 'node:test';

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

/** Everything up to the empty line that ends what `serve` prints when it is ready. */
async function printedWhenReady(service: ChildProcess): Promise<string> {
  let printed = '';
  for await (const chunk of service.stdout!) {
    printed += chunk;
    if (printed.endsWith('\n\n')) return printed;
  }
  throw new Error(`the service ended: ${await text(service.stderr!)}`);
}

test('the commands that serve prints work when pasted into bash, on another data folder, port and base path', async () => {
  const service = start('--data', join(scratch, "it's mine"), '--base-path', '/lance');
  try {
    const printed = await printedWhenReady(service);
    assert.match(printed, /^lancegate listening on http:\/\/127\.0\.0\.1:\d+\n/);
    const commands = printed.slice(printed.indexOf('\n'));
    const answers = execFileSync('bash', ['-euo', 'pipefail'], { input: commands, cwd: packageFolder, env });
    const [created, merged] = answers.toString().split('\n');
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
