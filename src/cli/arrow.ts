/**
 * `lancegate arrow`: rows as people have them, as the Arrow IPC stream that the service takes. For trying things out
 * and for small loads: it holds its input in memory.
 */
import { resolve } from 'node:path';
import { RecordBatchStreamWriter } from 'apache-arrow';
import { optionalOption, type Values } from '../config/options.ts';
import { integer, listOf, oneOf, text, type ValueType } from '../config/value-types.ts';
import { CliError, UsageError } from './cli-error.ts';
import type { Command } from './command.ts';
import { readCommandLine } from './command-line.ts';
import { type CliContext, write } from './context.ts';
import { isArrow, limitRows, readArrow, selectColumns } from './rows/arrow-input.ts';
import { type ColumnType, parseColumnType } from './rows/column-type.ts';
import { readCsv } from './rows/csv.ts';
import { type EncodedRows, encodeColumns, type RowSource } from './rows/encode.ts';
import { readJson } from './rows/json.ts';

const typeAssignment: ValueType<readonly [string, ColumnType]> = {
  placeholder: 'COLUMN=TYPE',
  expects: 'COLUMN=TYPE with a type of bool, int32, int64, float32, float64, utf8 or float32[LENGTH]',
  arity: 'one',
  secret: false,
  parse(raw) {
    const split = raw.lastIndexOf('=');
    const type = split > 0 ? parseColumnType(raw.slice(split + 1)) : undefined;
    return type && [raw.slice(0, split), type];
  },
  show: ([column, type]) => `${column}=${type.kind}`,
};

const options = {
  format: optionalOption(oneOf(['json', 'csv', 'arrow']), {
    flag: 'format',
    doc: 'What FILE holds: json (an array of objects, or one object a line), csv with a header, or arrow. Seen from the data where it is not given.',
  }),
  columns: optionalOption(listOf(text), { flag: 'columns', doc: 'Only these columns, in this order.' }),
  limit: optionalOption(integer(0, Number.MAX_SAFE_INTEGER), { flag: 'limit', doc: 'Only so many rows.' }),
  types: optionalOption(listOf(typeAssignment), {
    flag: 'types',
    doc: 'Types of columns. Otherwise whole numbers are int64, other numbers float64, and a column without values utf8.',
  }),
};

export const arrowCommand: Command = {
  name: 'arrow',
  usage: 'arrow FILE [flags]',
  summary: 'Converts JSON, newline-delimited JSON, CSV or an Arrow file into an Arrow IPC stream. FILE may be `-`.',
  options: Object.values(options),

  async run(args, context) {
    const line = readCommandLine({ options, settingNames: [], positionals: ['FILE'] }, args, context);
    const input = await readInput(line.positionals[0]!, context);
    const rows = readRows(input, line.options);
    for await (const chunk of encodeStream(rows)) await write(context.stdout, chunk);
  },
};

/** Of no batches, a stream is its schema alone. */
function encodeStream({ schema, batches }: EncodedRows): AsyncIterable<Uint8Array> {
  const writer = new RecordBatchStreamWriter();
  writer.reset(undefined, schema);
  for (const batch of batches) writer.write(batch);
  return writer.finish();
}

async function readInput(file: string, context: CliContext): Promise<Buffer> {
  if (file === '-') return Buffer.concat(await Array.fromAsync(context.stdin));
  try {
    return context.readFile(resolve(context.cwd, file));
  } catch (error) {
    throw new CliError(`cannot read ${file}: ${error instanceof Error ? error.message : error}`, { cause: error });
  }
}

function readRows(input: Buffer, given: Values<typeof options>): EncodedRows {
  const rows = readAllRows(input, given);
  return given.limit === undefined ? rows : limitRows(rows, given.limit);
}

function readAllRows(input: Buffer, given: Values<typeof options>): EncodedRows {
  switch (given.format ?? detectFormat(input)) {
    case 'arrow':
      return readOwnTypes(input, given);
    case 'csv':
      return inferTypes(readCsv(input.toString('utf8')), given);
    case 'json':
      return inferTypes(readJson(input.toString('utf8')), given);
  }
}

function readOwnTypes(input: Buffer, { columns, types }: Values<typeof options>): EncodedRows {
  if (types) throw new UsageError(['--types does not apply to Arrow data, which has its own']);
  const rows = readArrow(input);
  if (columns === undefined) return rows;
  requireColumns(
    columns,
    rows.schema.fields.map((field) => field.name),
  );
  return selectColumns(rows, columns);
}

function inferTypes(source: RowSource, given: Values<typeof options>): EncodedRows {
  if (source.names.length === 0) throw new CliError('there are no rows to see columns in');
  const types = new Map(given.types);
  const columns = given.columns ?? source.names;
  requireColumns([...columns, ...types.keys()], source.names);
  return encodeColumns(columns.map((name) => source.column(name, types.get(name))));
}

function requireColumns(wanted: readonly string[], known: readonly string[]): void {
  const missing = wanted.find((name) => !known.includes(name));
  if (missing === undefined) return;
  throw new CliError(`there is no column ${JSON.stringify(missing)}; the columns are ${known.join(', ')}`);
}

function detectFormat(input: Buffer): 'json' | 'csv' | 'arrow' {
  if (isArrow(input)) return 'arrow';
  return /^\s*[[{]/.test(input.toString('utf8', 0, 1024)) ? 'json' : 'csv';
}
