/**
 * `lancegate load` puts files of rows into a table. A file is sent in parts, each in a request with a key made of the table, the rows of
 * the part and all before it. So the same command, run again after any break, goes on where it stopped: what the service has taken it
 * does not take twice.
 */
import { existsSync, globSync } from 'node:fs';
import { resolve } from 'node:path';
import { typeName } from '../../arrow/schema/schema.ts';
import { type OptionValues, optional, withDefault } from '../../config/options.ts';
import { boolean, cellDelimiter, listOf, oneOf, path, text } from '../../config/value-types.ts';
import { isSome, type Some } from '../../kernel/some.ts';
import { inputFormats } from '../../load/input-file.ts';
import { messagesOfFile } from '../../load/messages-of-file.ts';
import { schemaOfMessage } from '../../load/row-messages.ts';
import { type RuleTexts, schemaModes } from '../../table/standing-rules.ts';
import { typeAssignment } from '../arrow.ts';
import { type CliContext, CliError, UsageError, write } from '../command.ts';
import { commandOf } from '../command-line.ts';
import { inputOf, Load, type LoadMode } from './load-run.ts';
import { formOf, formOptions, printRows } from './printed-rows.ts';
import { serviceClient, serviceOptions, serviceSettings } from './service-client.ts';

const options = {
  on: optional(listOf(text), {
    flag: 'on',
    doc: 'Upsert: a row whose values in these columns are in the table replaces that row, others are added.',
  }),
  onDuplicate: optional(oneOf(['refuse', 'last']), {
    flag: 'on-duplicate',
    doc: 'With --on: of the rows with one key the last one stays, also where one part of a file has it twice, which ends the load otherwise.',
  }),
  versionColumn: optional(text, {
    flag: 'version-column',
    doc: 'With --on: of the rows with one key, in the files and the table, the one with the greatest value in this column stays.',
  }),
  tombstone: optional(text, {
    flag: 'tombstone',
    doc: 'With --on: a row with true in this column, or with any value if it is no Boolean, deletes the row of its key. With --version-column older rows of the key stay away for 7 days.',
  }),
  schema: optional(oneOf(schemaModes), {
    flag: 'schema',
    doc: 'With --on or --append: extend gives the table the columns of the files that it lacks, and types with room for their values.',
  }),
  append: withDefault(boolean, { flag: 'append', default: 'false', doc: 'Add all rows, whatever is in the table.' }),
  replace: withDefault(boolean, {
    flag: 'replace',
    default: 'false',
    doc: 'Put the rows in place of all that are in the table, at once when the last one is there. Readers see either the old ones or the new ones.',
  }),
  types: optional(listOf(typeAssignment), {
    flag: 'types',
    doc: 'Types of columns of a table that is new, or replaced. Otherwise docs/rows.md says how they follow from the values.',
  }),
  format: optional(oneOf(inputFormats), {
    flag: 'format',
    doc: 'What the files are. Without it, how each begins decides, and then its name.',
  }),
  delimiter: optional(cellDelimiter, {
    flag: 'delimiter',
    doc: 'What separates the cells of CSV, such as `;`. A comma without it, and a tab in files whose names end in .tsv.',
  }),
  dryRun: withDefault(boolean, {
    flag: 'dry-run',
    default: 'false',
    doc: 'Load nothing: print the columns that a new table would have, by the first 10,000 rows.',
  }),
  refused: optional(path, {
    flag: 'refused',
    doc: 'File for rows of text that cannot be read or do not fit, a line with the reason and the place for each: the others are loaded. Without it, the first one ends the load.',
  }),
  run: optional(text, {
    flag: 'run',
    doc: 'Any word. The same files are loaded once for each: to append them once more on purpose, give another one.',
  }),
  ...formOptions,
  ...serviceOptions,
};

type GivenToLoad = OptionValues<typeof options>;

