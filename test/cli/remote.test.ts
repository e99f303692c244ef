/** Commands that ask a running service, against a real one. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { printable, tableLines } from '#src/cli/remote/printed-rows.ts';
import { systemClock } from '#src/kernel/clock.ts';
import { listeningUrl, serveArguments } from '#test/fixtures/service-process.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { Collector, type Outcome, runInProcess } from './in-process.ts';

class Terminal extends Collector {
  override readonly isTTY = true;
  readonly columns = 60;
}

const later: (() => unknown)[] = [];
const data = temporaryFolder((clean) => later.push(clean));
let url = '';
let key = '';

const run = (
  args: readonly string[],
  terminal: Collector = new Collector(),
  env: Readonly<Record<string, string>> = {},
): Promise<Outcome> => runInProcess(args, { clock: systemClock, env, stdout: terminal });

async function post(table: string, operation: string, body: string): Promise<void> {
  const headers = { 'x-api-key': key, 'content-type': 'application/json' };
  const answer = await fetch(`${url}/v1/table/${table}/${operation}`, { method: 'POST', headers, body });
  assert.equal(answer.status, 200, await answer.text());
}

/** Of the data folder's service, in a pipe. */
async function lines(...args: readonly string[]): Promise<readonly object[]> {
  const { code, stdout, stderr } = await run([...args, '--data', data]);
  assert.equal(code, 0, stderr);
  return stdout
    .toString()
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as object);
}

