/** `trash` prints which dropped tables can be brought back; `undrop` does so, and `purge` ends it. */
import { optional } from '../../config/options.ts';
import { text } from '../../config/value-types.ts';
import { write } from '../command.ts';
import { commandOf } from '../command-line.ts';
import { formOf, formOptions, type PrintedRow, printRows } from './printed-rows.ts';
import { serviceClient, serviceOptions, serviceSettings } from './service-client.ts';
import { tableRoute } from './table-commands.ts';

interface DroppedPage {
  readonly tables: readonly {
    readonly id: readonly string[];
    readonly dropped_id: string;
    readonly dropped_at: string;
    readonly kept_until: string;
  }[];
  readonly page_token?: string | undefined;
}

export const trashCommand = commandOf(
  {
    name: 'trash',
    positionals: ['[NAMESPACE]'],
    summary: 'Lists the tables that were dropped or overwritten and can be brought back, the newest first.',
    options: { ...formOptions, ...serviceOptions },
    settings: serviceSettings,
  },
  async ({ options, reading, positionals: [namespace = '$'] }, context) => {
    const service = serviceClient(options, reading.values, context);
    const route = `/v1/namespace/${encodeURIComponent(namespace)}/trash/list`;
    const rows: PrintedRow[] = [];
    let page: DroppedPage;
    let token = '';
    do {
      page = await service.json(`${route}?limit=1000${token}`, { method: 'GET' });
      for (const { id, ...dropped } of page.tables) rows.push({ table: id.join('$'), ...dropped });
      token = `&page_token=${encodeURIComponent(page.page_token ?? '')}`;
    } while (page.page_token);
    const columns = ['table', 'dropped_at', 'kept_until', 'dropped_id'];
    await printRows(rows, columns, formOf(options, context), context.stdout);
  },
);

const whichOne = {
  droppedId: optional(text, {
    flag: 'dropped-id',
    doc: 'Which of the tables that were dropped under this name, as `lancegate trash` prints it.',
  }),
};

export const undropCommand = commandOf(
  {
    name: 'undrop',
    positionals: ['TABLE'],
    summary: 'Brings a dropped table back from the trash: by default the one of this name that was dropped last.',
    options: {
      as: optional(text, {
        flag: 'as',
        doc: 'Another name for it, where the name is taken by now. Its namespaces come first, with `$` between them.',
      }),
      ...whichOne,
      ...serviceOptions,
    },
    settings: serviceSettings,
  },
  async ({ options, reading, positionals: [table] }, context) => {
    const service = serviceClient(options, reading.values, context);
    const { as, droppedId } = options;
    const to = as?.split('$');
    const { id } = await service.json<{ readonly id: readonly string[] }>(tableRoute(table, 'undrop'), {
      body: {
        ...(droppedId !== undefined && { dropped_id: droppedId }),
        ...(to !== undefined && { new_namespace_id: to.slice(0, -1), new_table_name: to.at(-1) }),
      },
    });
    await write(context.stdout, `${id.join('$')} is back\n`);
  },
);

export const purgeCommand = commandOf(
  {
    name: 'purge',
    positionals: ['TABLE'],
    summary: 'Removes what was dropped under a name, and its files, from the trash. It cannot be brought back then.',
    options: { ...whichOne, ...serviceOptions },
    settings: serviceSettings,
  },
  async ({ options, reading, positionals: [table] }, context) => {
    const service = serviceClient(options, reading.values, context);
    const { droppedId } = options;
    const { purged } = await service.json<{ readonly purged: readonly string[] }>(tableRoute(table, 'trash/purge'), {
      body: droppedId === undefined ? {} : { dropped_id: droppedId },
    });
    await write(context.stdout, `${purged.length} dropped table${purged.length === 1 ? '' : 's'} purged\n`);
  },
);
