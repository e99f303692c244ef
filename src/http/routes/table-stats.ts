import Type from 'typebox';
import type { GetTableStatistics } from '../../operations/tables/table-statistics.ts';
import { jsonRoute } from '../json-route.ts';
import { type Route, tableTarget } from '../route.ts';

export const tableStatsRoute = (tableStatistics: GetTableStatistics): Route =>
  jsonRoute({
    methods: ['GET', 'POST'],
    path: '/v1/table/:id/stats',
    target: tableTarget,
    action: 'GetTableStats',
    body: Type.Object({}),
    branches: (_, branch) => [branch],
    answer: async ({ target: table, branch }) => {
      const { bytes, rows, indexes, fragments, smallFragments, fragmentRows } = await tableStatistics({
        table,
        branch,
      });
      return {
        total_bytes: bytes,
        num_rows: rows,
        num_indices: indexes,
        fragment_stats: { num_fragments: fragments, num_small_fragments: smallFragments, lengths: fragmentRows },
      };
    },
  });
