/** `status`, `tables`, `show` and `versions` print what a service has; `restore` and `maintain` change how it has a table. */
import { required } from '../../config/options.ts';
import { text } from '../../config/value-types.ts';
import { type CliContext, CliError, type Command, write } from '../command.ts';
import { type CommandLine, commandOf } from '../command-line.ts';
import { type Form, formOf, formOptions, type PrintedRow, printRows, tableLines } from './printed-rows.ts';
import { type ServiceClient, serviceClient, serviceOptions, serviceSettings } from './service-client.ts';

/** `name` is one segment of the path, whatever it holds. */
export const tableRoute = (name: string, operation: string): string =>
  `/v1/table/${encodeURIComponent(name)}/${operation}`;

interface Call<Names extends readonly string[]> extends Pick<CommandLine<object, Names>, 'positionals'> {
  readonly service: ServiceClient;
  readonly form: Form;
  readonly context: CliContext;
}

/** A command without flags of its own. */
const listCommand = <const Names extends readonly string[] = readonly []>(
  words: Pick<Command, 'name' | 'summary'> & { readonly positionals?: Names },
  answer: (call: Call<Names>) => Promise<void>,
): Command =>
  commandOf(
    { ...words, options: { ...formOptions, ...serviceOptions }, settings: serviceSettings },
    ({ options, reading, positionals }, context) => {
      const form = formOf(options, context);
      return answer({ service: serviceClient(options, reading.values, context), form, context, positionals });
    },
  );

export const statusCommand = listCommand(
  { name: 'status', summary: 'Prints where the service is, which version runs, and whether it is ready.' },
  async ({ service, form, context }) => {
    const { version } = await service.json<{ readonly version: string }>('/healthz', { method: 'GET', isAtRoot: true });
    const { status } = await service
      .json<{ readonly status: string }>('/readyz', { method: 'GET', isAtRoot: true })
      .catch((error: unknown) => ({ status: error instanceof CliError ? error.message : String(error) }));
    const tables = (await allTables(service, undefined)).length;
    await printRows(
      [{ url: service.url, version, status, tables }],
      ['url', 'version', 'status', 'tables'],
      form,
      context.stdout,
    );
  },
);

export const tablesCommand = listCommand(
  {
    name: 'tables',
    positionals: ['[NAMESPACE]'],
    summary: 'Lists the tables of a namespace, or all, with their rows and bytes.',
  },
  async ({ service, form, context, positionals: [namespace] }) => {
    const rows: PrintedRow[] = [];
    for (const table of await allTables(service, namespace)) rows.push({ table, ...(await sizeOf(service, table)) });
    await printRows(rows, ['table', 'rows', 'bytes', 'indexes'], form, context.stdout);
  },
);

async function allTables(service: ServiceClient, namespace: string | undefined): Promise<readonly string[]> {
  const route = namespace === undefined ? '/v1/table' : `/v1/namespace/${encodeURIComponent(namespace)}/table/list`;
  const tables: string[] = [];
  let page: { readonly tables: readonly string[]; readonly page_token?: string | undefined };
  let token = '';
  do {
    page = await service.json(`${route}?limit=1000${token}`, { method: 'GET' });
    tables.push(...page.tables);
    token = `&page_token=${encodeURIComponent(page.page_token ?? '')}`;
  } while (page.page_token);
  return namespace === undefined ? tables : tables.map((name) => `${namespace}$${name}`);
}

interface Stats {
  readonly num_rows: number;
  readonly total_bytes: number;
  readonly num_indices: number;
  readonly fragment_stats: { readonly num_fragments: number };
}

/** Of a table that is declared, dropped meanwhile or damaged, why there is none. */
async function sizeOf(service: ServiceClient, table: string): Promise<PrintedRow> {
  try {
    const stats = await service.json<Stats>(tableRoute(table, 'stats'));
    return { rows: stats.num_rows, bytes: stats.total_bytes, indexes: stats.num_indices };
  } catch (error) {
    if (!(error instanceof CliError)) throw error;
    return { rows: null, bytes: null, indexes: null, error: error.message };
  }
}

interface Column {
  readonly name: string;
  readonly type: string;
}

export const showCommand = listCommand(
  {
    name: 'show',
    positionals: ['TABLE'],
    summary: 'Prints what a table is: columns, rows, sizes, indexes, tags and branches.',
  },
  async ({ service, form, context, positionals: [table] }) => {
    const ask = <Answer>(operation: string, body: object = {}) =>
      service.json<Answer>(tableRoute(table, operation), { body });
    const described = await ask<{ readonly version: number; readonly location: string; readonly schema: Described }>(
      'describe',
    );
    const { columns: types } = await ask<{ readonly columns: readonly Column[] }>('query', { filter: '1 = 0', k: 1 });
    const nullable = new Map(described.schema.fields.map(({ name, nullable: may }) => [name, may]));
    const columns = types.map((column) => ({ ...column, nullable: nullable.get(column.name) ?? true }));
    const stats = await ask<Stats>('stats');
    const { indexes } = await ask<{ readonly indexes: readonly IndexFound[] }>('index/list');
    const { tags } = await ask<{ readonly tags: Readonly<Record<string, { readonly version: number }>> }>('tags/list');
    const { branches } = await ask<{ readonly branches: Readonly<Record<string, unknown>> }>('branches/list');
    const facts = {
      table,
      version: described.version,
      rows: stats.num_rows,
      bytes: stats.total_bytes,
      fragments: stats.fragment_stats.num_fragments,
      location: described.location,
    };
    const found = {
      ...facts,
      columns,
      indexes: indexes.map((index) => ({
        name: index.index_name,
        columns: index.columns,
        type: index.index_type ?? null,
      })),
      tags: Object.fromEntries(Object.entries(tags).map(([name, { version }]) => [name, version])),
      branches: Object.keys(branches),
    };
    await (form === 'table'
      ? write(context.stdout, shown(found, context))
      : printRows([found], Object.keys(found), form, context.stdout));
  },
);

