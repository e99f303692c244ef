/** `lancegate arrow`: rows as text, or an Arrow file, as an Arrow IPC stream. It holds its input in memory. */
import { resolve } from 'node:path';
import { RecordBatchStreamWriter } from 'apache-arrow';
import type { Field } from '../arrow/schema/schema.ts';
import { optional } from '../config/options.ts';
import { listOf, type ValueType } from '../config/value-types.ts';
import { LancegateError } from '../kernel/errors.ts';
import { formatOf } from '../load/input-file.ts';
import type { RowFormat } from '../rows/answer-form.ts';
import { columnOfType, columnTypeNames } from '../rows/bodies/column-type.ts';
import { RowConversion } from '../rows/bodies/row-conversion.ts';
import { readArrow } from './arrow-input.ts';
import { type CliContext, CliError, type Command, UsageError, write } from './command.ts';
import { readCommandLine } from './command-line.ts';

export const typeAssignment: ValueType<Field> = {
  placeholder: 'COLUMN=TYPE',
  expects: `COLUMN=TYPE with a type of ${columnTypeNames.join(', ')}`,
  arity: 'one',
  secret: false,
  parse(raw) {
    const split = raw.lastIndexOf('=');
    return split > 0 ? columnOfType(raw.slice(0, split), raw.slice(split + 1)) : undefined;
  },
  show: ({ name, type }) => `${name}=${type.kind}`,
};

const options = {
  types: optional(listOf(typeAssignment), {
    flag: 'types',
    doc: 'Types of columns of rows that are text. Otherwise docs/rows.md says how they follow from the values.',
  }),
};

export const arrowCommand: Command = {
  name: 'arrow',
  positionals: 'FILE',
  summary: 'Converts JSON, newline-delimited JSON, CSV or an Arrow file into an Arrow IPC stream. FILE may be `-`.',
  options: Object.values(options),

  async run(args, context) {
    const line = readCommandLine({ options, settingNames: [], positionals: ['FILE'] }, args, context);
    const file = line.positionals[0]!;
    const input = await readInput(file, context);
    for await (const bytes of arrowOf(input, file, line.options.types)) await write(context.stdout, bytes);
  },
};

async function readInput(file: string, context: CliContext): Promise<Buffer> {
  if (file === '-') return Buffer.concat(await Array.fromAsync(context.stdin));
  try {
    return context.readFile(resolve(context.cwd, file));
  } catch (error) {
    throw new CliError(`cannot read ${file}: ${error instanceof Error ? error.message : error}`, { cause: error });
  }
}

function arrowOf(input: Buffer, file: string, types: readonly Field[] | undefined): AsyncIterable<Uint8Array> {
  const format = formatOf(input, file);
  if (format === 'parquet') throw new CliError(`${file} is a Parquet file, which this command does not read`);
  if (format !== 'arrow') return converted(input, format, types ?? []);
  if (types) throw new UsageError(['--types does not apply to Arrow data, which has its own']);
  const { schema, batches } = readArrow(input);
  const writer = new RecordBatchStreamWriter();
  writer.reset(undefined, schema);
  for (const batch of batches) writer.write(batch);
  return writer.finish();
}

/** Nothing is written before all rows are known to be right. */
async function* converted(input: Buffer, format: RowFormat, types: readonly Field[]): AsyncGenerator<Uint8Array> {
  const conversion = new RowConversion({ format, given: new Map(types.map((field) => [field.name, field])) });
  try {
    const parts = [...(await Array.fromAsync(conversion.add(input))), ...(await Array.fromAsync(conversion.end()))];
    yield* parts;
  } catch (error) {
    throw error instanceof LancegateError ? new CliError(error.message, { cause: error }) : error;
  }
}
