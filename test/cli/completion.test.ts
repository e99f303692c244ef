/** What Tab offers, by the program and through the shells themselves. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { runInProcess } from './in-process.ts';

async function offered(...words: readonly string[]): Promise<readonly string[]> {
  const { code, stdout, stderr } = await runInProcess(['completion', 'words', '--', ...words]);
  assert.deepEqual([code, stderr], [0, '']);
  return stdout.toString().split('\n').slice(0, -1);
}

test('commands are offered by how they begin, and those of two words after their first', async () => {
  assert.deepEqual(await offered('ke'), ['key']);
  assert.deepEqual(await offered('key', ''), ['create', 'list', 'revoke', '--help']);
  assert.deepEqual(await offered('api-key', 're'), ['revoke']);
  assert.deepEqual(await offered('help', 'issuer'), ['issuer-key']);
  assert.ok((await offered('')).includes('serve'));
  assert.ok(!(await offered('')).includes('version'), 'what help hides is not offered');
});

test('flags are offered, negations only once they are begun, and settings where a command takes them all', async () => {
  assert.deepEqual(await offered('serve', '--log-f'), ['--log-format']);
  assert.deepEqual(await offered('serve', '--own'), ['--own-issuer']);
  assert.deepEqual(await offered('serve', '--no-own'), ['--no-own-issuer']);
  for (const command of ['dev', 'config', 'doctor']) assert.deepEqual(await offered(command, '--por'), ['--port']);
  assert.deepEqual(await offered('key', 'create', '--subj'), ['--subject']);
  assert.deepEqual(await offered('completion', ''), ['bash', 'zsh', 'fish', '--help']);
});

test('the words that a flag takes are offered, also after an equals sign; files are left to the shell', async () => {
  assert.deepEqual(await offered('serve', '--log-format', ''), ['auto', 'json', 'text']);
  assert.deepEqual(await offered('serve', '--log-format', '=', 'j'), ['json']);
  assert.deepEqual(await offered('serve', '--log-format', '='), ['auto', 'json', 'text']);
  assert.deepEqual(await offered('serve', '--audit-log', ''), ['log', 'off']);
  assert.deepEqual(await offered('serve', '--policy-file', ''), []);
});

test('words that are no command offer nothing, and help among them prints no help', async () => {
  assert.deepEqual(await offered('xyzzy', ''), []);
  assert.deepEqual(await offered('serve', '--help', '--log-f'), ['--log-format']);
});

test('a shell that is not known is refused with those that are', async () => {
  const { code, stderr } = await runInProcess(['completion', 'bsh']);
  assert.equal(code, 2);
  assert.equal(stderr, 'lancegate: completion takes the name of a shell: bash, zsh, fish; did you mean bash?\n');
  assert.equal((await runInProcess(['completion'])).code, 2);
  assert.match((await runInProcess(['completion', 'zsh', 'x'])).stderr, /unexpected argument "x"/);
});

describe('through a shell', () => {
  const folder = temporaryFolder(after);
  const main = join(import.meta.dirname, '../../bin/lancegate.js');
  writeFileSync(join(folder, 'lancegate'), `#!/bin/sh\nexec '${process.execPath}' '${main}' "$@"\n`, { mode: 0o755 });
  const env = { PATH: `${folder}:${process.env.PATH}`, HOME: folder, TERM: 'dumb' };

  /** In the order of `words`: the one that is typed is the last. */
  const asks: Readonly<Record<string, (words: readonly string[]) => string>> = {
    bash: (words) =>
      `source <(lancegate completion bash); COMP_WORDS=(${['lancegate', ...words].map((word) => `'${word}'`).join(' ')})
       COMP_CWORD=${words.length}; _lancegate; printf '%s\\n' "\${COMPREPLY[@]}"`,
    zsh: (words) =>
      `compdef() { }; compadd() { shift; print -l -- "$@" }; _files() { print files }
       source <(lancegate completion zsh); words=(${['lancegate', ...words].map((word) => `'${word}'`).join(' ')})
       CURRENT=${words.length + 1}; _lancegate`,
    fish: (words) => `lancegate completion fish | source; complete -C '${['lancegate', ...words].join(' ')}'`,
  };

  for (const [shell, script] of Object.entries(asks)) {
    const isMissing = spawnSync(shell, ['-c', 'true'], { env }).status !== 0;
    test(`${shell} offers what the program says`, { skip: isMissing && `there is no ${shell}` }, () => {
      const ask = (...words: readonly string[]): readonly string[] => {
        const { stdout, stderr } = spawnSync(shell, ['-c', script(words)], { env, encoding: 'utf8' });
        assert.equal(stderr, '');
        return stdout.trimEnd().split('\n').toSorted();
      };
      assert.deepEqual(ask('ke'), ['key']);
      assert.deepEqual(ask('key', 're'), ['revoke']);
      assert.deepEqual(ask('serve', '--log-format', ''), ['auto', 'json', 'text']);
      assert.deepEqual(ask('serve', '--log-f'), ['--log-format']);
    });
  }
});