describe('commands that ask a service', () => {
  before(async () => {
    const child = spawn(process.execPath, serveArguments(data, 'error'), {
      env: { PATH: process.env.PATH },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    later.push(() => child.kill('SIGKILL'));
    url = (await listeningUrl(child))!;
    const made = await run(['key', 'create', '--subject', 'ada', '--scope', 'lancegate:admin', '--data', data]);
    key = made.stdout.toString().trim();
    await post('people', 'create', '[{"id":1,"name":"Ada","vec":[1,0]},{"id":2,"name":"Grace","vec":[0,1]}]');
    await post('people', 'merge_insert?on=id', '[{"id":2,"name":"Hopper","vec":[0,1]}]');
    await post('hostile', 'create', JSON.stringify([{ text: '\u001b[2Jgone\n', none: null, id: 1 }]));
  });
  after(() => {
    for (const each of later.reverse()) each();
  });

  describe('commands find the service of the data folder, and', () => {
    test('status says where it is and how it is', async () => {
      const [status] = await lines('status');
      const { version, ...rest } = status as { readonly version: string };
      assert.match(version, /^\d+\.\d+\.\d+/);
      assert.deepEqual(rest, { url, status: 'ready', tables: 2 });
    });

    test('tables lists tables with their rows', async () => {
      const found = (await lines('tables')) as readonly { readonly table: string; readonly rows: number }[];
      assert.deepEqual(
        found.map(({ table, rows }) => [table, rows]),
        [
          ['hostile', 1],
          ['people', 2],
        ],
      );
    });

    test('show names columns with their types', async () => {
      const [{ columns, rows, version }] = (await lines('show', 'people')) as [
        { readonly columns: readonly object[]; readonly rows: number; readonly version: number },
      ];
      assert.deepEqual([rows, version], [2, 2]);
      assert.deepEqual(columns, [
        { name: 'id', type: 'int64', nullable: true },
        { name: 'name', type: 'utf8', nullable: true },
        { name: 'vec', type: 'fixed_size_list<float32>(2)', nullable: true },
      ]);
    });

    test('query takes a filter, columns, an order, a vector, a version', async () => {
      assert.deepEqual(await lines('query', 'people', '--where', 'id = 2', '--columns', 'name'), [{ name: 'Hopper' }]);
      assert.deepEqual(await lines('query', 'people', '--order-by', 'id DESC', '--columns', 'id', '--limit', '1'), [
        { id: 2 },
      ]);
      assert.deepEqual(await lines('query', 'people', '--version', '1', '--where', 'id=2', '--columns', 'name'), [
        { name: 'Grace' },
      ]);
      const [nearest] = await lines('query', 'people', '--vector=1,0', '--limit', '1', '--columns', 'name');
      assert.equal((nearest as { readonly name: string }).name, 'Ada');
    });

    test('query prints CSV and JSON where they are asked for', async () => {
      const csv = await run(['query', 'people', '--columns', 'id,name', '--order-by', 'id', '--csv', '--data', data]);
      assert.equal(csv.stdout.toString(), 'id,name\r\n1,Ada\r\n2,Hopper\r\n');
      const json = await run(['query', 'people', '--columns', 'id', '--where', 'id = 1', '--json', '--data', data]);
      assert.deepEqual((JSON.parse(json.stdout.toString()) as { rows: unknown }).rows, [{ id: 1 }]);
      const both = await run(['query', 'people', '--json', '--csv', '--data', data]);
      assert.deepEqual([both.code, both.stderr], [2, 'lancegate: --json and --csv exclude each other\n']);
    });

    test('trash lists what was dropped, undrop brings it back under either name, and purge ends it', async () => {
      for (const id of [1, 2]) {
        await post('lost', 'create', `[{"id":${id}}]`);
        await post('lost', 'drop', '{}');
      }
      const dropped = (await lines('trash')) as readonly { table: string; dropped_id: string; kept_until: string }[];
      assert.deepEqual(
        dropped.map(({ table }) => table),
        ['lost', 'lost'],
      );
      const say = async (...args: readonly string[]) => (await run([...args, '--data', data])).stdout.toString();
      assert.equal(await say('undrop', 'lost'), 'lost is back\n');
      assert.deepEqual(await lines('query', 'lost'), [{ id: 2 }]);
      const taken = await run(['undrop', 'lost', '--data', data]);
      assert.deepEqual([taken.code, /already exists/.test(taken.stderr)], [1, true]);
      const older = ['--dropped-id', dropped[1]!.dropped_id];
      assert.equal(await say('undrop', 'lost', '--as', 'found', ...older), 'found is back\n');
      assert.deepEqual(await lines('query', 'found'), [{ id: 1 }]);
      await post('found', 'drop', '{}');
      assert.equal(await say('purge', 'found'), '1 dropped table purged\n');
      assert.equal(await say('trash'), '');
    });

    test('restore goes back to a version, a tag or a time, and says which version that makes', async () => {
      await post('kept', 'create', '[{"id":1}]');
      await post('kept', 'insert', '[{"id":2}]');
      await post('kept', 'tags/create', '{"tag":"good","version":1}');
      const rows = async (): Promise<number> => (await lines('query', 'kept')).length;
      const restore = async (to: string): Promise<string> =>
        (await run(['restore', 'kept', '--to', to, '--data', data])).stdout.toString();
      assert.equal(await restore('1'), 'kept is as version 1 was; this is version 3 now\n');
      assert.equal(await rows(), 1);
      assert.equal(await restore('2'), 'kept is as version 2 was; this is version 4 now\n');
      assert.equal(await restore('good'), 'kept is as version 1 was; this is version 5 now\n');
      const versions = (await lines('versions', 'kept')) as readonly {
        version: number;
        made: string;
        tags: string[];
      }[];
      assert.deepEqual(
        versions.map(({ version, tags }) => [version, tags]),
        [5, 4, 3, 2, 1].map((version) => [version, version === 1 ? ['good'] : []]),
      );
      assert.match(await restore(versions[1]!.made), /^kept is as version 4 was/);
      assert.equal(await rows(), 2);
      const early = await run(['restore', 'kept', '--to', '2020-01-01', '--data', data]);
      assert.deepEqual([early.code, /no version of kept is from 2020-01-01/.test(early.stderr)], [1, true]);
    });

    test('maintain prints what was done', async () => {
      assert.ok((await lines('maintain', 'people')).length > 0);
    });
  });

  describe('on a terminal', () => {
    test('rows are a table as wide as it, and what they hold cannot steer it (P9)', async () => {
      const terminal = new Terminal();
      const { code } = await run(['query', 'hostile', '--columns', 'id,text', '--data', data], terminal);
      assert.equal(code, 0);
      assert.equal(
        terminal.bytes.toString(),
        ['id  text', '--  -------------------', ' 1  \\u001b[2Jgone\\u000a', ''].join('\n'),
      );
    });

    test('show has facts, columns, indexes and tags below each other', async () => {
      const terminal = new Terminal();
      await run(['show', 'people', '--data', data], terminal);
      assert.match(terminal.bytes.toString(), /^fact .*^table +people$.*^column +type.*^vec +fixed_size_list/ms);
    });

    test('no line is wider than it, and numbers stand to the right', () => {
      const rows = [
        { n: 5, text: 'x'.repeat(90) },
        { n: 1000, text: 'y' },
      ];
      const found = tableLines(rows, ['n', 'text'], 40).split('\n');
      assert.ok(found.every((line) => line.length <= 40));
      assert.equal(found[2]!.slice(0, 7), '   5  x');
    });

    test('text that turns direction is shown as what it is', () => {
      assert.equal(printable('a\u202eb\u009bc'), 'a\\u202eb\\u009bc');
    });
  });

  describe('a service elsewhere', () => {
    test('is named by --url and --key, or by their variables, or by a file', async () => {
      const file = join(
        temporaryFolder((clean) => later.push(clean)),
        'key',
      );
      writeFileSync(file, `${key}\n`);
      for (const outcome of [
        await run(['status', '--url', url, '--key', key]),
        await run(['status', '--url', `${url}/`], undefined, { LANCEGATE_KEY: key }),
        await run(['status'], undefined, { LANCEGATE_URL: url, LANCEGATE_KEY: key }),
        await run(['status', '--url', url, '--credential-file', file]),
      ])
        assert.equal(outcome.code, 0, outcome.stderr);
    });

    test('that is not there, refuses the key or is another program is named in one sentence (P9)', async () => {
      const other = createServer((_, response) => response.writeHead(404).end('<html>')).listen(0);
      later.push(() => other.close());
      const otherUrl = `http://127.0.0.1:${(other.address() as AddressInfo).port}`;
      const nowhere = ['--data', join(data, 'none')];
      for (const [args, expected] of [
        [
          ['tables', '--url', url, '--key', 'wrong-secret'],
          /^lancegate: .*; --key, LANCEGATE_KEY .*\(401, request \S+\)\n$/,
        ],
        [
          ['tables', '--url', otherUrl, '--key', key],
          /^lancegate: what answers at \S+ is no lancegate service.*404\)\n$/,
        ],
        [
          ['tables', '--url', url.replace('http:', 'https:'), '--key', key],
          /^lancegate: what answers at https:.* speaks no TLS; is it http:.*\n$/,
        ],
        [['tables', ...nowhere], /^lancegate: no service runs on the data folder .* --url\n$/],
        [['tables', '--url', url, ...nowhere], /^lancegate: the service needs a credential: --key.*\n$/],
        [
          ['show', 'peple', '--url', url, '--key', key],
          /^lancegate: table 'peple' does not exist; `lancegate tables` .*\n$/,
        ],
        [
          ['query', 'people', '--version', '99', '--url', url, '--key', key],
          /^lancegate: the table has no such version; `lancegate versions TABLE` .*\n$/,
        ],
        [
          ['restore', 'people', '--to', 'nope', '--url', url, '--key', key],
          /^lancegate: table 'people' has no tag 'nope'; `lancegate show TABLE` .*\n$/,
        ],
        [
          ['tables', '--url', `${url}/lance`, '--key', key],
          /^lancegate: what answers at \S+ is no lancegate service, or has another base path .*\n$/,
        ],
      ] as const) {
        const { code, stdout, stderr } = await run(args);
        assert.deepEqual([code, stdout.toString()], [1, ''], stderr);
        assert.match(stderr, expected);
        assert.ok(!stderr.includes('wrong-secret') && !stderr.includes(key));
      }
    });

    test('that cannot be asked is named with the reason, and none of another machine gets a token of the folder (P9)', async () => {
      const gone = createServer().listen(0);
      const goneUrl = `http://127.0.0.1:${(gone.address() as AddressInfo).port}`;
      gone.close();
      for (const [args, expected] of [
        [['--url', goneUrl, '--key', key], /^lancegate: no service answers at .*: the connection was refused\n$/],
        [
          ['--url', 'http://127.0.0.1:1', '--key', key],
          /^lancegate: the port of http:\S+ is one that fetch.*--port\n$/,
        ],
        [
          ['--url', url, '--credential-file', '/gone'],
          /^lancegate: \/gone cannot be read: there is no such file or folder\n$/,
        ],
        [['--url', url.replace('127.0.0.1', '127.0.0.2')], /^lancegate: the service needs a credential: --key.*\n$/],
      ] as const) {
        const { code, stderr } = await run(['tables', '--data', data, ...args]);
        assert.equal(code, 1);
        assert.match(stderr, expected);
      }
    });

    test('is given no more arguments than a command takes', async () => {
      assert.match((await run(['tables', 'a', 'b'])).stderr, /unexpected argument "b"/);
      assert.match((await run(['restore', 'a'])).stderr, /--to is required/);
      for (const args of [
        ['show', ''],
        ['tables', ''],
      ])
        assert.match((await run(args)).stderr, /^lancegate: \[?[A-Z]+\]? is empty\n$/);
      assert.match((await run(['query', 'a', '--vector', '1,x'])).stderr, /--vector: "1,x" is not accepted/);
    });
  });
});
