/**
 * Clients know these routes, and this service does not offer them. They answer `Unsupported` (406): from a 404 the LanceDB SDKs
 * would conclude that the table is missing, and a 501 they may not tell from a crash.
 */
import type { Route } from '../../endpoint/route.ts';
import { LancegateError } from '../../kernel/errors.ts';

const inSpecification = [
  '/v1/table/batch-commit',
  '/v1/table/:id/backfill_column',
  '/v1/materialized_view/:id/refresh',
  '/v1/materialized_view/:id/create',
  '/v1/transaction/:id/alter',
];

/** The LanceDB SDKs send these, and older Lance REST clients `refresh`. */
const besideSpecification = [
  '/v1/table/:id/multipart_write/create',
  '/v1/table/:id/multipart_write/complete',
  '/v1/table/:id/multipart_write/abort',
  '/v1/table/:id/refresh',
  '/v1/table/:id/branches/diff',
  '/v1/table/:id/branches/cherry_pick',
  '/v1/table/:id/page_cache/prewarm',
  '/v1/table/:id/fetch_blobs',
  '/v1/table/:id/blob/:column/:row/bytes',
  '/v1/table/:id/set_lsm_write_spec',
  '/v1/table/:id/unset_lsm_write_spec',
  '/v1/table/:id/get_lsm_write_spec',
  '/v1/table/:id/flush_lsm',
  '/v1/table/:id/compact_lsm',
  '/v1/table/:id/get_lsm_stats',
  // The names of these six from 0.41 on.
  '/v1/table/:id/enable_rte',
  '/v1/table/:id/disable_rte',
  '/v1/table/:id/get_rte_spec',
  '/v1/table/:id/flush_rte',
  '/v1/table/:id/compact_rte',
  '/v1/table/:id/get_rte_stats',
  '/v1/table/:id/errors',
  '/v1/jobs/query_events',
  '/v1/jobs/pause',
  '/v1/jobs/resume',
  '/v1/functions/*',
  '/v1/function/*',
  '/v1/secret/*',
  '/v1/view/*',
  '/v1/materialized_view/:id/describe',
  '/v1/materialized_view/:id/drop',
  '/v1/namespace/:id/function/list',
  '/v1/namespace/:id/secret/list',
  '/v1/namespace/:id/view/list',
  '/v1/namespace/:id/materialized_view/list',
];

export const notOfferedPaths: readonly string[] = [...inSpecification, ...besideSpecification];

export const notOfferedRoutes: readonly Route[] = notOfferedPaths.map((path) => ({
  methods: ['GET', 'POST'],
  path,
  isNotOffered: true,
  prepare() {
    throw new LancegateError('Unsupported', 'this service does not offer the operation');
  },
}));
