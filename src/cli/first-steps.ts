/** What `dev` prints for a new user: where the service is, and commands and programs that work when they are pasted. */
import { join, relative } from 'node:path';
import type { Config } from '../config/settings.ts';
import type { CliContext } from './command.ts';

/** A table of 50 rows, whose vectors have the longitude and the latitude of each place. */
export const sampleTable = 'capitals';

export const samplePath = ({ packageFolder }: Pick<CliContext, 'packageFolder'>): string =>
  join(packageFolder, 'samples/capitals.ndjson');

/** A row that the sample has not. */
const newRow = { state: 'Puerto Rico', city: 'San Juan', position: [-66.1057, 18.4655] };
const near = [-77, 39];

export function firstSteps({ basePath, dataFolder }: Config, url: string, key: string, context: CliContext): string {
  const base = url + basePath;
  return [
    '',
    `lancegate is at ${base}, its data in ${relative(context.cwd, dataFolder) || '.'}`,
    `To read all routes, and try them: ${base}/docs`,
    'An API key that may do all, valid for a week and shown this once:',
    '',
    `export KEY=${key}`,
    '',
    '# curl: a table, an upsert into it, and a search',
    ...curlSteps(base, context),
    '',
    '# Python: pip install lancedb',
    'import lancedb',
    `db = lancedb.connect("db://lancegate", api_key="${key}", host_override="${base}")`,
    `print(db.open_table("${sampleTable}").search(${JSON.stringify(near)}).limit(3).to_list())`,
    '',
    '// Node: npm install @lancedb/lancedb apache-arrow',
    "import { connect } from '@lancedb/lancedb';",
    `const db = await connect('db://lancegate', { apiKey: '${key}', hostOverride: '${base}' });`,
    `console.log(await (await db.openTable('${sampleTable}')).search(${JSON.stringify(near)}).limit(3).toArray());`,
    '',
    '',
  ].join('\n');
}

function curlSteps(base: string, context: CliContext): readonly string[] {
  const file = `@${relative(context.cwd, samplePath(context))}`;
  return [
    post(base, 'create?mode=exist_ok', 'application/x-ndjson', file),
    post(base, 'merge_insert?on=state', 'application/json', JSON.stringify([newRow])),
    `${post(base, 'query', 'application/json', JSON.stringify({ vector: near, k: 3 }))} -H 'Accept: application/x-ndjson'`,
  ];
}

const post = (base: string, operation: string, type: string, body: string): string =>
  [
    `curl -sS -w '\\n' ${quote(`${base}/v1/table/${sampleTable}/${operation}`)}`,
    `-H "x-api-key: $KEY" -H 'Content-Type: ${type}'`,
    `--data-binary ${quote(body)}`,
  ].join(' ');

/** One word for a POSIX shell. */
const quote = (word: string): string => (/^[\w./:@=-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);
