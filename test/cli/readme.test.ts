/** The README's commands, pasted into bash: a token, a table, and an upsert into it. */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

const packageFolder = join(import.meta.dirname, '../..');
const readme = readFileSync(join(packageFolder, 'README.md'), 'utf8');
const blocks = (language: string): string[] =>
  [...readme.matchAll(new RegExp(`\`\`\`${language}\\n(.*?)\`\`\``, 'gs'))].map(([, block = '']) => block);
const documentedUrl = 'http://127.0.0.1:2333';

const fieldsOf = (answers: string): string[][] =>
  answers
    .trim()
    .split('\n')
    .map((line) => Object.keys(JSON.parse(line)));

test('the commands of the README give the answers of the README', async (t) => {
  const data = temporaryFolder((clean) => t.after(clean));
  const env = {
    PATH: `${dirname(process.execPath)}:${process.env.PATH}`,
    LANCEGATE_DATA: data,
    LANCEGATE_PORT: '0',
  };
  const service = spawn(process.execPath, ['src/main.ts', 'serve'], {
    cwd: packageFolder,
    env,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  t.after(() => service.kill('SIGKILL'));
  const [printed] = await once(service.stdout, 'data');
  const url = /http:\/\/127\.0\.0\.1:\d+/.exec(String(printed))?.[0];
  assert.ok(url, String(printed));

  const [, commands = ''] = blocks('sh');
  const [documented = ''] = blocks('json');
  assert.ok(commands.includes(documentedUrl));
  const answers = execFileSync('bash', ['-euo', 'pipefail'], {
    input: commands.replaceAll(documentedUrl, url),
    cwd: packageFolder,
    env,
  }).toString();

  const [created, merged] = answers
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  assert.equal(created.version, 1);
  assert.match(created.location, /^file:.*\/tables\/capitals\.lance$/);
  assert.deepEqual(
    [merged.version, merged.num_updated_rows, merged.num_inserted_rows, merged.num_deleted_rows],
    [2, 1, 1, 0],
  );
  const answered = fieldsOf(answers);
  for (const [index, fields] of fieldsOf(documented).entries()) {
    for (const field of fields) assert.ok(answered[index]?.includes(field), field);
  }
});
