/**
 * Several operations on a table branch as one commit: all of them are in one version, or nothing is written (P1). They are applied in
 * their order in one shadow, each to the rows and columns that those before it leave.
 */
import type { Schema } from '../../arrow/schema/schema.ts';
import { type ChangeDeps, submitChange } from '../../change/submit-change.ts';
import type { Datasets } from '../../engine/port/engine.ts';
import type { MergeTotals } from '../../engine/port/shadow.ts';
import type { Idempotency, Keyed, Replayable } from '../../idempotency/idempotency.ts';
import { invalidInput } from '../../kernel/errors.ts';
import type { TransactionId } from '../../kernel/ids.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import type { KeyHasher } from '../../keys/key-hasher.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import { PlannedOperation } from './operation-step.ts';
import { sourceOf, type TransactCommand } from './transact-command.ts';

type TransactDeps = ChangeDeps & {
  readonly idempotency: Idempotency;
  readonly engine: Datasets;
  readonly keyHasher: KeyHasher;
  readonly metrics: Metrics;
};

interface OperationTotals extends MergeTotals {
  readonly name: string;
  readonly operation: string;
}

interface TransactResult extends MergeTotals {
  readonly transactionId: TransactionId;
  readonly version: number;
  readonly operations: readonly OperationTotals[];
}

const nothing: MergeTotals = { numInsertedRows: 0, numUpdatedRows: 0, numDeletedRows: 0 };

export const transact =
  ({ idempotency, ...deps }: TransactDeps) =>
  async (command: TransactCommand, scope: RequestScope): Promise<Replayable<TransactResult>> => {
    const { each = [], ...result } = await idempotency.once('transact', command, scope, (keyed) =>
      run(deps, command, scope, keyed),
    );
    const operations = command.operations.map(({ name, does }, index) => {
      const { numInsertedRows, numUpdatedRows, numDeletedRows } = each[index] ?? nothing;
      return { name, operation: does.kind, numInsertedRows, numUpdatedRows, numDeletedRows };
    });
    return { ...result, operations };
  };

/** The sources are received completely before the request waits for a lock, so no other client waits on this client's network. */
async function run(
  deps: Omit<TransactDeps, 'idempotency'>,
  command: TransactCommand,
  scope: RequestScope,
  keyed: Keyed | undefined,
) {
  const { access, metrics } = deps;
  const { branch } = command;
  const table = await access.findCreated(command.table);
  const columns = await access.read(table, branch, undefined, (dataset) => dataset.columns());
  const steps = command.operations.map((operation) => new PlannedOperation(operation, { ...deps, branch, scope }));
  const foreseeable = thatFindTheTable(steps);
  for (const step of foreseeable) if (!step.lacksSource) await step.prepare(columns);
  await metrics.writeStage('receive', () => receive(command, steps, foreseeable, columns.schema));
  await metrics.writeStage('check', async () => {
    for (const step of foreseeable) await step.prepare(columns);
  });
  return submitChange(deps, { operation: 'transact', table, branch, steps }, scope, keyed);
}

/**
 * Those that find the columns of the table, up to the first that changes them: they are refused before the request waits for the
 * lock, and again in the shadow, since others change columns too.
 */
function thatFindTheTable(steps: readonly PlannedOperation[]): readonly PlannedOperation[] {
  const first = steps.findIndex(({ changesRowsOnly }) => !changesRowsOnly);
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
