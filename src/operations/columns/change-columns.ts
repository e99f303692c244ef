import { type FieldPath, formatFieldPath, resolveField, sameFieldPath } from '../../arrow/schema/field-path.ts';
import type { Field, Schema } from '../../arrow/schema/schema.ts';
import type { WriteOperation } from '../../catalog/port.ts';
import type { FiledStep } from '../../change/change-request.ts';
import { type ChangeDeps, type ChangeResult, submitChange } from '../../change/submit-change.ts';
import type { Idempotency, IdempotencyHeader, Replayable } from '../../idempotency/idempotency.ts';
import { invalidInput, LancegateError } from '../../kernel/errors.ts';
import type { BranchName, TableRef } from '../../kernel/ids.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';

export type ColumnDeps = ChangeDeps & { readonly idempotency: Idempotency };

/** What every change of columns says. */
export interface ColumnCommand {
  readonly table: TableRef;
  readonly branch: BranchName | undefined;
  readonly idempotency: IdempotencyHeader | undefined;
}

export interface CheckedColumnStep {
  readonly step: FiledStep;
  /** Throws what refuses the change of columns like these. */
  readonly check: (schema: Schema) => void;
}

/**
 * An operation that changes columns. They are checked before the change waits for the branch, and again once it has it, since others
 * change them too.
 */
export const columnChange =
  <Command extends ColumnCommand>(operation: WriteOperation, stepOf: (command: Command) => CheckedColumnStep) =>
  ({ idempotency, ...deps }: ColumnDeps) =>
  (command: Command, scope: RequestScope): Promise<Replayable<ChangeResult>> =>
    idempotency.once(operation, command, scope, async (keyed) => {
      const { branch } = command;
      const { step, check } = stepOf(command);
      const table = await deps.access.findCreated(command.table);
      const checked = await deps.access.read(table, branch, undefined, (dataset) => dataset.schema());
      check(checked);
      return submitChange(deps, { operation, table, branch, steps: [step], fit: { checked, check } }, scope, keyed);
    });

/** `TableColumnNotFound`. `parameter` names what the path is from. */
export function requireColumn(schema: Schema, path: FieldPath, parameter: string): Field {
  const field = resolveField(schema, path);
  if (field !== undefined) return field;
  throw new LancegateError('TableColumnNotFound', `${parameter}: the table has no column ${formatFieldPath(path)}`);
}

export function requireOnce(paths: readonly FieldPath[], parameter: string): void {
  const twice = paths.find((path, index) => paths.findIndex((other) => sameFieldPath(other, path)) < index);
  if (twice !== undefined) throw invalidInput(`${parameter}: ${formatFieldPath(twice)} is given twice`);
}

/** The columns with each field as `change` makes it; undefined for one that goes, with all that is in it. */
export function mapFields(
  fields: readonly Field[],
  change: (field: Field, path: FieldPath) => Field | undefined,
  parent: readonly string[] = [],
): readonly Field[] {
  return fields.flatMap((field) => {
    const segments = [...parent, field.name];
    const changed = change(field, { segments });
    return changed === undefined ? [] : { ...changed, children: mapFields(changed.children, change, segments) };
  });
}
