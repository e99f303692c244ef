/**
 * `lancegate arrow` writes the rows of a file as an Arrow IPC stream. It holds them, so nothing is written before all are known to be
 * right.
 */
import type { Field } from '../arrow/schema/schema.ts';
import { optional } from '../config/options.ts';
import { listOf, type ValueType } from '../config/value-types.ts';
import { messagesOfFile } from '../load/messages-of-file.ts';
import { streamOf } from '../load/row-messages.ts';
import { columnOfType, columnTypeNames } from '../rows/bodies/column-type.ts';
import { write } from './command.ts';
import { commandOf } from './command-line.ts';
import { inputOf } from './remote/load-run.ts';

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

export const arrowCommand = commandOf(
  {
    name: 'arrow',
    positionals: ['FILE'],
    summary:
      'Converts a file of JSON, newline-delimited JSON, CSV, Arrow or Parquet into an Arrow IPC stream. FILE may be `-`.',
    options,
  },
  async ({ options: { types }, positionals: [file] }, context) => {
    await using input = await inputOf(file, { format: undefined }, context);
    const messages: Uint8Array[] = [];
    for await (const { bytes } of messagesOfFile(input, { types })) messages.push(Buffer.from(bytes));
    await write(context.stdout, streamOf(messages));
  },
);
