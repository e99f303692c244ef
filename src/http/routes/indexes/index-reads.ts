import Type from 'typebox';
import { indexStatistics, listIndexes, prewarmIndex } from '../../../operations/indexes/read-indexes.ts';
import { IndexNameBody, requireSameIndex } from '../../../wire/index-parameters.ts';
import { Count, nextPage, pageFields, Version } from '../../../wire/json-body.ts';
import { readPage } from '../../../wire/query-parameters.ts';
import { jsonRoute, Nothing } from '../../json-route.ts';
import { tableTarget } from '../../route.ts';

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
const IndexStatistics = Type.Object({
  num_indexed_rows: Count,
  num_unindexed_rows: Count,
  index_type: Type.Optional(Type.String()),
  distance_type: Type.Optional(Type.String()),
  num_indices: Type.Optional(Count),
});

/** Every listed index is whole: one that is being built is in no version. */
export const listIndexesRoute = jsonRoute(listIndexes, {
  methods: ['POST'],
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
  methods: ['POST'],
  path: '/v1/table/:id/index/:index/stats',
  target: tableTarget,
  action: 'DescribeTableIndexStats',
  summary: 'Shows how much of a table an index covers',
  answers: IndexStatistics,
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
  methods: ['POST'],
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
