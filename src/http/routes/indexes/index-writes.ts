import Type from 'typebox';
import { parseFieldPath } from '../../../arrow/schema/field-path.ts';
import { createIndex } from '../../../operations/indexes/create-index.ts';
import { dropIndex } from '../../../operations/indexes/drop-index.ts';
import { CreateIndexBody, IndexNameBody, parseIndexOptions, requireSameIndex } from '../../../wire/index-parameters.ts';
import { jsonRoute, Written, writeAnswer, writtenFields } from '../../json-route.ts';
import { tableTarget } from '../../route.ts';

/** `job_id` stands alone, where the index is not there yet. */
const CreatedIndex = Type.Partial(Type.Object({ ...writtenFields, job_id: Type.String() }));

const creationOf = (path: '/v1/table/:id/create_index' | '/v1/table/:id/create_scalar_index') =>
  jsonRoute(createIndex, {
    methods: ['POST'],
    path,
    target: tableTarget,
    action: 'CreateTableIndex',
    operationId: path === '/v1/table/:id/create_index' ? 'CreateTableIndex' : 'CreateTableScalarIndex',
    summary: 'Builds an index of a column, or begins a job that does',
    answers: CreatedIndex,
    body: CreateIndexBody,
    isWrite: true,
    branches: (_, branch) => [branch],
    answer: async (operation, { target: table, branch, body, idempotency }, input) => {
      const options = parseIndexOptions(body, path === '/v1/table/:id/create_scalar_index');
      const created = await operation(
        {
          table,
          branch,
          column: parseFieldPath(body.column),
          name: body.name,
          options,
          rowsPerPartition: body.num_partitions === undefined ? body.target_partition_size : undefined,
          isReplacing: body.replace ?? true,
          idempotency,
        },
        input.scope,
      );
      return 'jobId' in created ? { job_id: created.jobId } : writeAnswer(input, created, {});
    },
  });

export const createIndexRoute = creationOf('/v1/table/:id/create_index');
export const createScalarIndexRoute = creationOf('/v1/table/:id/create_scalar_index');

export const dropIndexRoute = jsonRoute(dropIndex, {
  methods: ['POST'],
  path: '/v1/table/:id/index/:index/drop',
  target: tableTarget,
  action: 'DropTableIndex',
  summary: 'Drops an index',
  answers: Written,
  body: IndexNameBody,
  isWrite: true,
  branches: (_, branch) => [branch],
  answer: async (operation, { target: table, branch, body, idempotency }, input) => {
    requireSameIndex(body, input.index);
    return writeAnswer(input, await operation({ table, branch, name: input.index, idempotency }, input.scope), {});
  },
});
