/** The pages of docs/how-to, as their readers run them. */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
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
  const [commands = ''] = blocksOf(page, 'sh');
  const [rows = ''] = blocksOf(page, 'csv');
  const { run } = await serve(t);
  const answers = run(commands);
  assert.ok(answers.replaceAll('\r', '').endsWith(rows), answers);
  assert.match(answers, /"duplicates":1,"stale":1/);
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
    assert.match(lines[0] ?? '', /"file":"more.arrow","reason":"row 2, column name: holds a NULL/);
    assert.match(lines[100] ?? '', /rows 1 to 300: 50 more of them break a rule/);
  }
});
