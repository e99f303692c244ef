/**
 * `lancegate arrow`: JSON rows, or an Arrow file, as the Arrow IPC stream that the service takes. For trying things out
 * and for small loads: it holds its input in memory.
 */
import { resolve } from 'node:path';
import { RecordBatchStreamWriter } from 'apache-arrow';
import { optional } from '../config/options.ts';
import { listOf, type ValueType } from '../config/value-types.ts';
import { type CliContext, CliError, type Command, UsageError, write } from './command.ts';
import { readCommandLine } from './command-line.ts';
import { isArrow, readArrow } from './rows/arrow-input.ts';
import { type ColumnType, inferType, parseColumnType } from './rows/column-type.ts';
import { type EncodedRows, encodeColumns } from './rows/encode.ts';
import { type Columns, readJson } from './rows/json.ts';

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
  types: optional(listOf(typeAssignment), {
    flag: 'types',
    doc: 'Types of columns of JSON rows. Otherwise whole numbers are int64, other numbers float64, and a column without values utf8.',
  }),
};

export const arrowCommand: Command = {
  name: 'arrow',
  usage: 'arrow FILE [--types COLUMN=TYPE,…]',
  summary: 'Converts JSON, newline-delimited JSON or an Arrow file into an Arrow IPC stream. FILE may be `-`.',
  options: Object.values(options),

  async run(args, context) {
    const line = readCommandLine({ options, settingNames: [], positionals: ['FILE'] }, args, context);
    const input = await readInput(line.positionals[0]!, context);
    const rows = readRows(input, line.options.types);
    for await (const chunk of arrowStream(rows)) await write(context.stdout, chunk);
  },
};

/** Of no batches, a stream is its schema alone. */
export function arrowStream({ schema, batches }: EncodedRows): AsyncIterable<Uint8Array> {
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

export function readRows(input: Buffer, types: readonly (readonly [string, ColumnType])[] | undefined): EncodedRows {
  if (!isArrow(input)) return encodeJson(readJson(input.toString('utf8')), new Map(types));
  if (types) throw new UsageError(['--types does not apply to Arrow data, which has its own']);
  return readArrow(input);
}

function encodeJson(columns: Columns, types: ReadonlyMap<string, ColumnType>): EncodedRows {
  if (columns.size === 0) throw new CliError('there are no rows to see columns in');
  const missing = [...types.keys()].find((name) => !columns.has(name));
  if (missing !== undefined) {
    const known = [...columns.keys()].join(', ');
    throw new CliError(`there is no column ${JSON.stringify(missing)}; the columns are ${known}`);
  }
  return encodeColumns(
    [...columns].map(([name, values]) => ({ name, values, type: types.get(name) ?? inferType(name, values) })),
  );
}
