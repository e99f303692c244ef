import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runInProcess } from './in-process.ts';

const print = async (...args: readonly string[]): Promise<string> => {
  const { code, stdout, stderr } = await runInProcess(args);
  assert.equal(code, 0, stderr);
  return stdout.toString();
};

test('help names every command, and is what no arguments at all print', async () => {
  const help = await print('help');
  for (const command of ['dev', 'serve', 'token', 'api-key', 'issuer-key', 'config', 'arrow']) {
    assert.match(help, new RegExp(`^  lancegate ${command} `, 'm'));
    assert.equal(await print(command, '--help'), await print('help', command));
  }
  assert.equal(await print(), help);
});

test('a command names its flags with what they take and their defaults', async () => {
  assert.match(await print('serve', '--help'), /--max-merge-size SIZE .*\[256MiB\]/);
  assert.match(await print('serve', '--help'), /--\[no-\]own-issuer .*\[true\]/);
  assert.match(await print('token', '--help'), /--expires DURATION .*\[12h\]/);
  assert.match(await print('api-key', 'create', '--help'), /--subject TEXT/);
});

test('a command that is not known is refused with the ones that are', async () => {
  const { code, stderr } = await runInProcess(['destroy']);
  assert.equal(code, 2);
  assert.match(
    stderr,
    /unknown command "destroy"; the commands are dev, serve, token, api-key, issuer-key, config, arrow, maintain, help/,
  );
});