interface Described {
  readonly fields: readonly { readonly name: string; readonly nullable: boolean }[];
}

interface IndexFound {
  readonly index_name: string;
  readonly columns: readonly string[];
  readonly index_type?: string;
}

interface Shown extends PrintedRow {
  readonly columns: readonly PrintedRow[];
  readonly indexes: readonly PrintedRow[];
  readonly tags: Readonly<Record<string, number>>;
  readonly branches: readonly string[];
}

function shown({ columns, indexes, tags, branches, ...facts }: Shown, { stdout }: CliContext): string {
  const width = stdout.columns ?? 100;
  const pairs = Object.entries({ ...facts, ...(branches.length > 0 && { branches: branches.join(', ') }) });
  const tagged = Object.entries(tags).map(([tag, version]) => ({ tag, version }));
  return [
    tableLines(
      pairs.map(([fact, value]) => ({ fact, value: String(value) })),
      ['fact', 'value'],
      width,
    ),
    tableLines(
      columns.map(({ name, ...rest }) => ({ column: name, ...rest })),
      ['column', 'type', 'nullable'],
      width,
    ),
    indexes.length > 0 &&
      tableLines(
        indexes.map(({ name, ...rest }) => ({ index: name, ...rest })),
        ['index', 'columns', 'type'],
        width,
      ),
    tagged.length > 0 && tableLines(tagged, ['tag', 'version'], width),
  ]
    .filter((part) => part !== false)
    .join('\n');
}

interface Version {
  readonly version: number;
  readonly timestamp: string;
}

export const versionsCommand = listCommand(
  {
    name: 'versions',
    positionals: ['TABLE'],
    summary: 'Lists the versions of a table that can be restored, the newest first, with their tags.',
  },
  async ({ service, form, context, positionals: [table] }) => {
    const { tags } = await service.json<{ readonly tags: Readonly<Record<string, { readonly version: number }>> }>(
      tableRoute(table, 'tags/list'),
    );
    const versions = await allVersions(service, table);
    const rows = versions.map(({ version, timestamp }) => ({
      version,
      made: timestamp,
      tags: Object.entries(tags).flatMap(([tag, of]) => (of.version === version ? [tag] : [])),
    }));
    const printed = form === 'table' ? rows.map((row) => ({ ...row, tags: row.tags.join(', ') })) : rows;
    await printRows(printed, ['version', 'made', 'tags'], form, context.stdout);
  },
);

async function allVersions(service: ServiceClient, table: string): Promise<readonly Version[]> {
  const versions: Version[] = [];
  let page: { readonly versions: readonly Version[]; readonly page_token?: string | undefined };
  let token: object = {};
  do {
    page = await service.json(tableRoute(table, 'version/list'), { body: { descending: true, limit: 1000, ...token } });
    versions.push(...page.versions);
    token = { page_token: page.page_token };
  } while (page.page_token);
  return versions;
}

export const restoreCommand = commandOf(
  {
    name: 'restore',
    positionals: ['TABLE'],
    summary:
      'Makes a new version of a table that is as an earlier one was. What came between stays among the versions.',
    options: {
      to: required(text, {
        flag: 'to',
        doc: 'Back to what the table was: a number of `lancegate versions`, a tag, or a time such as 2026-11-26T12:00:00Z, at which a version was the newest.',
      }),
      ...serviceOptions,
    },
    settings: serviceSettings,
  },
  async ({ options, reading, positionals: [table] }, context) => {
    const service = serviceClient(options, reading.values, context);
    const version = await versionMeant(service, table, options.to);
    await service.json(tableRoute(table, 'restore'), { body: { version } });
    const { version: made } = await service.json<{ readonly version: number }>(tableRoute(table, 'describe'), {
      body: {},
    });
    await write(context.stdout, `${table} is as version ${version} was; this is version ${made} now\n`);
  },
);

async function versionMeant(service: ServiceClient, table: string, to: string): Promise<number> {
  if (/^\d{1,15}$/.test(to)) return Number(to);
  const atMs = /^\d{4}-\d{2}-\d{2}/.test(to) ? Date.parse(to) : Number.NaN;
  if (Number.isNaN(atMs)) {
    const body = { tag: to };
    return (await service.json<{ readonly version: number }>(tableRoute(table, 'tags/version'), { body })).version;
  }
  const versions = await allVersions(service, table);
  const found = versions.find(({ timestamp }) => Date.parse(timestamp) <= atMs);
  if (found !== undefined) return found.version;
  throw new CliError(
    `no version of ${table} is from ${to} or before; the oldest is from ${versions.at(-1)?.timestamp}, since the service keeps what --history says`,
  );
}

export const maintainCommand = commandOf(
  {
    name: 'maintain',
    positionals: ['TABLE'],
    summary: 'Compacts, indexes and prunes a table now, and prints what was done. Needs the running service.',
    options: serviceOptions,
    settings: serviceSettings,
  },
  async ({ options, reading, positionals: [table] }, context) => {
    const service = serviceClient(options, reading.values, context);
    const answer = await service.json<{ readonly jobs: readonly object[] }>(tableRoute(table, 'maintain'));
    await write(context.stdout, answer.jobs.map((job) => `${JSON.stringify(job)}\n`).join(''));
  },
);
