/** `config --url`: what a service that runs was started with, for its operators. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { answerJson, serverOf } from '#test/fixtures/answering-server.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { runInProcess } from './in-process.ts';

const later = afterSuite();
let service: TestService;

before(async () => {
  const secrets = { STORAGE_OPTIONS: '{"aws_secret_access_key":"tell-no-one"}' };
  service = await startTestService(later, { MAX_CONNECTIONS: '77', ...secrets });
});

const config = async (scope: string, env: Readonly<Record<string, string>>, ...flags: readonly string[]) => {
  const LANCEGATE_KEY = await service.mint(scope);
  const { code, stdout, stderr } = await runInProcess(['config', ...flags], { env: { LANCEGATE_KEY, ...env } });
  return { code, stdout: stdout.toString(), stderr };
};

test('it prints the settings of the service, not those of the command, with their sources', async () => {
  const env = { LANCEGATE_MAX_CONNECTIONS: '11' };
  const { code, stdout, stderr } = await config('lancegate:admin', env, '--url', service.url);
  assert.equal(code, 0, stderr);
  assert.match(stdout, /^max-connections +77 +LANCEGATE_MAX_CONNECTIONS$/m);
  assert.match(stdout, /^tls-key +\(not set\) +default$/m);
});

test('it shows no secret (P9)', async () => {
  const { stdout } = await config('lancegate:admin', {}, '--url', service.url);
  assert.match(stdout, /^storage-options +\{"aws_secret_access_key":"\*+"\}/m);
  assert.doesNotMatch(stdout, /tell-no-one/);
});

test('who may only write is refused, and reads nothing of it (P9)', async () => {
  const { code, stdout, stderr } = await config('lancegate:write', {}, '--url', service.url);
  assert.deepEqual([code, stdout], [1, '']);
  assert.match(stderr, /^lancegate: DescribeConfiguration .*lancegate:admin.*\n$/);
});

test('LANCEGATE_URL alone asks no service: config prints what this command would start with', async () => {
  const env = { LANCEGATE_URL: service.url, LANCEGATE_MAX_CONNECTIONS: '11' };
  assert.match((await config('lancegate:admin', env)).stdout, /^max-connections +11 /m);
});

test('another program in its place moves no cursor, and is named where it is none (P9)', async (t) => {
  const hostile = [{ flag: 'a\u001b[2J', value: 'b\u0007', source: 'c\u202e' }];
  const { url } = await serverOf(t, (_, answer) => answerJson(answer, { settings: hostile }));
  const { code, stdout } = await config('lancegate:admin', {}, '--url', url);
  assert.equal(code, 0);
  assert.doesNotMatch(stdout, /[^\P{Cc}\n]|\u202e/u);
  const { url: other } = await serverOf(t, (_, answer) => answerJson(answer, {}));
  assert.match((await config('lancegate:admin', {}, '--url', other)).stderr, /is no lancegate service\n$/);
});
