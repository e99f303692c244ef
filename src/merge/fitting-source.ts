/** What a source must have to be merged into a table, and what the answer says of how it was taken. */
import { extensionOf, type SchemaExtension, type WidenedColumn } from '../arrow/schema/extended-schema.ts';
import { type FieldPath, formatFieldPath, refuseColumn, resolveField } from '../arrow/schema/field-path.ts';
import { isNull } from '../arrow/schema/fitted-schema.ts';
import { type IpcChunk, type Schema, typeName } from '../arrow/schema/schema.ts';
import { checkColumnsFit, checkSourceFits, checkStorable } from '../arrow/schema/schema-rules.ts';
import { withTypesOf } from '../arrow/schema/wider-types.ts';
import { LancegateError } from '../kernel/errors.ts';
import { type Taking, toldOfRules } from '../table/row-faults.ts';
import type { Told } from './batch.ts';
import type { MergeRowsCommand } from './merge-command.ts';
import { type KeyedRows, type Merged, type RowRules, requireVersions } from './row-rules.ts';

/** What an answer says of the rules that were in force. */
export const toldOf = ({
  rules,
  numDuplicateRows,
  invalid,
}: Taking<RowRules> & Pick<KeyedRows, 'numDuplicateRows'>): Told => ({
  ...(rules.onDuplicate !== 'refuse' && { numDuplicateRows }),
  ...toldOfRules({ rules, invalid }),
});

/**
 * The engine gets nested keys as one SQL list, which for a million of them blocks the event loop for seconds and takes
 * gigabytes.
 */
const mostNestedRows = 250_000;

export function requireFewNested({ rows }: IpcChunk, on: readonly FieldPath[]): void {
  const nested = on.find(({ segments }) => segments.length > 1);
  if (nested === undefined || rows <= mostNestedRows) return;
  throw new LancegateError(
    'BodyTooLarge',
    `a merge on a nested key such as ${formatFieldPath(nested)} can have ${mostNestedRows} rows, and this one has ${rows}: send fewer at a time`,
  );
}

export function requireStorable(source: Schema, on: readonly FieldPath[], rules: RowRules): void {
  for (const path of on) requireField(path, source, 'source');
  requireVersions(rules, source);
  checkStorable(source);
}

/** A column without NULL may be left out where the merge inserts nothing. */
export function requireFit(
  source: Schema,
  target: Schema,
  { on, flags }: Pick<MergeRowsCommand, 'on' | 'flags'>,
): void {
  for (const path of on) if (!isUnderNull(path, source)) requireField(path, source, 'source');
  for (const path of on) requireField(path, target, 'table');
  if (flags.whenNotMatchedInsertAll) checkSourceFits(source, target);
  else checkColumnsFit(source, target);
}

/**
 * Requires what `requireFit` does, and columns of versions that can be compared where a rule compares them. Rows that only delete
 * `mayLackColumns`.
 */
export function requireAllFit(
  source: Schema,
  target: Schema,
  { rules, ...merged }: Merged,
  mayLackColumns = false,
): void {
  const flags = { ...merged.flags, ...(mayLackColumns && { whenNotMatchedInsertAll: false }) };
  requireFit(source, target, { ...merged, flags });
  requireVersions(rules, source);
}

/** A key in a struct that is NULL in all rows. */
const isUnderNull = ({ segments }: FieldPath, source: Schema): boolean =>
  segments.some((_, i) => {
    const above = resolveField(source, { segments: segments.slice(0, i + 1) });
    return above !== undefined && isNull(above);
  });

function requireField(path: FieldPath, schema: Schema, where: 'table' | 'source'): void {
  if (resolveField(schema, path) !== undefined) return;
  throw new LancegateError('TableColumnNotFound', `on: the ${where} has no column ${formatFieldPath(path)}`);
}

/**
 * Requires that the source fits the table, or extends it where it may. Answers how it does; undefined where the table has room for
 * it. A key is the same key afterwards: its column is there, and no integer of it becomes a float.
 */
export function requireFitting(
  source: Schema,
  table: Schema,
  merged: Merged,
  mayLackColumns = false,
): SchemaExtension | undefined {
  if (!merged.rules.extends) {
    requireAllFit(source, table, merged, mayLackColumns);
    return undefined;
  }
  for (const path of merged.on) requireField(path, table, 'table');
  const extension = extensionOf(source, table);
  const { schema: after, widened } = extension ?? { schema: table, widened: [] };
  requireAllFit(withTypesOf(source, after), after, merged);
  const ofKey = ({ to }: WidenedColumn) => merged.on.some(({ segments }) => segments[0] === to.name);
  const key = widened.find((each) => ofKey(each) && each.from.type.kind === 'int' && each.to.type.kind === 'float');
  if (key === undefined) return extension;
  throw refuseColumn(
    [key.to.name],
    `is ${typeName(key.from)} in the table, and as a key it does not become ${typeName(key.to)}`,
  );
}
