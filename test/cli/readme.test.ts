/** The README's commands, pasted into bash: a token, a table, an upsert into it, and a search. */
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

/** The last of them has its rows in lines of their own. */
const oneByOne = (answers: string): readonly Record<string, unknown>[] =>
  answers
    .trim()
    .split(/\n+(?=\{"(?:location|version|columns)")/)
    .map((answer) => JSON.parse(answer) as Record<string, unknown>);

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

  const [created, merged, found] = oneByOne(answers);
  assert.equal(created?.version, 1);
  assert.match(String(created?.location), /^file:.*\/tables\/people\.lance$/);
  assert.deepEqual(
    [merged?.version, merged?.num_updated_rows, merged?.num_inserted_rows, merged?.num_deleted_rows],
    [2, 1, 1, 0],
  );
  for (const [index, shown] of oneByOne(documented).entries()) {
    for (const field of Object.keys(shown)) assert.ok(Object.hasOwn(oneByOne(answers)[index]!, field), field);
  }
  const rowsOf = (answer: unknown) => (answer as { rows: Record<string, unknown>[] }).rows;
  const nearly = (rows: Record<string, unknown>[]) =>
    rows.map((row) => ({ ...row, _distance: Number(row._distance).toFixed(5) }));
  assert.deepEqual(nearly(rowsOf(found)), nearly(rowsOf(oneByOne(documented)[2])));
});
