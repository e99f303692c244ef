import type { Case } from './json-cases.ts';

const users = { namespace: ['prod'], name: 'users' };
const job = { job_id: 'job-1', job_type: 'create_index', creation_ms: 1_700_000_000_000 };

/** The routes of indexes and their jobs. */
export const indexCases: readonly Case[] = [
  {
    path: '/v1/table/prod$users/create_index',
    body: { column: 'id', index_type: 'IVF_PQ', metric_type: 'cosine', num_bits: 4, replace: false },
    operation: 'createIndex',
    command: {
      table: users,
      branch: undefined,
      column: { segments: ['id'] },
      name: undefined,
      options: {
        type: 'IVF_PQ',
        vector: {
          distance: 'cosine',
          numPartitions: undefined,
          sampleRate: undefined,
          maxIterations: undefined,
          numSubVectors: undefined,
          numBits: 4,
        },
      },
      rowsPerPartition: undefined,
      isReplacing: false,
      idempotency: undefined,
    },
    answer: { version: 9, transaction_id: 'tx-3' },
  },
  {
    path: '/v1/table/prod$users/create_scalar_index',
    body: { column: 'a.b', index_type: 'BITMAP', name: 'by_b', branch: 'dev' },
    operation: 'createScalarIndex',
    command: {
      table: users,
      branch: 'dev',
      column: { segments: ['a', 'b'] },
      name: 'by_b',
      options: { type: 'BITMAP' },
      rowsPerPartition: undefined,
      isReplacing: true,
      idempotency: undefined,
    },
    answer: { job_id: 'job-1' },
  },
  {
    path: '/v1/table/prod$users/index/by%20b/drop?branch=dev',
    body: null,
    operation: 'dropIndex',
    command: { table: users, branch: 'dev', name: 'by b', idempotency: undefined },
    answer: { version: 9, transaction_id: 'tx-3' },
  },
  {
    path: '/v1/jobs/describe',
    body: { job_id: 'job-1' },
    operation: 'describeJob',
    command: { id: 'job-1' },
    answer: {
      ...job,
      job_state: 'FAILED',
      spec: { table: 'prod$users', branch: 'main', index_name: 'id_idx', column: 'id', index_type: 'BTREE' },
      failure: { phase: 'build', message: 'the process died; nothing was written', retryable: true },
    },
  },
  {
    path: '/v1/jobs/list',
    body: null,
    operation: 'listJobs',
    command: {},
    answer: {
      jobs: [{ ...job, job_state: 'FAILED', table: 'prod$users', state: 'failed', created_at_millis: job.creation_ms }],
    },
  },
  {
    path: '/v1/jobs/cancel',
    body: { job_id: 'job-1' },
    operation: 'cancelJob',
    command: { id: 'job-1' },
    answer: { ...job, job_state: 'CANCELLED' },
  },
];
