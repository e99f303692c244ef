/** The program as a process of its own, called as its users call it. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { tableFromIPC } from 'apache-arrow';
import { ApiKeyFile } from '#src/auth/tokens/api-key-file.ts';
import { ApiKeyStore } from '#src/auth/tokens/api-keys.ts';
import { IssuerKeyFile } from '#src/auth/tokens/issuer-key-file.ts';
import { OwnIssuer } from '#src/auth/tokens/own-issuer.ts';
import { dataFolderAt } from '#src/config/data-folder.ts';
import { systemClock } from '#src/kernel/clock.ts';

const packageFolder = join(import.meta.dirname, '../..');
const scratch = mkdtempSync(join(tmpdir(), 'lancegate-cli-'));
after(() => rmSync(scratch, { recursive: true }));

interface Run {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Without the environment of the test run, which may have LANCEGATE_* variables of its own. */
function lancegate(args: readonly string[], env: Readonly<Record<string, string>> = {}, program = 'src/main.ts'): Run {
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...args], {
    cwd: packageFolder,
    env: { PATH: process.env.PATH, ...env },
    encoding: 'utf8',
  });
  return { code: status, stdout, stderr };
}

const lastLine = (text: string): string => text.trimEnd().split('\n').at(-1)!;

test('token prints, as its last line, a token that the service of this data folder accepts', async () => {
  const data = join(scratch, 'token');
  const args = ['--subject', 'ada', '--scope', 'lancegate:read  lancegate:write', '--group', 'a,b', '--expires', '1h'];
  const { code, stdout, stderr } = lancegate(['token', ...args, '--allow-unknown', '--data', data]);
  assert.equal(code, 0, stderr);
  const issuer = await OwnIssuer.open(new IssuerKeyFile(dataFolderAt(data).issuerKeyFile), systemClock);
  assert.deepEqual(await issuer.verify({ kind: 'bearer', secret: lastLine(stdout), digest: 'any' }), {
    subject: 'ada',
    scopes: ['lancegate:read', 'lancegate:write'],
    groups: ['a', 'b'],
    issuer: 'lancegate',
  });
});

test('the data folder is made for its owner alone (P9)', () => {
  const data = join(scratch, 'private');
  lancegate(['token', '--subject', 'ada', '--scope', 'x', '--allow-unknown', '--data', data]);
  assert.equal(statSync(data).mode & 0o777, 0o700);
});

test('a key file that others can read is refused in words, without a stack (P9)', () => {
  const data = join(scratch, 'open');
  const args = ['token', '--subject', 'ada', '--scope', 'x', '--allow-unknown', '--data', data];
  lancegate(args);
  chmodSync(dataFolderAt(data).issuerKeyFile, 0o644);
  const { code, stdout, stderr } = lancegate(args);
  assert.deepEqual([code, stdout], [1, '']);
  assert.match(stderr, /^lancegate: .* has mode 0644.*\n$/);
});

test('token refuses where the own issuer is turned off, and what no token could carry', () => {
  const args = ['token', '--subject', 'ada', '--scope', 'x', '--data', join(scratch, 'off')];
  assert.match(lancegate(args, { LANCEGATE_OWN_ISSUER: 'false' }).stderr, /does not accept tokens of the own issuer/);
  assert.match(lancegate([...args, '--expires', '0s']).stderr, /--expires: "0s" is not accepted/);
  assert.match(lancegate(['token']).stderr, /--subject is required.*\n.*--scope is required/);
});

