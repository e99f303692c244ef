/** What an operator asks first, answered without changing anything. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { dataFolderAt } from '#src/config/data-folder.ts';
import { systemClock } from '#src/kernel/clock.ts';
import { loadElsewhere } from '#src/service-probes.ts';
import { answerJson, serverOf } from '#test/fixtures/answering-server.ts';
import { AuthorizationServer } from '#test/fixtures/authorization-server.ts';
import { newCa, withoutOpenssl } from '#test/fixtures/certificates.ts';
import { freePort } from '#test/fixtures/free-port.ts';
import { guarded, sharedPostgres, withoutPostgres } from '#test/fixtures/postgres.ts';
import { startTestService } from '#test/fixtures/service.ts';
import { mintToken, startServiceProcess } from '#test/fixtures/service-process.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { type Outcome, runInProcess, type Surroundings } from './in-process.ts';

const folder = temporaryFolder(after);

const doctor = (args: readonly string[], given: Surroundings = {}): Promise<Outcome> =>
  runInProcess(['doctor', '--port', '0', ...args], { clock: systemClock, ...given });

/** State and words of one check. */
async function finding(check: string, args: readonly string[], given?: Surroundings) {
  const { stdout } = await doctor(['--json', ...args], given);
  const all = JSON.parse(stdout.toString()) as readonly { check: string; state: string; said: string; next?: string }[];
  return all.find((found) => found.check === check)!;
}

test('where all is well, each check is a line that says so, and nothing was made', async () => {
  const data = join(folder, 'none');
  const { code, stdout, stderr } = await doctor(['--data', data]);
  assert.deepEqual([code, stderr], [0, '']);
  const lines = stdout.toString().trimEnd().split('\n');
  assert.deepEqual(
    lines.map((line) => /^(\w+) +(\w+(?: \w+)?) {2}/.exec(line)?.slice(1).join(' ')),
    ['versions', 'service', 'port', 'disk', 'open files', 'store', 'database', 'issuers', 'clock'].map(
      (check) => `ok ${check}`,
    ),
  );
  assert.ok(!existsSync(data));
});

test('a port that another program has is named with what to do, and the exit code is 1', async (t) => {
  const { url } = await serverOf(t, () => undefined);
  const { port } = new URL(url);
  const env = { LANCEGATE_PORT: port };
  const args = ['doctor', '--data', join(folder, 'none')];
  const { code, stdout, stderr } = await runInProcess(args, { clock: systemClock, env });
  assert.equal(code, 1);
  assert.match(
    stdout.toString(),
    new RegExp(`^failed +port +${port} of 127.0.0.1 is taken by another program\n +stop .* --port$`, 'm'),
  );
  assert.equal(stderr, 'lancegate: 1 of 9 checks failed; each says what to do\n');
});

test('the service of the data folder is asked, while it runs and after it was killed', async (t) => {
  const data = temporaryFolder((clean) => t.after(clean));
  const service = await startServiceProcess(data, await mintToken(data));
  t.after(() => service.kill());
  const args = ['--data', data];
  const { state, said } = await finding('service', args);
  assert.deepEqual([state, said.includes(service.url), said.endsWith('ready')], ['ok', true, true]);
  await service.kill();
  assert.deepEqual([(await finding('service', args)).state, (await doctor(args)).code], ['failed', 1]);
});

test('a service with a certificate that names another address is asked all the same', {
  skip: withoutOpenssl ?? false,
}, async (t) => {
  const clean = (each: () => void | Promise<void>) => t.after(each);
  const { certificatePath, keyPath } = newCa(clean).certify('other');
  const service = await startTestService(clean, { TLS_CERTIFICATE: certificatePath, TLS_KEY: keyPath });
  const { state, said } = await finding('service', ['--data', service.dataFolder]);
  assert.deepEqual([state, said.includes('https://')], ['warning', true], said);
  assert.match(said, /^lancegate test is at/, 'another version');
});

test('an answer without an end, or of another program, fails the check of the service', async (t) => {
  const data = join(folder, 'endless');
  mkdirSync(data);
  for (const body of [' '.repeat(100_000), '<html>', 'null']) {
    const { url } = await serverOf(t, (_, answer) => answer.end(body));
    writeFileSync(dataFolderAt(data).holderFile, JSON.stringify({ url }));
    const { state, said } = await finding('service', ['--data', data]);
    assert.deepEqual([state, said.endsWith('is no lancegate service')], ['failed', true], said);
  }
});

