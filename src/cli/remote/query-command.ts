/** `lancegate query` prints rows of a table, and asks by the service's own words for them. */
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import { type OptionValues, optional } from '../../config/options.ts';
import { integer, listOf, oneOf, text, type ValueType } from '../../config/value-types.ts';
import { type CliContext, write } from '../command.ts';
import { commandOf } from '../command-line.ts';
import { type Form, formOf, formOptions, type PrintedRow, tableLines } from './printed-rows.ts';
import { serviceClient, serviceOptions, serviceSettings } from './service-client.ts';
import { tableRoute } from './table-commands.ts';

const vector: ValueType<readonly number[]> = {
  placeholder: 'N,…',
  expects: 'numbers with commas between them',
  arity: 'one',
  secret: false,
  parse(raw) {
    const numbers = raw
      .replace(/^\[(.*)\]$/s, '$1')
      .split(',')
      .map((word) => (word.trim() === '' ? Number.NaN : Number(word)));
    return numbers.every(Number.isFinite) ? numbers : undefined;
  },
  show: (numbers) => numbers.join(','),
};

const order: ValueType<{ readonly column_name: string; readonly ascending: boolean }> = {
  placeholder: 'COLUMN[:desc]',
  expects: 'a column, perhaps with :asc or :desc behind it',
  arity: 'one',
  secret: false,
  parse(raw) {
    const [, column, direction] = /^(.+?)(?:(?::| +)(asc|desc))?$/is.exec(raw) ?? [];
    return column === undefined ? undefined : { column_name: column, ascending: direction?.toLowerCase() !== 'desc' };
  },
  show: ({ column_name, ascending }) => `${column_name}:${ascending ? 'asc' : 'desc'}`,
};

const queryOptions = {
  where: optional(text, { flag: 'where', doc: 'SQL that is true of the rows, such as "age >= 18".' }),
  columns: optional(listOf(text), { flag: 'columns', doc: 'Without it, all.' }),
  vector: optional(vector, { flag: 'vector', doc: 'Nearest to this one first.' }),
  text: optional(text, { flag: 'text', doc: 'Rows that hold these words, the best first; needs a full-text index.' }),
  limit: optional(integer(1, 2 ** 32 - 1), {
    flag: 'limit',
    doc: 'At most so many rows. Without it, 20 on a terminal, 10 of a search, and all in a pipe.',
  }),
  offset: optional(integer(0, 2 ** 32 - 1), { flag: 'offset', doc: 'Without so many rows at the beginning.' }),
  orderBy: optional(listOf(order), { flag: 'order-by', doc: 'In this order.' }),
  version: optional(integer(1, Number.MAX_SAFE_INTEGER), { flag: 'version', doc: 'As it was at this version.' }),
  vectors: optional(oneOf(['omit', 'preview', 'full']), {
    flag: 'vectors',
    doc: 'Long vectors whole, as their first numbers, or not at all. Without it, a preview on a terminal, else whole.',
  }),
  ...formOptions,
};

const accepted: Readonly<Record<Form, string>> = {
  table: 'application/x-ndjson',
  ndjson: 'application/x-ndjson',
  json: 'application/json',
  csv: 'text/csv',
};

export const queryCommand = commandOf(
  {
    name: 'query',
    positionals: ['TABLE'],
    summary: 'Prints rows of a table, or searches it.',
    options: { ...queryOptions, ...serviceOptions },
    settings: serviceSettings,
  },
  async ({ options: given, reading, positionals: [table] }, context) => {
    const form = formOf(given, context);
    const service = serviceClient(given, reading.values, context);
    const vectors = given.vectors ?? (form === 'table' ? 'preview' : 'full');
    const route = `${tableRoute(table, 'query')}?vectors=${vectors}`;
    const answer = await service.ask(route, { body: bodyOf(given, form), accept: accepted[form] });
    if (answer.body === null) return;
    if (form === 'table') return printTable(Readable.fromWeb(answer.body), given.limit, context);
    for await (const bytes of answer.body) await write(context.stdout, bytes);
  },
);

const rowsOnTerminal = 20;

function bodyOf(given: OptionValues<typeof queryOptions>, form: Form): object {
  const isSearch = given.vector !== undefined || given.text !== undefined;
  return {
    filter: given.where,
    columns: given.columns,
    vector: given.vector,
    full_text_query: given.text === undefined ? undefined : { string_query: { query: given.text } },
    k: given.limit ?? (form === 'table' && !isSearch ? rowsOnTerminal : undefined),
    offset: given.offset,
    order_by: given.orderBy,
    version: given.version,
  };
}

async function printTable(
  bytes: Readable,
  limit: number | undefined,
  { stdout, stderr }: Pick<CliContext, 'stdout' | 'stderr'>,
): Promise<void> {
  let rows: PrintedRow[] = [];
  const print = async () => {
    const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
    await write(stdout, rows.length === 0 ? 'no rows\n' : tableLines(rows, columns, stdout.columns ?? 100));
  };
  let isPrinted = false;
  for await (const line of createInterface({ input: bytes, crlfDelay: Number.POSITIVE_INFINITY })) {
    rows.push(JSON.parse(line) as PrintedRow);
    // So many rows decide how wide the columns are.
    if (rows.length < 1_000) continue;
    await print();
    isPrinted = true;
    rows = [];
  }
  if (rows.length > 0 || !isPrinted) await print();
  if (limit === undefined && rows.length === rowsOnTerminal)
    await write(stderr, 'there may be more: --limit says how many\n');
}
