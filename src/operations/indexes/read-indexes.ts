/** What a client can ask about the indexes of a table: which there are, what one covers, and that its files be read ahead. */
import Type from 'typebox';
import { jsonRoute, Nothing } from '../../endpoint/json-route.ts';
import { tableTarget } from '../../endpoint/route.ts';
import type { IndexDescription, IndexStatistics } from '../../engine/port/indexes.ts';
import { LancegateError } from '../../kernel/errors.ts';
import { showTable, type TableRef } from '../../kernel/ids.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import { isNothing, type ReadTarget, type TableAccess } from '../../table/table-access.ts';
import { Count, nextPage, pageFields, Version } from '../../wire/json-body.ts';
import { type Page, readPage } from '../../wire/query-parameters.ts';
import { type Listing, visiblePageByName } from '../visible-page.ts';
import { IndexNameBody, requireSameIndex } from './index-options.ts';

interface Deps {
  readonly access: TableAccess;
}

const listIndexes =
  ({ access }: Deps) =>
  async ({ page, ...target }: ReadTarget & { page: Page }): Promise<Listing<IndexDescription>> => {
    const record = await access.find(target.table);
    const { branch, version } = target;
    const found = isNothing(record, target)
      ? []
      : await access.read(record, branch, version, ({ indexes }) => indexes.list());
    return visiblePageByName(page, found, () => true);
  };

/** `TableIndexNotFound`. */
const indexStatistics =
  ({ access }: Deps) =>
  async ({ index, ...target }: ReadTarget & { index: string }): Promise<IndexStatistics> => {
    const found = await access.readCreated(target, ({ indexes }) => indexes.statistics(index));
    return found ?? missing(target.table, index);
  };

/**
 * Reads the files of an index, after which queries find them in the memory of the operating system: readers are processes of their
 * own, and none of them keeps it for the others. Ends with the request. `TableIndexNotFound`.
 */
const prewarmIndex =
  ({ access }: Deps) =>
  ({ index, ...target }: ReadTarget & { index: string }, { signal }: RequestScope): Promise<void> =>
    access.readCreated(target, async ({ indexes }) => {
      const { uuid } = (await indexes.list()).find(({ name }) => name === index) ?? missing(target.table, index);
      if (uuid !== undefined) await indexes.readFiles(uuid, signal);
    });

function missing(table: TableRef, index: string): never {
  throw new LancegateError('TableIndexNotFound', `table '${showTable(table)}' has no index '${index}'`);
}

const ListBody = Type.Object({ version: Type.Optional(Version), ...pageFields });
const StatsBody = Type.Object({ version: Type.Optional(Version), ...IndexNameBody.properties });

const Indexes = Type.Object({
  indexes: Type.Array(
    Type.Object({
      index_name: Type.String(),
      index_uuid: Type.String(),
      columns: Type.Array(Type.String()),
      status: Type.String(),
      index_type: Type.Optional(Type.String()),
      type_url: Type.Optional(Type.String()),
      num_indexed_rows: Type.Optional(Count),
      num_unindexed_rows: Type.Optional(Count),
      size_bytes: Type.Optional(Count),
      num_segments: Type.Optional(Count),
      created_at: Type.Optional(Type.String({ format: 'date-time' })),
      index_version: Type.Optional(Count),
      index_details: Type.Optional(Type.String()),
    }),
  ),
  ...nextPage,
});
const IndexStatsAnswer = Type.Object({
  num_indexed_rows: Count,
  num_unindexed_rows: Count,
  index_type: Type.Optional(Type.String()),
  distance_type: Type.Optional(Type.String()),
  num_indices: Type.Optional(Count),
});

/** Every listed index is whole: one that is being built is in no version. */
export const listIndexesRoute = jsonRoute(listIndexes, {
  path: '/v1/table/:id/index/list',
  target: tableTarget,
  action: 'ListTableIndices',
  summary: 'Lists the indexes of a table',
  query: pageFields,
  answers: Indexes,
  body: ListBody,
  branches: (_, branch) => [branch],
  answer: async (operation, { target: table, branch, body }, { query }) => {
    const page = readPage(query, body);
    const { items, next } = await operation({ table, branch, version: body.version, page });
    const indexes = items.map((index) => ({
      index_name: index.name,
      index_uuid: index.uuid ?? '',
      columns: index.columns,
      status: 'done',
      index_type: index.type,
      type_url: index.typeUrl,
      num_indexed_rows: index.indexedRows,
      num_unindexed_rows: index.unindexedRows,
      size_bytes: index.bytes,
      num_segments: index.segments,
      created_at: index.createdAtMs === undefined ? undefined : new Date(index.createdAtMs).toISOString(),
      index_version: index.formatVersion,
      index_details: index.details,
    }));
    return { indexes, page_token: next };
  },
});

export const indexStatsRoute = jsonRoute(indexStatistics, {
  path: '/v1/table/:id/index/:index/stats',
  target: tableTarget,
  action: 'DescribeTableIndexStats',
  summary: 'Shows how much of a table an index covers',
  answers: IndexStatsAnswer,
  body: StatsBody,
  branches: (_, branch) => [branch],
  answer: async (operation, { target: table, branch, body }, { index }) => {
    requireSameIndex(body, index);
    const found = await operation({ table, branch, version: body.version, index });
    return {
      num_indexed_rows: found.indexedRows,
      num_unindexed_rows: found.unindexedRows,
      index_type: found.type,
      distance_type: found.distanceType,
      num_indices: found.parts,
    };
  },
});

export const prewarmIndexRoute = jsonRoute(prewarmIndex, {
  path: '/v1/table/:id/index/:index/prewarm',
  target: tableTarget,
  action: 'PrewarmTableIndex',
  summary: 'Reads an index into memory',
  answers: Nothing,
  body: Nothing,
  branches: (_, branch) => [branch],
  answer: async (operation, { target: table, branch }, { index, scope }) => {
    await operation({ table, branch, index }, scope);
    return {};
  },
});
