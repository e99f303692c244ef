/** TLS on every way, with the settings of deploy/README.md: client, nginx, replicas, PostgreSQL and the object store. */
import assert from 'node:assert/strict';
import { execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { type Certified, newCa, type TestCa, withoutOpenssl } from '#test/fixtures/certificates.ts';
import { freePort } from '#test/fixtures/free-port.ts';
import { startPostgres } from '#test/fixtures/postgres.ts';
import { startS3Gateway } from '#test/fixtures/s3-gateway.ts';
import { listeningUrl } from '#test/fixtures/service-process.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { eventually } from '#test/http/eventually.ts';
import { appendedRow, emptyTable } from './history/register-clients.ts';
import { withoutReplicas } from './nemesis/cluster.ts';
import { main } from './nemesis/replica.ts';

const deployed = (name: string): string => readFileSync(join(import.meta.dirname, '../../deploy', name), 'utf8');
const nginx = ['nginx', '/usr/sbin/nginx'].find((path) => spawnSync(path, ['-v']).error === undefined);
const without =
  withoutReplicas ??
  withoutOpenssl ??
  (nginx === undefined ? 'there is no nginx; .ci/install-balancers installs it' : undefined);

type After = (clean: () => void | Promise<void>) => void;
type Settings = Readonly<Record<string, string>>;

interface Replica {
  readonly port: number;
  readonly url: string;
  readonly environment: Settings;
}

async function startReplica(after: After, environment: Settings): Promise<Replica> {
  const port = await freePort();
  const url = `https://localhost:${port}`;
  const all = {
    ...environment,
    LANCEGATE_PORT: String(port),
    LANCEGATE_ADVERTISE: url,
    LANCEGATE_DATA: join(temporaryFolder(after), 'data'),
  };
  const replica = spawn(process.execPath, [main, 'serve'], { env: all, stdio: ['ignore', 'pipe', 'pipe'] });
  after(() => void replica.kill('SIGKILL'));
  let said = '';
  replica.stderr.on('data', (text: Buffer) => {
    said += text.toString();
  });
  assert.ok(await listeningUrl(replica), said);
  return { port, url, environment: all };
}

/** As the page says, on the ports of this machine. Returns the URL. */
async function startNginx(
  after: After,
  { replicas, ca, shown }: { replicas: readonly Replica[]; ca: TestCa; shown: Certified },
) {
  const folder = temporaryFolder(after);
  const [listen = '', pass = ''] = [...deployed('README.md').matchAll(/```nginx\n(.*?)```/gs)].map(
    ([, lines]) => lines,
  );
  const port = await freePort();
  const servers = replicas.map((replica) => `server localhost:${replica.port};`).join(' ');
  const text = deployed('nginx.conf')
    .replace('listen 2333;', listen)
    .replaceAll('proxy_pass http://replicas;', pass)
    .replace(/(server replica-\d:2333[^;]*;\s*)+/, servers)
    .replace('listen 2333 ssl', `listen 127.0.0.1:${port} ssl`)
    .replaceAll('proxy_ssl_name replicas', 'proxy_ssl_name localhost')
    .replace('/certificates/nginx.pem', shown.certificatePath)
    .replace('/certificates/nginx.key', shown.keyPath)
    .replaceAll('/certificates/ca.pem', ca.path);
  assert.ok(!/replica-\d|\/certificates\//.test(text), text);
  const path = join(folder, 'nginx.conf');
  writeFileSync(
    path,
    `pid ${folder}/pid; error_log stderr; daemon off;\n${text.replace('http {', 'http { access_log off;')}`,
  );
  chmodSync(folder, 0o755);
  const child = spawn(nginx ?? '', ['-p', folder, '-c', path], { stdio: ['ignore', 'ignore', 'pipe'] });
  after(() => void child.kill('SIGTERM'));
  let said = '';
  child.stderr.on('data', (chunk: Buffer) => {
    said += chunk.toString();
  });
  const url = `https://localhost:${port}`;
  const answers = () =>
    ask(url, '/healthz', { ca }).then(
      ({ status }) => status === 200,
      () => false,
    );
  await eventually('nginx answers', answers, () => said);
  return url;
}

/** By the command of the page, beside a replica, from a folder where nothing may be written. */
async function firstToken(settings: Settings, cwd: string): Promise<string> {
  const [, words = ''] = /exec replica-1 \\\n {2}lancegate (.*)\n/.exec(deployed('README.md')) ?? [];
  const { stdout } = await promisify(execFile)(process.execPath, [main, ...words.split(' ')], { env: settings, cwd });
  assert.deepEqual(readdirSync(cwd), []);
  return stdout.trim();
}

interface Asking {
  readonly ca: TestCa;
  readonly authorization?: string;
  readonly body?: Uint8Array | object;
}

async function ask(url: string, path: string, { ca, authorization = '', body }: Asking) {
  const isArrow = body instanceof Uint8Array;
  const type = isArrow ? 'application/vnd.apache.arrow.stream' : 'application/json';
  const method = body === undefined ? 'GET' : 'POST';
  const headers = { authorization, ...(body !== undefined && { 'content-type': type }) };
  const asking = request(`${url}${path}`, { method, headers, ca: readFileSync(ca.path), agent: false });
  asking.end(isArrow || body === undefined ? body : JSON.stringify(body));
  const [answer] = await once(asking, 'response');
  return { status: answer.statusCode as number, body: Buffer.concat(await answer.toArray()).toString() };
}

describe('with TLS on every way', { skip: without ?? false }, () => {
  const after = afterSuite();
  let ca: TestCa;
  let replicas: readonly Replica[];
  let url: string;
  let authorization: string;
  let settings: Settings;
  before(async () => {
    ca = newCa(after);
    const shown = ca.certify('shown');
    const gateway = await startS3Gateway(after, shown);
    const postgres = await startPostgres(after);
    await postgres.useCertificate(shown.certificatePath, shown.keyPath);
    const catalog = new URL(await postgres.newDatabase());
    catalog.searchParams.set('sslmode', 'verify-full');
    catalog.searchParams.set('sslrootcert', ca.path);
    settings = {
      PATH: process.env.PATH ?? '',
      NODE_EXTRA_CA_CERTS: ca.path,
      SSL_CERT_FILE: ca.path,
      LANCEGATE_CATALOG: catalog.href,
      LANCEGATE_STORAGE_ROOT: gateway.newRoot(),
      LANCEGATE_STORAGE_OPTIONS: JSON.stringify(gateway.storageOptions),
      LANCEGATE_OWN_ISSUER: 'true',
      LANCEGATE_TLS_CERTIFICATE: shown.certificatePath,
      LANCEGATE_TLS_KEY: shown.keyPath,
      LANCEGATE_REPLICA_CA: ca.path,
    };
    replicas = [await startReplica(after, settings), await startReplica(after, settings)];
    authorization = `Bearer ${await firstToken(settings, temporaryFolder(after))}`;
    url = await startNginx(after, { replicas, ca, shown });
  });

  test('tables are made through nginx, and written and read on either replica, whichever owns them', async () => {
    const created = await ask(url, '/v1/table/t/create', { ca, authorization, body: emptyTable() });
    assert.equal(created.status, 200, created.body);
    for (const replica of [...replicas, { url }]) {
      const made = await ask(replica.url, '/v1/table/t/insert', { ca, authorization, body: appendedRow('x') });
      assert.equal(made.status, 200, made.body);
    }
    for (const replica of replicas) {
      const counted = await ask(replica.url, '/v1/table/t/count_rows', {
        ca,
        authorization,
        body: { predicate: "value = 'x'" },
      });
      assert.deepEqual(counted, { status: 200, body: '3' });
    }
  });

  test('the health check of the image sees that a replica answers, and that none does', () => {
    const [, command = ''] = /^HEALTHCHECK .*CMD (curl .*)$/m.exec(deployed('Dockerfile')) ?? [];
    const check = (env: Settings) =>
      spawnSync('sh', ['-c', command], { env: { PATH: process.env.PATH, ...env } }).status;
    for (const { environment } of replicas) assert.equal(check(environment), 0);
    assert.equal(check({ ...replicas[0]?.environment, LANCEGATE_PORT: '1' }), 7); // curl: nothing was reached
  });

  test('a replica needs both variables to reach a store whose CA nobody else knows', async () => {
    const { NODE_EXTRA_CA_CERTS: _, ...untold } = settings;
    const args = [main, 'serve', '--port', '0', '--data', join(temporaryFolder(after), 'data')];
    const tried = promisify(execFile)(process.execPath, args, { env: untold, timeout: 60_000 });
    await assert.rejects(tried, (error) => /s3:\/\/.* cannot be used: .*certificate/.test(String(error)));
    const { SSL_CERT_FILE: __, ...half } = settings;
    const replica = await startReplica(after, half);
    const body = { predicate: "value = 'x'" };
    const counted = await ask(replica.url, '/v1/table/t/count_rows', { ca, authorization, body });
    assert.notEqual(counted.status, 200, counted.body);
  });
});
