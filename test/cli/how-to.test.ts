/** The pages of docs/how-to, as their readers run them. */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Field, Int32, Schema, Table, tableToIPC, Utf8, vectorFromArray } from 'apache-arrow';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

const packageFolder = join(import.meta.dirname, '../..');
const main = join(packageFolder, 'src/main.ts');

const pageOf = (name: string): string => readFileSync(join(packageFolder, 'docs/how-to', `${name}.md`), 'utf8');

function blocksOf(page: string, language: string): string[] {
  return [...page.matchAll(new RegExp(`\`\`\`${language}\\n(.*?)\`\`\``, 'gs'))].map(([, block = '']) => block);
}

/** A folder with a service on it, and what runs commands there. */
async function serve(t: TestContext) {
  const folder = temporaryFolder((clean) => t.after(clean));
  const env = { PATH: `${dirname(process.execPath)}:${process.env.PATH}`, LANCEGATE_DATA: folder, LANCEGATE_PORT: '0' };
  const service = spawn(process.execPath, [main, 'serve'], { env, stdio: ['ignore', 'pipe', 'ignore'] });
  t.after(() => service.kill('SIGKILL'));
  const [printed] = await once(service.stdout, 'data');
  const url = /http:\/\/127\.0\.0\.1:\d+/.exec(String(printed))?.[0];
  assert.ok(url, String(printed));
  const run = (commands: string): string =>
    execFileSync('bash', ['-euo', 'pipefail'], {
      input: commands.replaceAll('npx lancegate', `node ${main}`),
      cwd: folder,
      env: { ...env, LANCEGATE_URL: url },
      stdio: ['pipe', 'pipe', 'pipe'],
    }).toString();
  return { folder, url, run };
}

test('the commands of the page of daily files give the rows of the page', async (t) => {
  const page = pageOf('daily-file');
  const [commands = '', more = ''] = blocksOf(page, 'sh');
  const [rows = '', extended = ''] = blocksOf(page, 'csv');
  const { run } = await serve(t);
  const answers = run(commands);
  assert.ok(answers.replaceAll('\r', '').endsWith(rows), answers);
  assert.match(answers, /"duplicates":1,"stale":1/);
  assert.throws(() => run(more.replace(' --schema extend', '')), /column colour does not exist in the table/);
  const later = run(more);
  assert.ok(later.replaceAll('\r', '').endsWith(extended), later);
});

