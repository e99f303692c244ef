/** What a user of the package meets. `scripts/test-package.sh` installs it, and says where it is. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, globSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { tableFromArrays, tableFromIPC, tableToIPC } from 'apache-arrow';
import { transformSync } from 'esbuild';
import { Table as ParquetTable, writeParquet } from 'parquet-wasm/node';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { onTerminal } from '#test/fixtures/terminal.ts';

const installed = process.env.TEST_PACKAGE ?? '';
const oldestNode = process.env.TEST_OLDEST_NODE ?? '';
const skip = installed === '' && 'scripts/test-package.sh installs the package';
const program = join(installed, 'bin/lancegate.js');
const packages = join(installed, '..');
const { version } = JSON.parse(readFileSync(join(import.meta.dirname, '../../package.json'), 'utf8')) as {
  readonly version: string;
};

interface Dev {
  readonly url: string;
  readonly key: string;
}

async function dev(t: TestContext, node: string, ...args: readonly string[]): Promise<Dev> {
  const data = temporaryFolder((clean) => t.after(clean));
  const command = [node, program, 'dev', '--port', '0', '--data', data, ...args];
  const terminal = onTerminal(command, { env: { PATH: process.env.PATH } });
  t.after(() => terminal.interrupt());
  const said = await terminal.saysMatchOf(/toArray\(\)/);
  assert.match(said, /^import \{ connect \} from '@lancedb\/lancedb';$/m);
  return { url: /http:\/\/127\.0\.0\.1:\d+/.exec(said)![0], key: /lgk_\w+/.exec(said)![0] };
}

async function post({ url, key }: Dev, path: string, body: Uint8Array | object): Promise<Response> {
  const isArrow = body instanceof Uint8Array;
  const headers = {
    'x-api-key': key,
    'content-type': isArrow ? 'application/vnd.apache.arrow.stream' : 'application/json',
  };
  const sent = isArrow ? new Uint8Array(body) : JSON.stringify(body);
  const answer = await fetch(`${url}/v1/table/${path}`, { method: 'POST', headers, body: sent });
  assert.equal(answer.status, 200, await answer.clone().text());
  return answer;
}

const rows = (id: readonly number[], name: readonly string[]): Uint8Array =>
  tableToIPC(tableFromArrays({ id: Int32Array.from(id), name: [...name] }), 'stream');

async function namesIn(service: Dev, table: string): Promise<unknown> {
  const answer = await post(service, `${table}/query`, { k: 10, filter: 'id > 0' });
  const found = tableFromIPC(await answer.bytes()).toArray();
  return Object.fromEntries(found.map((row) => [row.id, row.name]));
}

for (const [title, node] of [
  ['Node 22.16', oldestNode],
  ['the Node of the clone', process.execPath],
] as const) {
  describe(`the package on ${title}`, { skip }, () => {
    test('files are loaded and read by commands, Parquet and long texts in their threads (P2)', async (t) => {
      const service = await dev(t, node);
      const folder = temporaryFolder((clean) => t.after(clean));
      const run = (...args: readonly string[]): string => {
        const command = [program, ...args, '--url', service.url, '--key', service.key];
        const { status, stdout, stderr } = spawnSync(node, command, {
          env: { PATH: process.env.PATH },
          encoding: 'utf8',
        });
        assert.equal(status, 0, stderr);
        assert.doesNotMatch(stderr, /Warning/);
        return stdout;
      };
      const parquet = join(folder, 'people.parquet');
      writeFileSync(parquet, writeParquet(ParquetTable.fromIPCStream(rows([1, 2], ['ann', 'bob']))));
      run('load', 'people', parquet, '--on', 'id');
      const text = Array.from({ length: 5_000 }, (_, at) => `{"id":${at + 2},"name":"name ${at}"}\n`).join('');
      writeFileSync(join(folder, 'more.ndjson'), text);
      run('load', 'people', join(folder, 'more*.ndjson'), '--on', 'id');
      assert.equal(
        run('query', 'people', '--where', 'id < 3', '--order-by', 'id'),
        '{"id":1,"name":"ann"}\n{"id":2,"name":"name 0"}\n',
      );
      const headers = { 'x-api-key': service.key, 'content-type': 'application/x-ndjson' };
      const sent = await fetch(`${service.url}/v1/table/people/insert`, { method: 'POST', headers, body: text });
      assert.equal(sent.status, 200, await sent.text());
      run('export', 'people', join(folder, 'out.parquet'));
      run('load', 'copies', join(folder, 'out.parquet'), '--append');
      assert.equal(run('query', 'copies', '--columns', 'id').trimEnd().split('\n').length, 10_001);
    });

    test('within ten seconds of `dev` a table is made, an upsert done, and a query answered (P2)', async (t) => {
      const startedMs = performance.now();
      const policy = join(
        temporaryFolder((clean) => t.after(clean)),
        'policy.cedar',
      );
      writeFileSync(policy, 'permit (principal, action, resource);');
      const service = await dev(t, node, '--sample', '--policy-file', policy);
      await post(service, 'people/create', rows([1, 2], ['ann', 'bob']));
      await post(service, 'people/merge_insert?on=id', rows([2, 3], ['Bob', 'eve']));
      assert.deepEqual(await namesIn(service, 'people'), { 1: 'ann', 2: 'Bob', 3: 'eve' });
      const tookMs = performance.now() - startedMs;
      t.diagnostic(`${Math.round(tookMs)} ms`);
      assert.ok(tookMs < 10_000, `${tookMs} ms`);

      assert.equal(await (await post(service, 'capitals/count_rows', {})).json(), 50);
      const { version: said } = (await (await fetch(`${service.url}/healthz`)).json()) as { version: string };
      assert.equal(said, version);
      for (const file of ['docs', 'docs/swagger-ui.css', 'docs/swagger-ui-bundle.js', 'openapi.json']) {
        assert.equal((await fetch(`${service.url}/${file}`)).status, 200, file);
      }
    });

    test('it says its version, and warns of nothing', () => {
      const { stdout, stderr } = spawnSync(node, [program, '--version'], { encoding: 'utf8' });
      assert.deepEqual([stdout, stderr], [`lancegate ${version}\n`, '']);
    });

    test('a store whose client is not installed is refused with the name of the client', (t) => {
      const data = temporaryFolder((clean) => t.after(clean));
      const start = (root: string) =>
        spawnSync(node, [program, 'serve', '--port', '0', '--data', data, '--storage-root', root], { encoding: 'utf8' })
          .stderr;
      assert.match(start('az://container/lance'), /npm install @azure\/storage-blob@12/);
      assert.match(start('gs://bucket/lance'), /npm install google-auth-library@11/);
    });
  });
}

describe('the package', { skip }, () => {
  test('with all that it needs has at most 60 MB beside the engine and Arrow, and nothing that counts its users', (t) => {
    const files = globSync('**', { cwd: packages, exclude: ['@lancedb/**', 'apache-arrow/**'] })
      .map((file) => statSync(join(packages, file)))
      .filter((stat) => stat.isFile());
    const onDisk = files.reduce((bytes, { blocks }) => bytes + blocks * 512, 0) / 1e6;
    t.diagnostic(`${Math.round(onDisk)} MB on disk, ${files.length} files`);
    assert.ok(onDisk <= 60, `${onDisk} MB`);
    for (const unwanted of ['@scarf', 'openai', '@huggingface', 'swagger-ui-dist', '@azure', 'google-auth-library']) {
      assert.ok(!existsSync(join(packages, unwanted)), unwanted);
    }
  });

  test('has no tests, benches or TypeScript', () => {
    assert.deepEqual(globSync('**/*.ts', { cwd: installed }), []);
    assert.deepEqual(globSync('{test,bench,scripts,src}', { cwd: installed }), []);
  });

  test('an older Node gets one line that names the versions it could be', (t) => {
    // What it is written in, an interpreter of 2009 reads.
    transformSync(readFileSync(program, 'utf8').replace(/^#!.*/, ''), { target: 'es5' });
    const preload = join(
      temporaryFolder((clean) => t.after(clean)),
      'old.cjs',
    );
    writeFileSync(preload, "Object.defineProperty(process, 'versions', { value: { node: '20.20.2' } });");
    const { status, stderr } = spawnSync(process.execPath, ['-r', preload, program, 'serve'], { encoding: 'utf8' });
    assert.equal(status, 1);
    assert.equal(stderr, 'lancegate needs Node 24 or newer, or Node 22 from 22.16 on: this is Node 20.20.2\n');
  });

  test('`npx lancegate` finds the program', () => {
    const said = execFileSync('npx', ['--no', '--', 'lancegate', '--version'], {
      cwd: join(packages, '..'),
      encoding: 'utf8',
    });
    assert.equal(said, `lancegate ${version}\n`);
  });
});
