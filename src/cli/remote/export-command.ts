/** `lancegate export` writes a table, as it is at one version, into a file that is there once it is whole. */
import { createWriteStream } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { basename, dirname, extname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { optional } from '../../config/options.ts';
import { integer, listOf, text } from '../../config/value-types.ts';
import { parquetOf } from '../../load/parquet-out.ts';
import { Progress } from '../../load/progress.ts';
import { type CliContext, CliError, fileFault, UsageError, write } from '../command.ts';
import { commandOf } from '../command-line.ts';
import { serviceClient, serviceOptions, serviceSettings } from './service-client.ts';
import { tableRoute } from './table-commands.ts';

const options = {
  where: optional(text, { flag: 'where', doc: 'SQL that is true of the rows. Without it, all.' }),
  columns: optional(listOf(text), { flag: 'columns', doc: 'Without it, all.' }),
  version: optional(integer(1, Number.MAX_SAFE_INTEGER), {
    flag: 'version',
    doc: 'As it was at this version. Without it, the newest.',
  }),
  ...serviceOptions,
};

const textTypes: Readonly<Record<string, string>> = {
  '.csv': 'text/csv',
  '.json': 'application/x-ndjson',
  '.ndjson': 'application/x-ndjson',
  '.jsonl': 'application/x-ndjson',
};
const types: Readonly<Record<string, string>> = {
  ...textTypes,
  '.arrow': 'application/vnd.apache.arrow.file',
  '.arrows': 'application/vnd.apache.arrow.stream',
  '.parquet': 'application/vnd.apache.arrow.stream',
};

export const exportCommand = commandOf(
  {
    name: 'export',
    positionals: ['TABLE', 'FILE'],
    summary: `Writes a table to a file, in the format of its name (${Object.keys(types).join(', ')}), text gzipped with .gz behind it. FILE may be \`-\`, which is NDJSON.`,
    options,
    settings: serviceSettings,
  },
  async ({ options: given, reading, positionals: [table, file] }, context) => {
    const accept = typeOf(file);
    const service = serviceClient(given, reading.values, context);
    const { version } =
      given.version === undefined
        ? await service.json<{ readonly version: number }>(tableRoute(table, 'describe'), { body: {} })
        : { version: given.version };
    const body = { version, filter: given.where, columns: given.columns };
    const answer = await service.ask(tableRoute(table, 'query'), { body, accept });
    if (answer.body === null) throw new CliError('the service answered without rows');
    if (file === '-') {
      for await (const bytes of answer.body) await write(context.stdout, bytes);
      return;
    }
    await keep(inFormat(file, Readable.fromWeb(answer.body)), file, context);
    await write(context.stdout, `${file} has ${table} as it is at version ${version}\n`);
  },
);

function typeOf(file: string): string {
  if (file === '-') return 'application/x-ndjson';
  const named = file.replace(/\.gz$/i, '');
  const type = (named === file ? types : textTypes)[extname(named).toLowerCase()];
  if (type !== undefined) return type;
  throw new UsageError([`the name of FILE ends in ${Object.keys(types).join(', ')}, text perhaps with .gz behind it`]);
}

/** Makes the forms that the service does not answer in. */
function inFormat(file: string, bytes: Readable): Readable {
  if (/\.json(\.gz)?$/i.test(file)) return Readable.from(arrayOf(bytes));
  return /\.parquet$/i.test(file) ? Readable.from(parquetOf(bytes)) : bytes;
}

/** Makes one array of lines of objects. */
async function* arrayOf(lines: Readable): AsyncGenerator<string> {
  let before = '[\n';
  for await (const line of createInterface({ input: lines, crlfDelay: Number.POSITIVE_INFINITY })) {
    yield `${before}${line}`;
    before = ',\n';
  }
  yield before === ',\n' ? '\n]\n' : '[]\n';
}

/** It is written beside its place until it is whole: a file that is there already stays as it is when something breaks. */
async function keep(bytes: Readable, file: string, { cwd, stderr, clock }: CliContext): Promise<void> {
  const path = resolve(cwd, file);
  const beside = join(dirname(path), `.${basename(path)}.${process.pid}`);
  const progress = new Progress(stderr, clock, undefined);
  let read = 0;
  bytes.on('data', (piece: Uint8Array | string) => {
    read += piece.length;
    progress.show({ bytes: read, rows: undefined });
  });
  try {
    const packed = /\.gz$/i.test(path) ? [createGzip()] : [];
    await pipeline([bytes, ...packed, createWriteStream(beside)]);
    await rename(beside, path);
  } catch (error) {
    await rm(beside, { force: true });
    throw fileFault(`${file} is not written`, error);
  } finally {
    progress.end();
  }
}