test('a load says each row that the table has no room for, and without --refused ends at it, whatever the table says', async (t) => {
  const { folder, run } = await serve(t);
  const arrow = (names: readonly (string | null)[], metadata = new Map<string, string>()) => {
    const columns = { id: vectorFromArray([...names.keys()], new Int32()), name: vectorFromArray(names, new Utf8()) };
    const nullable = names.includes(null);
    const schema = new Schema([new Field('id', new Int32(), true), new Field('name', new Utf8(), nullable)], metadata);
    return tableToIPC(new Table(schema, columns), 'file');
  };
  writeFileSync(join(folder, 'first.arrow'), arrow(['a'], new Map([['lancegate.on_invalid', 'report']])));
  const names = Array.from({ length: 300 }, (_, i) => (i % 2 === 1 ? null : 'b'));
  writeFileSync(join(folder, 'more.arrow'), arrow(names));
  run('npx lancegate load strict first.arrow --append');
  for (const how of ['--append', '--on id']) {
    assert.throws(() => run(`npx lancegate load strict more.arrow ${how}`), /must not be null/);
    const loaded = run(`npx lancegate load strict more.arrow ${how} --refused refused.ndjson`);
    assert.match(loaded, /"rows":150,"refused":150/);
    const lines = readFileSync(join(folder, 'refused.ndjson'), 'utf8').trimEnd().split('\n');
    assert.equal(lines.length, 101);
    assert.match(lines[0] ?? '', /"file":"more.arrow","reason":"row 2, column name holds a NULL/);
    assert.match(lines[100] ?? '', /rows 1 to 300: 50 more of them break a rule/);
  }
});

/** Stands in for the client of Kafka: delivers recorded batches, in their order, and writes down what it is given. */
const recordedKafka = `
import { appendFileSync, readFileSync } from 'node:fs';
const say = (event) => appendFileSync('said.ndjson', JSON.stringify(event) + '\\n');
const buffer = (text) => (text === null ? null : Buffer.from(text));
export class Kafka {
  consumer() {
    return {
      connect: async () => {},
      subscribe: async () => {},
      commitOffsets: async (offsets) => say({ committed: offsets }),
      async run({ eachBatch }) {
        for (const { partition, messages } of JSON.parse(readFileSync('batches.json', 'utf8'))) {
          const sent = messages.map((each) => ({ ...each, key: buffer(each.key), value: buffer(each.value) }));
          await eachBatch({ batch: { topic: 'prices', partition, messages: sent } });
        }
      },
    };
  }
  producer() {
    return {
      connect: async () => {},
      send: async ({ topic, messages }) => {
        for (const { offset, headers } of messages) say({ topic, offset, reason: headers.reason });
      },
    };
  }
}
`;

const priced = (offset: number, key: string | null, value: unknown) => ({
  key,
  offset: String(offset),
  timestamp: String(Date.now()),
  value: value === null || typeof value === 'string' ? value : JSON.stringify(value),
});

test('the program of the page of Kafka topics keeps one row for each key, whatever is delivered again or late (P2)', async (t) => {
  const page = pageOf('kafka-topic');
  const [[declare = ''], [program = '']] = [blocksOf(page, 'sh'), blocksOf(page, 'js')];
  const { folder, run, url } = await serve(t);
  const key = run('npx lancegate key create --subject tester --scope lancegate:write').trim();
  const first = [
    priced(0, 'a', { name: 'pear', price: 1.5 }),
    priced(1, 'b', { name: 'plum', price: 2 }),
    priced(2, 'a', { name: 'pear' }),
    priced(3, 'c', { name: 'fig', price: 'cheap' }),
    priced(4, 'd', 'no json'),
    priced(5, null, { name: 'nobody' }),
    priced(6, 'e', { name: 'kiwi', colour: 'green' }),
  ];
  const second = [priced(7, 'b', null), priced(8, 'f', null), priced(9, 'a', { name: 'pear', price: 3 })];
  const other = [
    priced(0, 'x', { name: 'lime', price: 4 }),
    priced(1, 'x', null),
    priced(2, 'x', { name: 'lime', price: 5 }),
  ];
  const many = Array.from({ length: 250 }, (_, i) => priced(i, `k${i}`, 'no json'));
  const batches = [
    { partition: 0, messages: first },
    { partition: 0, messages: second },
    { partition: 1, messages: other },
    // As after a kill: delivered again, and cut otherwise.
    { partition: 1, messages: other.slice(0, 2) },
    { partition: 0, messages: [...first, ...second].slice(1, 8) },
    { partition: 2, messages: [...many, priced(250, 'z', { name: 'date' })] },
  ];
  writeFileSync(join(folder, 'batches.json'), JSON.stringify(batches));
  writeFileSync(join(folder, 'keep.mjs'), program);
  mkdirSync(join(folder, 'node_modules/kafkajs'), { recursive: true });
  writeFileSync(join(folder, 'node_modules/kafkajs/index.mjs'), recordedKafka);
  writeFileSync(join(folder, 'node_modules/kafkajs/package.json'), '{"name":"kafkajs","exports":"./index.mjs"}');
  run(`export LANCEGATE_KEY=${key}\n${declare}\nnode keep.mjs prices`);
  const query = 'npx lancegate query prices --columns key,name,price --where "deleted_at IS NULL" --order-by key --csv';
  assert.equal(run(query).replaceAll('\r', ''), 'key,name,price\na,pear,3\nx,lime,5\nz,date,\n', url);
  const said = readFileSync(join(folder, 'said.ndjson'), 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  const dead = said.flatMap(({ offset, reason }) => (reason === undefined ? [] : [`${offset} ${reason}`]));
  for (const [i, reason] of [/^3 .*price/, /^4 .*object/, /^5 .*key/, /^6 .*colour/].entries()) {
    assert.match(dead[i] ?? '', reason);
    assert.match(dead[i + 4] ?? '', reason);
  }
  assert.deepEqual([dead.length, new Set(dead.slice(8)).size], [258, 250]);
  assert.deepEqual(
    said.flatMap(({ committed }) => committed ?? []).map(({ partition, offset }) => [partition, offset]),
    [
      [0, '7'],
      [0, '10'],
      [1, '3'],
      [1, '2'],
      [0, '8'],
      [2, '251'],
    ],
  );
});
