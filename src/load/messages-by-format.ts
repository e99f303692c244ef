/** Reads rows of a file by what the file is. */
import type { Field, Schema } from '../arrow/schema/schema.ts';
import { invalidInput } from '../kernel/errors.ts';
import { RowConversion } from '../rows/bodies/row-conversion.ts';
import type { LeftOut } from '../rows/bodies/row-source.ts';
import { messagesOfArrow } from './arrow-file.ts';
import { fittedTo } from './fitting-columns.ts';
import type { InputFile } from './input-file.ts';
import { messagesOfParquet } from './parquet-file.ts';
import { messagesOfText, type RowMessage } from './row-messages.ts';

export interface KnownColumns {
  /** The table that the rows are for has it. */
  readonly table?: Schema | undefined;
  /** What the table lacks comes as the file has it. */
  readonly isExtending?: boolean;
  /** A new table gets these; the other types follow from the values. */
  readonly types?: readonly Field[] | undefined;
  /** Takes why each row of a text was left out, where rows that cannot be read do not end the load. */
  readonly leftOut?: string[] | undefined;
}

export async function* messagesByFormat(
  input: InputFile,
  { table, isExtending = false, types = [], leftOut }: KnownColumns,
): AsyncGenerator<RowMessage> {
  const { path, format, delimiter } = input;
  if (types.length > 0 && (format === 'arrow' || format === 'parquet'))
    throw invalidInput('--types applies to text, and this file has types of its own');
  switch (format) {
    case 'parquet':
      if (path === undefined) throw invalidInput('Parquet has its footer at the end: a file is needed, not a pipe');
      yield* fittedTo(table, messagesOfParquet(path), isExtending);
      return;
    case 'arrow':
      yield* fittedTo(table, messagesOfArrow(input), isExtending);
      return;
    case 'csv':
    case 'csv-without-header':
    case 'json':
    case 'ndjson': {
      const given = new Map(types.map((field) => [field.name, field]));
      // The rows of a table that the command has just made are read as they were when their columns were inferred.
      const conversion = new RowConversion({
        format,
        delimiter,
        table,
        isExtending,
        given,
        leftOut: listedIn(leftOut),
        takesAny: true,
      });
      yield* messagesOfText(input.pieces(), conversion);
    }
  }
}

/** A file of nothing but faults ends here, if the list is not emptied before. */
const mostLeftOut = 100_000;

const listedIn = (list: string[] | undefined): LeftOut =>
  list &&
  ((reason) => {
    if (list.length >= mostLeftOut) throw invalidInput(`${reason}; so are ${mostLeftOut} rows before it`);
    list.push(reason);
  });
