/**
 * What the engine would store otherwise than a change says, and without an error. It converts new values to the types of their
 * columns and refuses what does not convert; but it makes infinity of a number that a shorter float cannot hold, a time of day of any
 * number, NULL of a field that the new value of a struct lacks, and drops a field that the column lacks.
 */
import { openBatch } from '../arrow/column/batch-buffers.ts';
import { type ColumnData, readBatch } from '../arrow/column/column-data.ts';
import { type IpcFile, readFooter } from '../arrow/format/ipc-file.ts';
import { formatFieldPath, parseFieldPath, quoteSegment, resolveField } from '../arrow/schema/field-path.ts';
import { readSchemaOfIpcFile } from '../arrow/schema/read-schema.ts';
import type { Field } from '../arrow/schema/schema.ts';
import type { ChangeStep, NewValue, UpdateStep } from '../engine/port/change.ts';
import type { Snapshot } from '../engine/port/dataset.ts';
import type { QuerySpec, RowQueries } from '../engine/port/query-spec.ts';
import { type CheckedSql, ownSql } from '../kernel/checked-sql.ts';
import { invalidInput, LancegateError } from '../kernel/errors.ts';
import { lanceType, rangeCheck } from './number-ranges.ts';

type ReadableRows = Pick<Snapshot, 'schema'> & Pick<RowQueries, 'query'>;

/** `InvalidInput` names the column and never a value: who changes a row may not be allowed to read it. */
export async function requireFittingValues(rows: ReadableRows, step: ChangeStep): Promise<void> {
  if (step.kind === 'update') {
    const { fields } = await rows.schema();
    for (const each of step.set) {
      const target = fields.find(({ name }) => name === each.column);
      if (target !== undefined) await requireFittingUpdate(rows, each, step, target);
    }
  }
  if (step.kind === 'alter columns') {
    for (const { path, dataType } of step.alterations)
      if (dataType !== undefined) await requireCast(rows, path, dataType);
  }
}

interface Values {
  readonly expression: CheckedSql;
  readonly where: CheckedSql | undefined;
  /** One row shows the value of all. */
  readonly isConstant: boolean;
}

async function requireFittingUpdate(
  rows: ReadableRows,
  { value: expression, isConstant = false }: NewValue,
  { where }: UpdateStep,
  target: Field,
): Promise<void> {
  const values = { expression, where, isConstant };
  const given = await givenField(rows, values);
  if (given === undefined) return;
  requireSameFields(given, target, [target.name]);
  await requireInRange(rows, values, given, target);
}

async function requireCast(rows: ReadableRows, path: string, dataType: string): Promise<void> {
  const { segments } = parseFieldPath(path);
  const given = resolveField(await rows.schema(), { segments });
  if (given === undefined) return;
  const expression = ownSql(segments.map(quoteSegment).join('.'));
  const target = { ...given, name: path, dictionary: undefined, ...lanceType(dataType) };
  await requireInRange(rows, { expression, where: undefined, isConstant: false }, given, target);
}

/** undefined where the expression is at fault, or makes what no column holds: the engine then says why when it runs the step. */
async function givenField(rows: ReadableRows, values: Values): Promise<Field | undefined> {
  try {
    for await (const file of rows.query(queryOf(values, 0)))
      return readSchemaOfIpcFile(file).fields.find(({ name }) => name === 'value');
  } catch (error) {
    if (!(error instanceof LancegateError) || error.kind === 'ReaderDied') throw error;
  }
  return undefined;
}

const queryOf = ({ expression, where, isConstant }: Values, limit = isConstant ? 1 : undefined): QuerySpec => ({
  columns: [{ name: 'value', expression }],
  filter: where,
  limit,
  offset: 0,
  orderBy: [],
  // The engine scans for no columns that are constants alone.
  withRowId: true,
  fastSearch: false,
  nearest: undefined,
  text: undefined,
});

/** Of structs, also in lists. */
function requireSameFields(given: Field, target: Field, path: readonly string[]): void {
  const areStructs = given.type.kind === 'struct' && target.type.kind === 'struct';
  for (const [i, child] of target.children.entries()) {
    const within = areStructs ? [...path, child.name] : path;
    const same = areStructs ? given.children.find(({ name }) => name === child.name) : given.children[i];
    if (same !== undefined) requireSameFields(same, child, within);
    else if (areStructs) throw otherFields(within, 'the new value lacks it; give it, or NULL');
  }
  if (!areStructs) return;
  const surplus = given.children.find(({ name }) => target.children.every((child) => child.name !== name));
  if (surplus !== undefined) throw otherFields([...path, surplus.name], 'the column has no such field');
}

const otherFields = (path: readonly string[], why: string): LancegateError =>
  invalidInput(`updates: ${formatFieldPath({ segments: path })}: ${why}`);

async function requireInRange(rows: ReadableRows, values: Values, given: Field, target: Field): Promise<void> {
  const check = rangeCheck(given, target);
  if (check === undefined) return;
  for await (const file of rows.query(queryOf(values))) {
    if (!batchesOf(file).every((data) => isAll(data.length, check(data)))) throw outOfRange(target.name);
  }
}

function isAll(length: number, isInRange: (index: number) => boolean): boolean {
  for (let row = 0; row < length; row++) if (!isInRange(row)) return false;
  return true;
}

/** Of the new values, batch by batch. */
function batchesOf(file: IpcFile): readonly ColumnData[] {
  const { fields } = readSchemaOfIpcFile(file);
  const at = fields.findIndex(({ name }) => name === 'value');
  return readFooter(file).batches.map((block) => readBatch(openBatch(file, block), fields)[at]!);
}

const outOfRange = (column: string): LancegateError =>
  invalidInput(`column ${column}: a number is out of the range of the type that it is converted to`);
