import Type from 'typebox';
import { type FieldPath, formatFieldPath, parseFieldPath, resolveField } from '../../arrow/schema/field-path.ts';
import { type DataType, elementOf, type Field, typeName } from '../../arrow/schema/schema.ts';
import type { TableRecord } from '../../catalog/port.ts';
import type { ChangeCommand, ChangeResult } from '../../change/submit-change.ts';
import { jsonRoute, writeAnswer, writtenFields } from '../../endpoint/json-route.ts';
import { tableTarget } from '../../endpoint/route.ts';
import type { Datasets } from '../../engine/port/engine.ts';
import {
  type IndexOptions,
  type IndexSpec,
  isIndexName,
  longestIndexNameBytes,
  plainIndexName,
  type VectorIndexType,
  type VectorOptions,
} from '../../engine/port/index-spec.ts';
import type { Idempotency, Replayable } from '../../idempotency/idempotency.ts';
import type { IndexJobs } from '../../indexing/index-jobs.ts';
import { requireFree } from '../../indexing/index-names.ts';
import type { Clock } from '../../kernel/clock.ts';
import { invalidInput, LancegateError } from '../../kernel/errors.ts';
import type { BranchName } from '../../kernel/ids.ts';
import { firstOf, type RequestScope } from '../../kernel/request-scope.ts';
import type { TableAccess } from '../../table/table-access.ts';
import { CreateIndexBody, parseIndexOptions } from './index-options.ts';

interface CreateIndexCommand extends ChangeCommand {
  readonly column: FieldPath;
  /** It is `plainIndexName` by default. */
  readonly name: string | undefined;
  readonly options: IndexOptions;
  /** It takes the place of a number of partitions. */
  readonly rowsPerPartition: number | undefined;
  readonly isReplacing: boolean;
}

/** A job is still running, or has ended in a transaction. */
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
      const found = await lookAtBranch({ access, engine }, table, branch);
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

/** Returns what the newest version of a branch has: its columns, the number of its rows, its indexes. */
export function lookAtBranch(
  { access, engine }: Pick<CreateIndexDeps, 'access' | 'engine'>,
  table: TableRecord,
  branch: BranchName | undefined,
) {
  return access.onFilesOf(table, async () => {
    const dataset = await engine.open({ location: table.location, branch });
    try {
      const { rows, indexes } = await dataset.layout();
      return { schema: await dataset.schema(), rows, indexes };
    } finally {
      dataset.close();
    }
  });
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

/** Throws `InvalidInput` where an index of this type cannot be of the column. The engine refuses a few more types of values. */
function requireIndexable(field: Field, path: string, options: IndexOptions): void {
  const fits = 'vector' in options ? isVector(field) : takes[options.type](field);
  if (!fits || field.dictionary !== undefined) {
    throw invalidInput(`column ${path} of type ${typeName(field)} cannot have an index of type ${options.type}`);
  }
  if ('vector' in options) requireVector(field, path, options.type, options.vector);
}

type ValueKinds = readonly DataType['kind'][];
const texts: ValueKinds = ['utf8', 'large_utf8'];
const bytes: ValueKinds = ['binary', 'large_binary'];
const lists: ValueKinds = ['list', 'large_list'];
const nested: ValueKinds = [...lists, 'fixed_size_list', 'struct', 'map', 'null'];

const takes: Readonly<Record<Exclude<IndexOptions['type'], VectorIndexType>, (field: Field) => boolean>> = {
  BTREE: ({ type }) => ![...nested, ...bytes].includes(type.kind),
  BITMAP: ({ type }) => ![...nested, 'float'].includes(type.kind),
  LABEL_LIST: ({ type }) => lists.includes(type.kind),
  FM: ({ type }) => [...texts, ...bytes].includes(type.kind),
  FTS: ({ type, children: [item] }) =>
    texts.includes(type.kind) || (lists.includes(type.kind) && item !== undefined && texts.includes(item.type.kind)),
};

/** Each row may have one vector, or several. */
function isVector({ type, children: [item] }: Field): boolean {
  if (type.kind === 'list') return item !== undefined && item.type.kind === 'fixed_size_list' && isVector(item);
  if (type.kind !== 'fixed_size_list' || item === undefined) return false;
  return item.type.kind === 'float' || isByte(item.type);
}

const isByte = (type: DataType): boolean => type.kind === 'int' && type.bitWidth === 8 && !type.signed;

function requireVector(field: Field, path: string, type: VectorIndexType, { distance, numSubVectors }: VectorOptions) {
  const isMany = field.type.kind === 'list';
  const vector = isMany ? elementOf(field) : field;
  const dimension = vector.type.kind === 'fixed_size_list' ? vector.type.listSize : 0;
  if (isMany && distance !== 'cosine') {
    throw invalidInput(`distance_type: column ${path} has several vectors in a row, which only cosine can compare`);
  }
  if (isByte(elementOf(vector).type) !== (distance === 'hamming')) {
    throw invalidInput('distance_type: hamming is for vectors of uint8, and these for hamming');
  }
  if (distance === 'hamming' && type !== 'IVF_FLAT') {
    throw invalidInput(`distance_type: an index of type ${type} does not know hamming; IVF_FLAT does`);
  }
  if (numSubVectors !== undefined && dimension % numSubVectors !== 0) {
    throw invalidInput(`num_sub_vectors: it must divide the dimension of column ${path}, ${dimension}`);
  }
}
