import Type from 'typebox';
import { type FieldPath, formatFieldPath, resolveField } from '../../arrow/schema/field-path.ts';
import type { Field, Schema } from '../../arrow/schema/schema.ts';
import type { Action } from '../../auth/policy/actions.ts';
import type { WriteOperation } from '../../catalog/port.ts';
import type { StepWithFile } from '../../change/change-request.ts';
import { type ChangeCommand, changeOperation } from '../../change/submit-change.ts';
import { queryBranch, type RouteInput, tableTarget } from '../../endpoint/route.ts';
import type { ToldOfColumns } from '../../kernel/column-changes.ts';
import { invalidInput, LancegateError } from '../../kernel/errors.ts';
import { readDelimiter } from '../../wire/identifiers.ts';

export interface CheckedColumnStep extends StepWithFile {
  /** Throws what refuses the change of columns like these. */
  readonly check: (schema: Schema) => void;
}

/**
 * Makes an operation that changes columns. They are checked before the change waits for the branch, and again once it has it,
 * since others change them too.
 */
export const columnChange = <Command extends ChangeCommand>(
  operation: WriteOperation,
  stepOf: (command: Command) => CheckedColumnStep,
) =>
  changeOperation(operation, async (command: Command, table, { access }) => {
    const { check, ...step } = stepOf(command);
    const checked = await access.read(table, command.branch, undefined, (dataset) => dataset.schema());
    check(checked);
    return { steps: [step], fit: { checked, check } };
  });

/** `TableColumnNotFound`. `parameter` names what the path is from. */
export function requireColumn(schema: Schema, path: FieldPath, parameter: string): Field {
  const field = resolveField(schema, path);
  if (field !== undefined) return field;
  throw new LancegateError('TableColumnNotFound', `${parameter}: the table has no column ${formatFieldPath(path)}`);
}

/** Returns the columns with each field as `change` makes it; undefined for one that goes, with all that is in it. */
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

/** A request that changes more columns than this is a mistake. */
export const mostColumns = 1_000;

export const OrNull = <Schema extends Type.TSchema>(schema: Schema) => Type.Optional(Type.Union([schema, Type.Null()]));
export const listOf = <Schema extends Type.TSchema>(schema: Schema) =>
  Type.Array(schema, { minItems: 1, maxItems: mostColumns });

export const isGiven = <Value>(value: Value): value is NonNullable<Value> => value !== undefined && value !== null;

export const notComputed = (at: string): LancegateError =>
  new LancegateError(
    'Unsupported',
    `${at}: this service has no columns that are computed again; give an expression, which is computed once`,
  );

/** An entry of metadata may have so many. */
const mostCharacters = 2 ** 20;
/** One field, or a schema, may have so many. */
const mostEntries = 1_000;

export function requireFewTexts(metadata: Readonly<Record<string, string | null>>, what: string): void {
  const entries = Object.entries(metadata);
  if (entries.length > mostEntries) throw invalidInput(`${what} can have ${mostEntries} entries`);
  const characters = entries.reduce((sum, [key, value]) => sum + key.length + (value?.length ?? 0), 0);
  if (characters > mostCharacters) throw invalidInput(`${what} can have ${mostCharacters} characters`);
}

const TypedColumn = { name: Type.String(), type: Type.String() };

/** Fields of an answer to rows that may extend their table. */
export const columnFields = {
  added_columns: Type.Optional(Type.Array(Type.Object(TypedColumn))),
  widened_columns: Type.Optional(Type.Array(Type.Object({ ...TypedColumn, was: Type.String() }))),
};

export const columnsShown = ({ addedColumns, widenedColumns }: ToldOfColumns) => ({
  ...(addedColumns && { added_columns: addedColumns }),
  ...(widenedColumns && { widened_columns: widenedColumns }),
});

/** Returns table and branch of a request that has both in its path and query. */
export function authorized(input: RouteInput, action: Action) {
  const table = tableTarget.parse(input.id, readDelimiter(input.query), input.database);
  const branch = queryBranch(input);
  input.access.require(action, { kind: 'table', table }, branch);
  return { table, branch };
}
