/**
 * `lancegate dev` is `serve` for who tries it. On a terminal it makes an API key and prints what to paste; elsewhere its output is the
 * log, as that of `serve`.
 */
import { join, relative } from 'node:path';
import { ApiKeyStore } from '../auth/tokens/api-keys.ts';
import { withDefault } from '../config/options.ts';
import type { Config } from '../config/settings.ts';
import { boolean } from '../config/value-types.ts';
import { dayMs } from '../kernel/clock.ts';
import { type CliContext, type Command, write } from './command.ts';
import { commandOf } from './command-line.ts';
import { ServiceClient } from './remote/service-client.ts';
import { tableRoute } from './remote/table-commands.ts';
import { type StartService, serveUntilStopped } from './serve.ts';

/** The table has 50 rows, whose vectors have the longitude and the latitude of each place. */
const sampleTable = 'capitals';

const options = {
  sample: withDefault(boolean, {
    flag: 'sample',
    default: 'false',
    doc: `Make the table ${sampleTable} of 50 rows with vectors, unless it is there.`,
  }),
};

export const devCommand = (startService: StartService): Command =>
  commandOf(
    {
      name: 'dev',
      summary:
        'Runs the service to try it out: on a terminal it makes an API key, and prints it with commands to paste. Takes all flags of serve.',
      options,
      takesAllSettings: true,
    },
    async ({ options: { sample }, reading }, context) => {
      const config = reading.values;
      const isShown = context.stdout.isTTY === true;
      await serveUntilStopped(reading, startService, isShown ? endingWithTerminal(context) : context, async (url) => {
        if (!isShown && !sample) return;
        const key = await makeKey(config, isShown ? 7 * dayMs : 60_000, context);
        if (sample) await loadSample(url + config.basePath, key, context);
        if (isShown) await write(context.stdout, firstSteps(config, url, key, context));
      });
    },
  );

/** The signal that makes a daemon read its files again says on a terminal that the window was closed. */
function endingWithTerminal(context: CliContext): CliContext {
  const onStopSignal = (listener: () => void): void => {
    context.onStopSignal(listener);
    context.onReloadSignal(listener);
  };
  return { ...context, onStopSignal, onReloadSignal: () => {} };
}

async function makeKey(config: Config, validMs: number, { clock, openCredentials }: CliContext): Promise<string> {
  await using credentials = await openCredentials(config);
  const expiresAtMs = clock.nowMs() + validMs;
  const request = { subject: 'dev', scopes: ['lancegate:admin'], expiresAtMs };
  const { key } = await new ApiKeyStore(credentials.apiKeys, clock).create(request);
  return key;
}

async function loadSample(url: string, key: string, context: CliContext): Promise<void> {
  const content = { type: 'application/x-ndjson', bytes: Uint8Array.from(context.readFile(samplePath(context))) };
  await new ServiceClient(url, async () => key).ask(`${tableRoute(sampleTable, 'create')}?mode=exist_ok`, { content });
}

const samplePath = ({ packageFolder }: Pick<CliContext, 'packageFolder'>): string =>
  join(packageFolder, 'samples/capitals.ndjson');

/** The sample does not have this row. */
const newRow = { state: 'Puerto Rico', city: 'San Juan', position: [-66.1057, 18.4655] };
const near = [-77, 39];

function firstSteps({ basePath, dataFolder }: Config, url: string, key: string, context: CliContext): string {
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

/** A POSIX shell takes it for one word. */
const quote = (word: string): string => (/^[\w./:@=-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);
