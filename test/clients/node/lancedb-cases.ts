/** What connections, tables, tags, branches and merges of the LanceDB SDK for Node can do. */
import { createRequire } from 'node:module';
import { type ColumnAlteration, type Connection, Index } from '@lancedb/lancedb';
import type * as arrow from 'apache-arrow';
import { expect, fails, type MethodCase } from './cases.ts';
import {
  byId,
  type LanceDbSide,
  longestWaitSeconds,
  more,
  people,
  peopleOf,
  peopleSchema,
  vectorOf,
} from './lancedb-sides.ts';

/** The SDK tells a field by its class, of the build of `apache-arrow` that it loads itself. */
const { Field, Float32 } = createRequire(import.meta.url)('apache-arrow') as typeof arrow;

export type LanceDbCase = MethodCase<LanceDbSide>;

const shownSchema = (schema: { readonly fields: readonly arrow.Field[] }): readonly string[] =>
  schema.fields.map(({ name, type, nullable }) => `${name}: ${String(type)}${nullable ? '' : ' not null'}`);

const tableCases: readonly LanceDbCase[] = [
  {
    of: ['Table.add'],
    act: async (side) => {
      const table = await side.people();
      const appended = await table.add([{ id: 4, name: 'dan', score: 4.5 }]);
      const rows = await side.rows(table);
      await table.add(peopleOf({ id: [9], name: ['zoe'], score: [9] }), { mode: 'overwrite' });
      return [appended.version, rows, await side.rows(table)];
    },
  },
  {
    of: ['Table.update'],
    act: async (side) => {
      const table = await side.people();
      const byValue = await table.update({ values: { name: "it's", score: 7.25 }, where: 'id = 1' });
      const bySql = await table.update({ valuesSql: { score: 'coalesce(score, 0) + id' }, where: 'id > 1' });
      const byMap = await table.update(new Map([['name', 'upper(name)']]));
      const nothing = await table.update({ values: { name: 'nobody' }, where: 'id = 99' });
      return [byValue.rowsUpdated, bySql.rowsUpdated, byMap.rowsUpdated, nothing.rowsUpdated, await side.rows(table)];
    },
  },
  {
    of: ['Table.delete'],
    act: async (side) => {
      const table = await side.people();
      await table.delete('id = 2');
      await table.delete('id = 99');
      return [await fails(() => table.delete('no_such_column = 1')), await side.rows(table)];
    },
  },
  {
    of: ['Table.countRows', 'Table.name', 'Table.schema'],
    act: async (side) => {
      const table = await side.people();
      const counts = [await table.countRows(), await table.countRows("name LIKE 'b%' OR score IS NULL")];
      return [counts, table.name, shownSchema(await table.schema())];
    },
  },
  {
    of: ['Table.version', 'Table.listVersions', 'Table.checkout', 'Table.checkoutLatest'],
    act: async (side) => {
      const table = await side.people();
      await (await table.tags()).create('first', 1);
      await table.add(more);
      const versions = (await table.listVersions()).map(({ version }) => version).sort();
      await table.checkout(1);
      const old = [await table.version(), await table.countRows(), await side.rows(table)];
      const refused = await fails(() => table.add(more));
      await table.checkoutLatest();
      const latest = await table.countRows();
      await table.checkout('first');
      return [versions, old, refused, latest, await table.countRows()];
    },
  },
  {
    of: ['Table.restore'],
    act: async (side) => {
      const table = await side.people();
      await table.add(more);
      await table.checkout(1);
      await table.restore();
      return [await side.rows(table), await table.version()];
    },
  },
  {
    of: ['Table.stats'],
    alone: true,
    act: async (side) => {
      const table = await side.people();
      await table.add(more);
      const stats = await table.stats();
      expect(stats.numRows === 5 && stats.totalBytes > 0, `it says ${JSON.stringify(stats)}`);
    },
  },
  {
    of: ['Table.addColumns'],
    act: async (side) => {
      const table = await side.people();
      await table.addColumns([{ name: 'double', valueSql: 'score * 2' }]);
      const typed = [new Field('weight', new Float32(), true)];
      // This version of the SDK sends a service no types.
      if (side.isService) await fails(() => table.addColumns(typed), /not supported/);
      else await (await side.people()).addColumns(typed);
      const wrong = await fails(() => table.addColumns([{ name: 'bad', valueSql: 'no_such_column + 1' }]));
      return [shownSchema(await table.schema()), await side.rows(table), wrong];
    },
  },
  {
    of: ['Table.alterColumns', 'Table.dropColumns'],
    act: async (side) => {
      const table = await side.people();
      const changes: ColumnAlteration[] = [
        { path: 'name', rename: 'title' },
        { path: 'score', dataType: 'float' },
      ];
      await table.alterColumns(changes);
      const altered = shownSchema(await table.schema());
      await table.dropColumns(['score']);
      const wrong = await fails(() => table.dropColumns(['no_such_column']));
      return [altered, shownSchema(await table.schema()), await side.rows(table), wrong];
    },
  },
  {
    of: ['Table.updateFieldMetadata'],
    act: async (side) => {
      const table = await side.people();
      await table.updateFieldMetadata([{ path: 'name', metadata: { unit: 'person' } }]);
      const field = (await table.schema()).fields.find(({ name }) => name === 'name');
      return [field?.metadata.get('unit'), await side.rows(table)];
    },
  },
  {
    of: ['Table.takeOffsets', 'Table.takeRowIds'],
    act: async (side) => {
      const table = await side.shared('plain');
      const found = await table.query().where('id IN (3, 8)').withRowId().toArray();
      const ids = found.map((row: { readonly _rowid: bigint }) => row._rowid);
      const idsOf = async (rows: Promise<{ readonly id: number }[]>) => (await rows).map(({ id }) => id).sort();
      return [await idsOf(table.takeOffsets([5, 0, 17]).toArray()), await idsOf(table.takeRowIds(ids).toArray())];
    },
  },
  {
    of: ['Table.query', 'Table.search', 'Table.vectorSearch'],
    act: async (side) => {
      const table = await side.shared('plain');
      const near = await table.vectorSearch(vectorOf(9)).limit(4).toArray();
      const again = await table.search(vectorOf(9)).limit(4).toArray();
      const text = await (await side.shared('searchable')).search('river', 'fts', 'text').limit(300).toArray();
      return [near, again, text.map((row: { readonly id: number }) => row.id).sort(), await side.rows(table)];
    },
  },
  {
    of: ['Table.toArrow'],
    act: async (side) => byId((await (await side.people()).toArrow()).toArray()),
  },
  {
    of: ['Table.isOpen', 'Table.close', 'Table.display'],
    act: async (side) => {
      const table = await side.people();
      const before = table.isOpen();
      expect(table.display().includes(table.name), `it shows ${table.display()}`);
      table.close();
      return [before, table.isOpen()];
    },
  },
  {
    of: ['Table.tags', 'Table.branches', 'Table.currentBranch', 'Table.blobColumns'],
    act: async (side) => {
      const table = await side.people();
      const draft = await (await table.branches()).create('draft');
      const tags = await (await table.tags()).list();
      return [table.currentBranch(), side.watched(draft).currentBranch(), tags, await table.blobColumns()];
    },
  },
  {
    of: ['Table.initialStorageOptions', 'Table.latestStorageOptions'],
    alone: true,
    act: async (side) => {
      const table = await side.people();
      const given = [await table.initialStorageOptions(), await table.latestStorageOptions()];
      expect(
        given.every((options) => Object.keys(options ?? {}).length === 0),
        'it gave away options of its storage',
      );
    },
  },
];