test('what answers in the place of the service sends a terminal nothing that it obeys (P9)', async (t) => {
  const { url } = await serverOf(t, ({ url: path }, answer) =>
    answerJson(
      answer,
      path === '/readyz' ? { error: 'no\u001b[2J\u0007' } : { version: '1\u001b[31m' },
      path === '/readyz' ? 503 : 200,
    ),
  );
  const data = join(folder, 'answered');
  mkdirSync(data);
  writeFileSync(dataFolderAt(data).holderFile, JSON.stringify({ url }));
  const { code, stdout } = await doctor(['--data', data]);
  assert.equal(code, 1);
  assert.match(stdout.toString(), /takes no requests: no/);
  assert.doesNotMatch(stdout.toString(), /[^\P{Cc}\n]/u);
});

test('an engine that kills the process that loads it fails its check alone', async () => {
  const killer = join(folder, 'killer.mjs');
  writeFileSync(killer, "process.kill(process.pid, 'SIGBUS');\nawait new Promise(() => {});\n");
  const probes = { engine: () => loadElsewhere(pathToFileURL(killer)) };
  const { code, stdout } = await doctor(['--data', join(folder, 'none')], { probes });
  assert.equal(code, 1);
  assert.match(stdout.toString(), /^failed +versions .*cannot be loaded: it ends its process \(SIGBUS\)$/m);
  assert.equal(stdout.toString().match(/^ok /gm)?.length, 8);
  const missing = { engine: () => loadElsewhere(pathToFileURL(join(folder, 'missing.mjs'))) };
  const { state, said } = await finding('versions', ['--data', join(folder, 'none')], { probes: missing });
  assert.deepEqual([state, said.includes('Cannot find module')], ['failed', true]);
});

test('few open files are a warning with the number to set, and no failure', async () => {
  const machine = { memoryBytes: 64 * 2 ** 30, openFiles: 1024 };
  const { state, next } = await finding('open files', ['--data', join(folder, 'none')], { machine });
  assert.deepEqual([state, next?.includes('4608')], ['warning', true]);
  assert.equal((await doctor(['--data', join(folder, 'none')], { machine })).code, 0);
});

describe('authorization servers', () => {
  const args = async (): Promise<{ server: AuthorizationServer; flags: readonly string[] }> => {
    const server = await AuthorizationServer.start({ clients: {} });
    after(() => server[Symbol.asyncDispose]());
    return { server, flags: ['--data', join(folder, 'none'), '--oidc-issuer', server.issuer, '--oidc-audience', 'a'] };
  };

  test('one that answers is ok, with its keys, and its clock is compared', async () => {
    const { flags } = await args();
    assert.match((await finding('issuers', flags)).said, /answers discovery, and has 1 key$/);
    assert.equal((await finding('clock', flags)).state, 'ok');
    const { state, said, next } = await finding('clock', flags, { clock: { ...systemClock, nowMs: () => 0 } });
    assert.equal(state, 'failed');
    assert.match(said, /behind http.* more than --clock-skew/);
    assert.match(next!, /NTP/);
  });

  test('one that is down, or is none, fails with its cause', async () => {
    const { server, flags } = await args();
    server.goDown();
    assert.equal((await finding('issuers', flags)).state, 'failed');
    server.goUp();
    server.hide('/jwks');
    assert.match((await finding('issuers', flags)).said, /404/);
  });
});

test('an object store that cannot be asked fails with what is missing', async () => {
  const { state, next } = await finding('store', ['--data', join(folder, 'none'), '--storage-root', 's3://b/p']);
  assert.deepEqual([state, next?.includes('LANCEGATE_STORAGE_OPTIONS')], ['failed', true]);
});

test('a database that is gone fails, and no password is shown (P9)', async () => {
  const env = { LANCEGATE_CATALOG: `postgres://ann:tell-no-one@127.0.0.1:${await freePort()}/tables` };
  const { code, stdout, stderr } = await doctor(['--data', join(folder, 'none')], { env });
  assert.equal(code, 1);
  assert.match(stdout.toString(), /^failed +database .*ECONNREFUSED/m);
  assert.doesNotMatch(stdout.toString() + stderr, /tell-no-one/);
});

describe('a database', { skip: withoutPostgres ?? false }, () => {
  test('a new one is ok, what a start will change is said, and nothing is changed', async () => {
    const url = await (await sharedPostgres()).newDatabase();
    for (const _ of ['first', 'second']) {
      const { state, said } = await finding('database', ['--data', join(folder, 'none'), '--catalog', url]);
      assert.equal(state, 'ok');
      assert.match(said, /PostgreSQL \d+.*; a start changes its schema \(\d+ steps\)/);
    }
  });

  test('a wrong password is said, and not shown (P9)', async () => {
    const url = Object.assign(new URL(await (await sharedPostgres()).newDatabase()), {
      username: guarded.user,
      password: 'wr0ng-one',
    });
    const { stdout } = await doctor(['--data', join(folder, 'none')], { env: { LANCEGATE_CATALOG: url.href } });
    assert.match(stdout.toString(), /^failed +database .*password authentication failed/m);
    assert.doesNotMatch(stdout.toString(), /wr0ng-one/);
  });
});
