import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Collector, runInProcess } from './in-process.ts';

const print = async (...args: readonly string[]): Promise<string> => {
  const { code, stdout, stderr } = await runInProcess(args);
  assert.equal(code, 0, stderr);
  return stdout.toString();
};

test('help names every command, and is what no arguments at all print', async () => {
  const help = await print('help');
  for (const command of ['dev', 'serve', 'token', 'key', 'issuer-key', 'config', 'arrow']) {
    assert.match(help, new RegExp(`^  ${command}[ |]`, 'm'));
    assert.equal(await print(command, '--help'), await print('help', command));
  }
  assert.equal(await print(), help);
});

test('a command names its flags with what they take and their defaults', async () => {
  assert.match(await print('serve', '--help'), /--max-merge-size SIZE [^[]*\[256MiB\]/);
  assert.match(await print('serve', '--help'), /--\[no-\]own-issuer [^[]*\[true\]/);
  assert.match(await print('token', '--help'), /--expires DURATION [^[]*\[12h\]/);
  assert.match(await print('key', 'create', '--help'), /--subject TEXT/);
  assert.equal(await print('api-key', 'create', '--help'), await print('key', 'create', '--help'));
  assert.equal(await print('help', 'key', 'create'), await print('key', 'create', '--help'));
});

test('help is no wider than its terminal, or than 100 columns', async () => {
  for (const help of [await print(), await print('serve', '--help')]) {
    const widest = Math.max(...help.split('\n').map((line) => line.length));
    assert.ok(widest <= 100, String(widest));
  }
});

test('a command that is not known is refused with the one that was meant, or the way to those that are', async () => {
  const outcomes = await Promise.all([['xyzzy'], ['kei'], ['key', 'revok'], ['key']].map((args) => runInProcess(args)));
  assert.deepEqual(
    outcomes.map(({ code }) => code),
    [2, 2, 2, 2],
  );
  const [unknown, mistyped, mistypedVerb, noVerb] = outcomes.map(({ stderr }) => stderr);
  assert.equal(unknown, "lancegate: unknown command 'xyzzy'; `lancegate --help` lists the commands\n");
  assert.equal(mistyped, "lancegate: unknown command 'kei'; did you mean key?\n");
  assert.equal(mistypedVerb, "lancegate: unknown command 'revok'; did you mean revoke?\n");
  assert.match(noVerb!, /^ {2}create .*^ {2}list .*^ {2}revoke /ms);
});

test('output that is read in part is no error', async () => {
  const { code, stderr } = await runInProcess(['serve', '--help'], { stdout: new ClosedPipe() });
  assert.deepEqual([code, stderr], [0, '']);
});

class ClosedPipe extends Collector {
  override write(_data: string | Uint8Array, done?: (error?: Error) => void): void {
    done?.(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }));
  }
}
