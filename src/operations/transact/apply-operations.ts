/**
 * Applies several operations on a table branch as one commit: all of them are in one version, or nothing is written (P1). They
 * are applied in their order in one shadow, each to the rows and columns that those before it leave.
 */
import Type from 'typebox';
import type { Schema } from '../../arrow/schema/schema.ts';
import type { Action, Resource } from '../../auth/policy/actions.ts';
import type { Extender } from '../../change/extend-columns.ts';
import { type ChangeCommand, type ChangeDeps, changeOperation } from '../../change/submit-change.ts';
import { contentDecoder } from '../../endpoint/body/decoded-body.ts';
import { boundaryOf } from '../../endpoint/body/multipart.ts';
import { ArrowStream, commonParameters } from '../../endpoint/description.ts';
import { boundedFields, notedBounds, writeAnswer } from '../../endpoint/json-route.ts';
import { headerText, jsonAnswer, type Offer, queryBranch, type RouteInput, tableTarget } from '../../endpoint/route.ts';
import type { Datasets } from '../../engine/port/engine.ts';
import type { MergeTotals } from '../../engine/port/shadow.ts';
import type { Replayable } from '../../idempotency/idempotency.ts';
import type { AnsweredTotals } from '../../idempotency/noted-outcomes.ts';
import type { Clock } from '../../kernel/clock.ts';
import { invalidInput } from '../../kernel/errors.ts';
import type { TransactionId } from '../../kernel/ids.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import { writeBounds } from '../../kernel/write-bounds.ts';
import type { KeyHasher } from '../../keys/key-hasher.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import { boundParameters } from '../../wire/bound-parameters.ts';
import { idempotencyKeyHeader, parseIdempotencyKey, readDelimiter } from '../../wire/identifiers.ts';
import { Count, StringMap } from '../../wire/json-body.ts';
import { columnFields, columnsShown } from '../columns/change-columns.ts';
import { kindOf, type NamedOperation, OperationBody, operationActions, sourceOf } from './operation-kinds.ts';
import { PlannedOperation } from './operation-step.ts';
import { type NamedSource, TransactBody } from './transact-body.ts';

interface TransactCommand extends ChangeCommand {
  /** There is at least one. They are applied in their order. Each source that they name is named once. */
  readonly operations: readonly NamedOperation[];
  /** Only sources that are named arrive here. Each must be read before the next one. */
  readonly source: AsyncIterable<NamedSource>;
  /** Asked where columns come with rows. `PermissionDenied`. */
  readonly requireAction: Extender['requireAction'];
}

interface TransactDeps extends ChangeDeps {
  readonly clock: Clock;
  readonly engine: Datasets;
  readonly keyHasher: KeyHasher;
  readonly metrics: Metrics;
}

interface OperationTotals extends AnsweredTotals {
  readonly name: string;
  readonly operation: string;
}

interface TransactResult extends MergeTotals {
  readonly transactionId: TransactionId;
  readonly version: number;
  readonly operations: readonly OperationTotals[];
  readonly isDryRun?: true;
}

const nothing: MergeTotals = { numInsertedRows: 0, numUpdatedRows: 0, numDeletedRows: 0 };

const transact =
  (deps: TransactDeps) =>
  async (command: TransactCommand, scope: RequestScope): Promise<Replayable<TransactResult>> => {
    const { each = [], ...result } = await applyAll(deps)(command, scope);
    const operations = command.operations.map(({ name, does }, index) => {
      return { ...(each[index] ?? nothing), name, operation: does.kind };
    });
    return { ...result, operations };
  };

/** The sources are received completely before the request waits for a lock, so no other client waits on this client's network. */
const applyAll = changeOperation('transact', async (command: TransactCommand, table, deps: TransactDeps, scope) => {
  const { access, metrics } = deps;
  const { branch } = command;
  const columns = await access.read(table, branch, undefined, (dataset) => dataset.columns());
  const extender: Extender = {
    requireAction: command.requireAction,
    indexes: () => access.read(table, branch, undefined, ({ indexes }) => indexes.list()),
  };
  const planning = { ...deps, branch, scope, properties: table.properties, extender };
  const steps = command.operations.map((operation) => new PlannedOperation(operation, planning, columns.schema));
  const foreseeable = thatFindTheTable(steps);
  for (const step of foreseeable) if (!step.lacksSource) await step.prepare(columns);
  await metrics.writeStage('receive', () => receive(command, steps, foreseeable, columns.schema));
  await metrics.writeStage('check', async () => {
    for (const step of foreseeable) await step.prepare(columns);
  });
  const bounds = writeBounds(command.bounds, { properties: table.properties, metadata: columns.schema.metadata });
  return { steps, bounds };
});

/**
 * Some find the columns of the table, up to the first that changes them: they are refused before the request waits for the
 * lock, and again in the shadow, since others change columns too.
 */
