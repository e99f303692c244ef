import Type from 'typebox';
import { jsonRoute, Nothing } from '../../endpoint/json-route.ts';
import { tableTarget } from '../../endpoint/route.ts';
import type { TableStatistics } from '../../engine/port/dataset.ts';
import type { ReadTarget } from '../../table/table-access.ts';
import { Count } from '../../wire/json-body.ts';
import type { Deps } from './describe-table.ts';

const tableStatistics =
  ({ access }: Deps) =>
  (target: ReadTarget): Promise<TableStatistics> =>
    access.readCreated(target, (dataset) => dataset.statistics());

const Statistics = Type.Object({
  total_bytes: Count,
  num_rows: Count,
  num_indices: Count,
  fragment_stats: Type.Object({
    num_fragments: Count,
    num_small_fragments: Count,
    lengths: Type.Object({ min: Count, max: Count, mean: Count, p25: Count, p50: Count, p75: Count, p99: Count }),
  }),
});

export const tableStatsRoute = jsonRoute(tableStatistics, {
  methods: ['GET', 'POST'],
  path: '/v1/table/:id/stats',
  target: tableTarget,
  action: 'GetTableStats',
  summary: 'Shows how large a table is, and of how many parts',
  answers: Statistics,
  body: Nothing,
  branches: (_, branch) => [branch],
  answer: async (operation, { target: table, branch }) => {
    const found = await operation({ table, branch });
    const { bytes, rows, indexes, fragments, smallFragments, fragmentRows } = found;
    return {
      total_bytes: bytes,
      num_rows: rows,
      num_indices: indexes,
      fragment_stats: { num_fragments: fragments, num_small_fragments: smallFragments, lengths: fragmentRows },
    };
  },
});
