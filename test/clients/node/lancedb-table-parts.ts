/** What indices, merges, tags and branches of the LanceDB SDK for Node can do. */
import { Index, type Table } from '@lancedb/lancedb';
import { fails } from './cases.ts';
import type { LanceDbCase } from './lancedb-cases.ts';
import { longestWaitSeconds, more } from './lancedb-sides.ts';

const waitTimeoutSeconds = longestWaitSeconds;

const shownIndices = async (table: Table): Promise<readonly string[]> =>
  (await table.listIndices())
    .map(({ name, indexType, columns }) => `${name} ${indexType.toUpperCase()} ${columns.join()}`)
    .sort();

/** A configuration can be used once. */
const indexOf = (column: string, configure: () => Index): LanceDbCase => ({
  of: ['Table.createIndex', 'Table.listIndices'],
  act: async (side) => {
    const table = await side.books(512);
    await table.createIndex(column, { config: configure(), waitTimeoutSeconds });
    return [await shownIndices(table), await side.rows(table)];
  },
});

export const indexCases: readonly LanceDbCase[] = [
  indexOf('id', () => Index.btree()),
  indexOf('name', () => Index.bitmap()),
  indexOf('tags', () => Index.labelList()),
  indexOf('text', () => Index.fts()),
  indexOf('vector', () => Index.ivfFlat({ numPartitions: 2 })),
  indexOf('vector', () => Index.ivfPq({ numPartitions: 2, numSubVectors: 4 })),
  indexOf('vector', () => Index.hnswSq({ numPartitions: 1 })),
  {
    of: ['Table.createIndexAsync', 'Table.waitForIndex', 'Table.indexStats'],
    act: async (side) => {
      const table = await side.books(64);
      const job = await table.createIndexAsync('id', { config: Index.btree() });
      await job.wait();
      await table.waitForIndex(['id_idx'], longestWaitSeconds);
      const stats = await table.indexStats('id_idx');
      return [
        stats?.numIndexedRows,
        stats?.numUnindexedRows,
        stats?.indexType,
        await table.indexStats('no_such_index'),
      ];
    },
  },
  {
    of: ['Table.dropIndex', 'Table.prewarmIndex'],
    act: async (side) => {
      const table = await side.books(64);
      await table.createIndex('id', { config: Index.btree(), waitTimeoutSeconds });
      await table.prewarmIndex('id_idx');
      await table.dropIndex('id_idx');
      return [await shownIndices(table), await fails(() => table.dropIndex('id_idx'))];
    },
  },
  {
    of: ['Table.tokenize'],
    act: async (side) => (await side.shared('searchable')).tokenize('The Rivers were running', { column: 'text' }),
  },
];

const upsert = (table: Table) => table.mergeInsert('id').whenMatchedUpdateAll().whenNotMatchedInsertAll();

export const mergeCases: readonly LanceDbCase[] = [
  {
    of: [
      'Table.mergeInsert',
      'MergeInsert.whenMatchedUpdateAll',
      'MergeInsert.whenNotMatchedInsertAll',
      'MergeInsert.execute',
    ],
    act: async (side) => {
      const table = await side.people();
      const { numInsertedRows, numUpdatedRows } = await upsert(table).execute(more);
      return [numInsertedRows, numUpdatedRows, await side.rows(table)];
    },
  },
  {
    of: ['MergeInsert.whenNotMatchedBySourceDelete'],
    act: async (side) => {
      const table = await side.people();
      const { numDeletedRows } = await upsert(table).whenNotMatchedBySourceDelete({ where: 'id < 2' }).execute(more);
      return [numDeletedRows, await side.rows(table)];
    },
  },
  {
    of: ['MergeInsert.useIndex', 'MergeInsert.useLsm', 'MergeInsert.validateSingleShard'],
    act: async (side) => {
      const table = await side.people();
      await upsert(table).useIndex(false).execute(more);
      await upsert(table).useLsm(false).execute(more);
      await upsert(table).validateSingleShard(true).execute(more);
      return side.rows(table);
    },
  },
];

export const tagAndBranchCases: readonly LanceDbCase[] = [
  {
    of: ['Tags.create', 'Tags.list', 'Tags.getVersion', 'Tags.update', 'Tags.delete'],
    act: async (side) => {
      const table = await side.people();
      await table.add(more);
      const tags = await table.tags();
      await tags.create('first', 1);
      const taken = await fails(() => tags.create('first', 2));
      const listed = Object.entries(await tags.list()).map(([name, { version }]) => [name, version]);
      await tags.update('first', 2);
      const moved = await tags.getVersion('first');
      await tags.delete('first');
      return [taken, listed, moved, await tags.list(), await fails(() => tags.getVersion('first'))];
    },
  },
  {
    of: ['Branches.create', 'Branches.list', 'Branches.checkout', 'Branches.delete'],
    act: async (side) => {
      const table = await side.people();
      const branches = await table.branches();
      const draft = await branches.create('draft');
      await draft.add(more);
      await draft.update({ values: { name: 'changed' }, where: 'id = 1' });
      await draft.delete('id = 2');
      const rows = [await side.rows(await branches.checkout('draft')), await side.rows(table)];
      const listed = Object.keys(await branches.list());
      await branches.delete('draft');
      return [rows, listed, Object.keys(await branches.list()), await fails(() => branches.checkout('draft'))];
    },
  },
];