test('api-key create prints a key once, list shows it without its secret, revoke ends it at once', async () => {
  const data = join(scratch, 'keys');
  using keyFile = new ApiKeyFile(dataFolderAt(data).apiKeysFile);
  const store = new ApiKeyStore(keyFile, systemClock);
  const created = lancegate([
    'api-key',
    'create',
    '--subject',
    'ada',
    '--scope',
    'x y',
    '--allow-unknown',
    '--data',
    data,
  ]);
  assert.equal(created.code, 0, created.stderr);
  const key = lastLine(created.stdout);
  const credential = { kind: 'api-key', secret: key } as const;
  assert.deepEqual((await store.verify(credential))?.scopes, ['x', 'y']);

  const [id, state, subject] = lancegate(['api-key', 'list', '--data', data]).stdout.split('\t');
  assert.deepEqual([state, subject], ['valid', 'ada']);
  assert.ok(key.includes(id!));
  assert.ok(!lancegate(['api-key', 'list', '--data', data]).stdout.includes(key.slice(-64)));

  assert.equal(lancegate(['api-key', 'revoke', id!, '--data', data]).code, 0);
  await assert.rejects(async () => store.verify(credential), /revoked/);
  assert.match(lancegate(['api-key', 'list', '--data', data]).stdout, /\trevoked \d{4}-/);
});

test('api-key says what it needs, and which key it does not know', () => {
  const data = ['--data', join(scratch, 'keys')];
  assert.match(lancegate(['api-key']).stderr, /create.*list.*revoke/s);
  assert.match(lancegate(['api-key', 'revoke', ...data]).stderr, /ID is missing/);
  assert.match(lancegate(['api-key', 'revoke', 'nobody', ...data]).stderr, /there is no API key "nobody"/);
  assert.match(lancegate(['api-key', 'list', 'all', ...data]).stderr, /unexpected argument "all"/);
});

test('config prints what is in effect with its source, secrets masked (P9)', () => {
  const env = { LANCEGATE_STORAGE_OPTIONS: '{"aws_secret_access_key":"tell-nobody"}', LANCEGATE_PORT: '99' };
  const { code, stdout } = lancegate(['config', '--data', '/srv/lance'], env);
  assert.equal(code, 0);
  assert.match(stdout, /^port +99 +LANCEGATE_PORT$/m);
  assert.match(stdout, /^storage-root +\/srv\/lance\/tables +default$/m);
  assert.doesNotMatch(stdout, /tell-nobody/);
});

test('config --check says whether the settings fit together, and which do not', () => {
  const right = lancegate(['config', '--check']);
  assert.deepEqual([right.code, right.stdout], [0, 'the settings fit together\n']);
  const wrong = lancegate(['config', '--check', '--port', 'x', '--max-body-size', '1']);
  assert.deepEqual([wrong.code, wrong.stdout, wrong.stderr.trimEnd().split('\n').length], [2, '', 2]);
});

test('config --markdown prints the documentation of the settings', () => {
  const committed = readFileSync(join(packageFolder, 'docs/configuration.md'), 'utf8');
  assert.equal(lancegate(['config', '--markdown']).stdout, committed);
});

test('serve refuses to start on mistakes, and reports all of them', () => {
  const { code, stdout, stderr } = lancegate(['serve', '--prot', '1'], { LANCEGATE_PORTS: '1', LANCEGATE_PORT: 'x' });
  assert.deepEqual([code, stdout], [2, '']);
  assert.equal(stderr.trimEnd().split('\n').length, 3);
});

test('arrow reads a file and writes a stream that a pipe can carry', () => {
  const path = 'node_modules/vega-datasets/data/us-state-capitals.json';
  const { stdout, status } = spawnSync(process.execPath, ['src/main.ts', 'arrow', path], { cwd: packageFolder });
  assert.equal(status, 0);
  assert.equal(tableFromIPC(stdout).numRows, 50);
});

test('help is printed on stdout, a mistyped command is answered with the one meant', () => {
  assert.match(lancegate(['help']).stdout, /^ {2}serve /m);
  assert.deepEqual(lancegate(['tokne']), {
    code: 2,
    stdout: '',
    stderr: "lancegate: unknown command 'tokne'; did you mean token?\n",
  });
});

test('version prints the version of the package, through bin too', () => {
  const { version } = JSON.parse(readFileSync(join(packageFolder, 'package.json'), 'utf8')) as { version: string };
  assert.equal(lancegate(['--version']).stdout, `lancegate ${version}\n`);
  assert.equal(lancegate(['version'], {}, 'bin/lancegate.js').stdout, `lancegate ${version}\n`);
});
