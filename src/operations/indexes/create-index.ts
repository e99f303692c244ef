import Type from 'typebox';
import { type FieldPath, formatFieldPath, parseFieldPath, resolveField } from '../../arrow/schema/field-path.ts';
import type { ChangeResult } from '../../change/submit-change.ts';
import { jsonRoute, writeAnswer, writtenFields } from '../../endpoint/json-route.ts';
import { tableTarget } from '../../endpoint/route.ts';
import type { Datasets } from '../../engine/port/engine.ts';
import {
  type IndexOptions,
  type IndexSpec,
  isIndexName,
  longestIndexNameBytes,
  plainIndexName,
} from '../../engine/port/index-spec.ts';
import type { Idempotency, IdempotencyHeader, Replayable } from '../../idempotency/idempotency.ts';
import type { IndexJobs } from '../../indexing/index-jobs.ts';
import { requireFree } from '../../indexing/index-names.ts';
import type { Clock } from '../../kernel/clock.ts';
import { invalidInput, LancegateError } from '../../kernel/errors.ts';
import type { BranchName, TableRef } from '../../kernel/ids.ts';
import { firstOf, type RequestScope } from '../../kernel/request-scope.ts';
import type { TableAccess } from '../../table/table-access.ts';
import { CreateIndexBody, parseIndexOptions } from './index-options.ts';
import { requireIndexable } from './indexable.ts';

interface CreateIndexCommand {
  readonly table: TableRef;
  readonly branch: BranchName | undefined;
  readonly column: FieldPath;
  /** `plainIndexName` by default. */
  readonly name: string | undefined;
  readonly options: IndexOptions;
  /** In place of a number of partitions. */
  readonly rowsPerPartition: number | undefined;
  readonly isReplacing: boolean;
  readonly idempotency: IdempotencyHeader | undefined;
}

/** A job that is still running, or the transaction of one that has ended. */
type CreatedIndex = { readonly jobId: string } | ChangeResult;

/**
 * Builds an index as a job. `TableColumnNotFound`, `TableIndexAlreadyExists`, `InvalidInput` where the index does not fit the
 * column or its rows, `ReaderDied`, `SlowDown`.
 */
export const createIndex =
  ({ access, engine, indexJobs, clock, idempotency }: CreateIndexDeps) =>
  (command: CreateIndexCommand, scope: RequestScope): Promise<Replayable<CreatedIndex>> =>
    idempotency.once('create_index', command, scope, async (keyed): Promise<CreatedIndex> => {
      const { branch, column, options, isReplacing } = command;
      const table = await access.findCreated(command.table);
      const path = formatFieldPath(column);
      const found = await access.onFilesOf(table, () => inspect(engine, { location: table.location, branch }));
      const field = resolveField(found.schema, column);
      if (field === undefined) throw new LancegateError('TableColumnNotFound', `the table has no column ${path}`);
      requireIndexable(field, path, options);
      const { name = plainIndexName(path) } = command;
      requireName(name);
      const spec: IndexSpec = {
        name,
        column: path,
        options: withPartitions(options, command.rowsPerPartition, found.rows),
      };
      requireFree(found.indexes, spec, isReplacing);
      const job = indexJobs.start({ table, branch, spec, isReplacing, scope, keyed: await keyed?.request() });
      const late = Promise.withResolvers<'late'>();
      // A client gets the number of a job that takes longer. Until then its leaving cancels the job.
      const stopWaiting = clock.schedule(5_000, () => late.resolve('late'));
      try {
        const first = await firstOf(Promise.race([job.ended, late.promise]), scope.signal);
        return first === 'late' ? { jobId: job.id } : { transactionId: job.transactionId, ...first };
      } catch (error) {
        await indexJobs.cancel(job);
        throw error;
      } finally {
        stopWaiting();
      }
    });

interface CreateIndexDeps {
  readonly access: TableAccess;
  readonly engine: Datasets;
  readonly indexJobs: IndexJobs;
  readonly clock: Clock;
  readonly idempotency: Idempotency;
}

async function inspect(engine: Datasets, at: Parameters<Datasets['open']>[0]) {
  const dataset = await engine.open(at);
  try {
    const { rows, indexes } = await dataset.layout();
    return { schema: await dataset.schema(), rows, indexes };
  } finally {
    dataset.close();
  }
}

function requireName(name: string): void {
  if (isIndexName(name)) return;
  const bytes = `1 to ${longestIndexNameBytes} bytes`;
  const others = 'no slash or control character, not be "." or "..", and not begin with "__"';
  throw invalidInput(`name: it must have ${bytes}, ${others}`);
}

function withPartitions(options: IndexOptions, rowsPerPartition: number | undefined, rows: number): IndexOptions {
  if (rowsPerPartition === undefined || !('vector' in options)) return options;
  const numPartitions = Math.max(1, Math.round(rows / rowsPerPartition));
  return { ...options, vector: { ...options.vector, numPartitions } };
}

/** `job_id` stands alone, where the index is not there yet. */
const CreateIndexAnswer = Type.Partial(Type.Object({ ...writtenFields, job_id: Type.String() }));

const creationOf = (path: '/v1/table/:id/create_index' | '/v1/table/:id/create_scalar_index') =>
  jsonRoute(createIndex, {
    methods: ['POST'],
    path,
    target: tableTarget,
    action: 'CreateTableIndex',
    operationId: path === '/v1/table/:id/create_index' ? 'CreateTableIndex' : 'CreateTableScalarIndex',
    summary: 'Builds an index of a column, or begins a job that does',
    answers: CreateIndexAnswer,
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