const namespaces = async (side: LanceDbSide): Promise<void> => {
  const path = [side.prefix];
  await side.db.createNamespace(path, { properties: { owner: 'ann' } });
  await side.db.createNamespace([...path, 'inner']);
  expect((await side.db.listNamespaces(path)).namespaces.join() === 'inner', 'the inner namespace is not listed');
  const { properties } = await side.db.describeNamespace(path);
  expect(properties?.owner === 'ann', 'its properties are lost');
  const table = await side.db.createTable('inside', people, [...path, 'inner']);
  await table.add(more);
  expect((await side.db.listTables([...path, 'inner'])).tables.join() === 'inside', 'the table in it is not listed');
  expect((await (await side.db.openTable('inside', [...path, 'inner'])).countRows()) === 5, 'it cannot be read');
  await fails(() => side.db.dropNamespace(path));
  await side.db.dropTable('inside', [...path, 'inner']);
  await side.db.dropNamespace([...path, 'inner']);
  await side.db.dropNamespace(path);
};

const closeAndShow = async (connection: Connection): Promise<unknown> => {
  const before = connection.isOpen();
  expect(connection.display().length > 0, 'it shows nothing');
  connection.close();
  return [before, connection.isOpen(), await fails(() => connection.tableNames())];
};

const connectionCases: readonly LanceDbCase[] = [
  {
    of: ['Connection.createTable', 'Connection.createEmptyTable', 'Connection.openTable', 'Connection.tableNames'],
    act: async (side) => {
      const made = await side.people();
      const taken = await fails(() => side.db.createTable(made.name, people), /already exists/);
      const kept = await side.db.createTable(made.name, people, { existOk: true });
      const count = await kept.countRows();
      const over = await side.db.createTable(made.name, more, { mode: 'overwrite' });
      const empty = await side.db.createEmptyTable(side.name(), peopleSchema);
      const opened = await side.db.openTable(made.name);
      const missing = await fails(() => side.db.openTable('no_such_table'), /not found/);
      const rows = [await side.rows(over), await side.rows(opened), await side.rows(empty)];
      return [taken, count, rows, missing, await side.names()];
    },
  },
  {
    of: ['Connection.dropTable', 'Connection.listTables'],
    act: async (side) => {
      const [gone, left] = [await side.people(), await side.people()];
      await side.db.dropTable(gone.name);
      const { tables } = await side.db.listTables({ limit: 10_000 });
      return [await side.names(), tables.includes(left.name), await fails(() => side.db.openTable(gone.name))];
    },
  },
  {
    of: ['Connection.dropTableAsync'],
    alone: true,
    act: async (side) => {
      const table = await side.people();
      await (await side.db.dropTableAsync(table.name)).wait();
      expect((await side.names()).length === 0, 'the table is still there');
    },
  },
  {
    of: ['Connection.renameTable'],
    alone: true,
    act: async (side) => {
      const table = await side.people();
      const renamed = side.name();
      await side.db.renameTable(table.name, renamed);
      // The SDK gives the connection that renamed it a handle of the old name.
      const opened = await (await side.newConnection()).openTable(renamed);
      await opened.add(more);
      expect((await side.names()).join() === renamed && (await opened.countRows()) === 5, 'it is not the same table');
    },
  },
  {
    of: ['Connection.cloneTable'],
    act: async (side) => {
      const table = await side.people();
      const clone = await side.db.cloneTable(side.name(), await side.locate(table));
      await clone.add(more);
      return [await side.rows(clone), await side.rows(table)];
    },
  },
  {
    of: [
      'Connection.createNamespace',
      'Connection.listNamespaces',
      'Connection.describeNamespace',
      'Connection.dropNamespace',
    ],
    alone: true,
    act: namespaces,
  },
  {
    of: ['Connection.isOpen', 'Connection.close', 'Connection.display'],
    act: async (side) => closeAndShow(await side.newConnection()),
  },
  {
    of: ['Connection.listJobs', 'Connection.openJob', 'Connection.cancelJob'],
    alone: true,
    act: async (side) => {
      const table = await side.books(64);
      await table.createIndex('id', { config: Index.btree(), waitTimeoutSeconds: longestWaitSeconds });
      const [job] = (await side.db.listJobs()).filter((one) => one.table === table.name);
      expect(job?.jobType === 'create_index' && job.state !== '', `it lists ${JSON.stringify(job)}`);
      await (await side.db.openJob(job?.jobId ?? '')).wait();
      const unknown = '00000000-0000-4000-8000-000000000007';
      const cancelled = [await side.db.cancelJob(job?.jobId ?? ''), await side.db.cancelJob(unknown)];
      expect(cancelled.join() === 'true,false', `the jobs are said to be there: ${cancelled}`);
      await fails(async () => (await side.db.openJob(unknown)).wait(), /not found/);
    },
  },
];

export const methodCases: readonly LanceDbCase[] = [...tableCases, ...connectionCases];