export const loadCommand = commandOf(
  {
    name: 'load',
    positionals: ['TABLE', 'FILE…'],
    summary:
      'Loads files of CSV, JSON, newline-delimited JSON, Arrow or Parquet, the text also packed by gzip or zstd, into a table, which it makes where there is none. FILE may be `-` or a pattern. Run again after a break, it goes on where it stopped.',
    options,
    settings: serviceSettings,
  },
  async ({ options: given, reading, positionals: [table, ...patterns] }, context) => {
    const files = patterns.flatMap((pattern) => filesOf(pattern, context.cwd));
    if (!isSome(files)) throw new UsageError(['FILE… is missing']);
    if (given.dryRun) return printColumns(files[0], given, context);
    const mode = modeOf(given);
    const service = serviceClient(given, reading.values, context);
    const { types, run: label, refused: refusedFile } = given;
    requireRerun(mode, files, given);
    const how = { mode, said: given, types, label, refusedFile };
    const row = await new Load({ table, files, ...how, service, context }).run();
    await printRows([row], Object.keys(row), formOf(given, context), context.stdout);
    const { parts, partsThereBefore: before } = row;
    if (before > 0)
      await write(context.stderr, `${before} of ${parts} parts were loaded before; --run WORD loads them once more\n`);
  },
);

function modeOf({ on, onDuplicate, versionColumn, tombstone, schema, append, replace }: GivenToLoad): LoadMode {
  const rules: RuleTexts = {
    ...(onDuplicate !== undefined && { on_duplicate: onDuplicate }),
    ...(versionColumn !== undefined && { version_column: versionColumn }),
    ...(tombstone !== undefined && { tombstone }),
  };
  if (on === undefined && Object.keys(rules).length > 0)
    throw new UsageError([
      '--on-duplicate, --version-column and --tombstone need --on COLUMN: without a key no row replaces another',
    ]);
  const extended: RuleTexts = schema === undefined ? {} : { schema };
  const modes: readonly (LoadMode | false | undefined)[] = [
    on && { kind: 'upsert', on, rules: { ...rules, ...extended } },
    append && { kind: 'append', on: [], rules: extended },
    replace && { kind: 'replace' },
  ];
  const [mode, ...others] = modes.filter((each) => each !== false && each !== undefined);
  if (mode !== undefined && others.length === 0) return mode;
  throw new UsageError([
    'one of --on COLUMN, --append and --replace says what becomes of the rows that are in the table',
  ]);
}

/** A table that gets columns must not change what the same command sends when it is run again. */
function requireRerun({ kind }: LoadMode, files: Some<string>, { schema, format }: GivenToLoad): void {
  if (schema === undefined) return;
  if (kind === 'replace')
    throw new UsageError(['--schema needs --on or --append: with --replace the table gets the columns of the files']);
  if (schema !== 'extend') return;
  if (format === 'csv-without-header')
    throw new UsageError(['--schema extend needs files with names of columns, which csv-without-header has not']);
  if (kind === 'append' && files.length > 1)
    throw new UsageError([
      '--append with --schema extend takes one file: after a break, what a later one added would change how the others are read, and their rows would be added twice',
    ]);
}

/** A shell leaves patterns that it did not expand as they are. */
function filesOf(pattern: string, cwd: string): readonly string[] {
  if (pattern === '-' || existsSync(resolve(cwd, pattern))) return [pattern];
  const found = globSync(pattern, { cwd }).toSorted();
  if (found.length === 0) throw new CliError(`there is no file ${pattern}`);
  return found;
}

async function printColumns(file: string, given: GivenToLoad, context: CliContext): Promise<void> {
  await using input = await inputOf(file, given, context);
  for await (const { bytes } of messagesOfFile(input, { types: given.types })) {
    const { fields } = schemaOfMessage(bytes);
    const rows = fields.map((field) => ({ column: field.name, type: typeName(field), nullable: field.nullable }));
    await printRows(rows, ['column', 'type', 'nullable'], formOf(given, context), context.stdout);
    return;
  }
}
