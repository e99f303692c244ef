import { tableStatistics } from '../../operations/tables/describe-table.ts';
import { jsonRoute, Nothing } from '../json-route.ts';
import { tableTarget } from '../route.ts';

export const tableStatsRoute = jsonRoute(tableStatistics, {
  methods: ['GET', 'POST'],
  path: '/v1/table/:id/stats',
  target: tableTarget,
  action: 'GetTableStats',
  body: Nothing,
  branches: (_, branch) => [branch],
  answer: async (operation, { target: table, branch }) => {
    const { bytes, rows, indexes, fragments, smallFragments, fragmentRows } = await operation({
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