function thatFindTheTable(steps: readonly PlannedOperation[]): readonly PlannedOperation[] {
  const first = steps.findIndex(({ leavesColumns }) => !leavesColumns);
  return first === -1 ? steps : steps.slice(0, first + 1);
}

async function receive(
  { source: arriving }: TransactCommand,
  steps: readonly PlannedOperation[],
  foreseeable: readonly PlannedOperation[],
  table: Schema,
): Promise<void> {
  for await (const { name, source } of arriving) {
    const user = steps.find(({ operation }) => sourceOf(operation.does) === name);
    await user?.receive(source, table, foreseeable.includes(user));
  }
  const lacking = steps.find(({ lacksSource }) => lacksSource)?.operation;
  if (lacking === undefined) return;
  throw invalidInput(`operation ${lacking.name}: the body has no source ${sourceOf(lacking.does)}`);
}

/** The parts have any names. */
const FormOfOperations = Type.Unsafe<unknown>({
  type: 'object',
  additionalProperties: Type.Union([OperationBody, ArrowStream]),
});

const Applied = Type.Object({
  ...boundedFields,
  operations: Type.Array(
    Type.Object({
      name: Type.String(),
      operation: Type.String(),
      num_inserted_rows: Count,
      num_updated_rows: Count,
      num_deleted_rows: Count,
      num_duplicate_rows: Type.Optional(Count),
      num_stale_rows: Type.Optional(Count),
      table_defaults: Type.Optional(StringMap),
      ...columnFields,
    }),
  ),
});

/**
 * The parts of the body that describe the operations come first, so the policy has decided on all of them before a source is
 * read.
 */
export const transactRoute: Offer<typeof transact> = {
  make: transact,
  routeTo: (operation) => ({
    methods: ['POST'],
    path: '/v1/table/:id/transact',
    isWrite: true,
    description: {
      operationId: 'TransactTable',
      summary: 'Applies several operations as one version, or none',
      parameters: { ...boundParameters, ...commonParameters(true) },
      bodies: { 'multipart/form-data': FormOfOperations },
      answers: Applied,
      takesKey: true,
    },
    prepare(input: RouteInput<keyof typeof boundParameters>) {
      const { query, headers, scope } = input;
      const table = tableTarget.parse(input.id, readDelimiter(query), input.database);
      const branch = queryBranch(input);
      const resource = { kind: 'table', table } as const;
      requireOneOf(input, resource, branch);
      const bounds = notedBounds(input);
      const boundary = boundaryOf(headers['content-type']);
      contentDecoder(headers['content-encoding']);
      const key = parseIdempotencyKey(headerText(headers[idempotencyKeyHeader]));
      return {
        body: 'arrow-whole',
        table,
        owned: table,
        answer: async (upload) => {
          const parts = upload.parts(boundary);
          const body = new TransactBody(parts, key !== undefined);
          try {
            const operations = await body.operations(input);
            for (const action of actionsOf(operations)) input.access.require(action, resource, branch);
            input.context.note({ mode: [...new Set(operations.map(({ does }) => does.kind))].join('+') });
            const source = body.sources(operations);
            const idempotency = key && { key, bodyDigest: () => body.digest(source) };
            const requireAction: Extender['requireAction'] = (action) => input.access.require(action, resource, branch);
            const result = await operation(
              { table, branch, operations, source, idempotency, bounds, requireAction },
              scope,
            );
            return jsonAnswer(writeAnswer(input, result, { operations: result.operations.map(shown) }));
          } finally {
            body.close();
          }
        },
      };
    },
  }),
};

const shown = (each: Awaited<ReturnType<ReturnType<typeof transact>>>['operations'][number]) => ({
  name: each.name,
  operation: each.operation,
  num_inserted_rows: each.numInsertedRows,
  num_updated_rows: each.numUpdatedRows,
  num_deleted_rows: each.numDeletedRows,
  ...(each.numDuplicateRows !== undefined && { num_duplicate_rows: each.numDuplicateRows }),
  ...(each.numStaleRows !== undefined && { num_stale_rows: each.numStaleRows }),
  ...(each.defaults && { table_defaults: each.defaults }),
  ...columnsShown(each),
});

/** Who may do none of the operations is refused before a byte of the body is read. */
function requireOneOf({ access }: RouteInput, resource: Resource, branch: ReturnType<typeof queryBranch>): void {
  if (operationActions.some((action) => access.allows(action, resource, branch))) return;
  access.require('MergeInsertIntoTable', resource, branch);
}

const actionsOf = (operations: readonly NamedOperation[]): ReadonlySet<Action> =>
  new Set(
    operations.flatMap(({ does }): Action[] => {
      const { action } = kindOf(does);
      const deletes = does.kind === 'merge_insert' && does.flags.whenNotMatchedBySourceDelete !== false;
      return deletes ? [action, 'DeleteFromTableBySource'] : [action];
    }),
  );
