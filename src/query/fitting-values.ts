/**
 * The engine stores some values otherwise than a change says, and without an error. It converts new values to the types of
 * their columns and refuses what does not convert; but it makes infinity of a number that a shorter float cannot hold, a time
 * of day of any number, a number at the other end of a sum that is too large, NULL of a field that the new value of a struct
 * lacks, and drops a field that the column lacks.
 */
import { openBatch } from '../arrow/column/batch-buffers.ts';
import { type ColumnData, readBatch } from '../arrow/column/column-data.ts';
import { type IpcFile, readFooter } from '../arrow/format/ipc-file.ts';
import { formatFieldPath, parseFieldPath, quoteSegment, resolveField } from '../arrow/schema/field-path.ts';
import { readSchemaOfIpcFile } from '../arrow/schema/read-schema.ts';
import type { Field } from '../arrow/schema/schema.ts';
import { checkStorableFields } from '../arrow/schema/schema-rules.ts';
import type { ChangeStep, ColumnChange, NewColumn, UpdateStep } from '../engine/port/change.ts';
import type { Snapshot } from '../engine/port/dataset.ts';
import type { QuerySpec, RowQueries } from '../engine/port/query-spec.ts';
import { type CheckedSql, ownSql } from '../kernel/checked-sql.ts';
import { invalidInput, LancegateError } from '../kernel/errors.ts';
import { paired } from '../kernel/paired.ts';
import {
  hasInexactNumber,
  infiniteByDefinition,
  inputsOf,
  lossOf,
  stepsOf,
  type TypesOfSteps,
} from './exact-values.ts';
import { endCheck, lanceType, type RangeCheck, rangeCheck } from './number-ranges.ts';

type ReadableRows = Pick<Snapshot, 'schema'> & Pick<RowQueries, 'query'>;

/** `InvalidInput` names the column and never a value: who changes a row may not be allowed to read it. */
export async function requireFittingValues(rows: ReadableRows, step: ChangeStep): Promise<void> {
  if (step.kind === 'update') await requireFittingUpdate(rows, step);
  if (step.kind === 'add columns') await requireExactColumns(rows, step.columns);
  if (step.kind === 'alter columns') await requireFittingCasts(rows, step.alterations);
}

/** A column gets new values by an expression over the rows. */
interface Expression {
  readonly column: string;
  readonly expression: CheckedSql;
}

interface Value extends Expression {
  readonly target: Field;
  /** One row shows the value of all. */
  readonly isConstant: boolean;
}

type Typed<Kind extends Expression> = Kind & {
  /** The expression makes it. */
  readonly given: Field;
};

async function requireFittingUpdate(rows: ReadableRows, { set, where }: UpdateStep): Promise<void> {
  const { fields } = await rows.schema();
  const values = set.flatMap(({ column, value: expression, isConstant = false }) => {
    const target = fields.find(({ name }) => name === column);
    if (target !== undefined) requireExactNumbers(target, expression);
    const isOfInterest = target !== undefined && (isLoose(target, expression) || mayLose(expression));
    return isOfInterest ? [{ column, expression, target, isConstant }] : [];
  });
  const given = await withTypes(rows, values, where);
  for (const { given: from, target } of given) requireSameFields(from, target, [target.name]);
  await requireInRange(rows, given, where);
  await requireExact(rows, given, where);
}

/** New columns have the types of their expressions. */
async function requireExactColumns(rows: ReadableRows, columns: readonly NewColumn[]): Promise<void> {
  const values = columns.map(({ name: column, value: expression }) => ({ column, expression }));
  const given = await withTypes(rows, values, undefined);
  checkStorableFields(given.map(({ given: field, column }) => ({ ...field, name: column })));
  for (const { given: field, column, expression } of given) requireExactNumbers({ ...field, name: column }, expression);
  const targeted = given.map((value) => ({ ...value, target: value.given, isConstant: false }));
  await requireInRange(rows, targeted, undefined);
  await requireExact(rows, targeted, undefined);
}

/** Text is the one form in which the engine reads all digits of a decimal. */
function requireExactNumbers(target: Field, expression: CheckedSql): void {
  if (!holdsDecimals(target) || !hasInexactNumber(expression)) return;
  throw invalidInput(
    `column ${target.name}: a number of more than 15 digits has to be written as a text, such as '1.5', to become a decimal with all of them`,
  );
}

const holdsDecimals = ({ type, children: [element] }: Field): boolean =>
  type.kind === 'decimal' || (type.kind.endsWith('list') && element !== undefined && holdsDecimals(element));

/** Says whether an expression computes: it is neither a column alone nor a constant. */
const mayLose = (expression: CheckedSql): boolean => /[-+*(]/.test(expression);

interface ExactValue extends Expression {
  readonly target: Field;
}

async function requireExact(
  rows: ReadableRows,
  values: readonly Typed<ExactValue>[],
  where: CheckedSql | undefined,
): Promise<void> {
  const { fields } = await rows.schema();
  const types = await typesOfSteps(rows, values, where);
  for (const { column, expression, given, target } of values) {
    const loss = lossOf(expression, types, fields, given.type, target.type);
    const isLost = loss !== undefined && (await isTrueOfRow(rows, loss, where));
    if (isLost || (await makesEnds(rows, { column, expression, given }, where))) throw outOfRangeOf(column);
  }
}

/** Says whether there is infinity inside of a list or struct, and in none of the columns that it was computed with. */
async function makesEnds(
  rows: ReadableRows,
  { column, expression, given }: Typed<Expression>,
  where: CheckedSql | undefined,
): Promise<boolean> {
  const isWithin = endCheck(given);
  if (given.children.length === 0 || isWithin === undefined) return false;
  if (!mayLose(expression) || infiniteByDefinition.test(expression)) return false;
  const inputs = inputsOf(expression, (await rows.schema()).fields).flatMap((field) => {
    const check = endCheck(field);
    return check === undefined ? [] : [{ column: field.name, expression: ownSql(quoteSegment(field.name)), check }];
  });
  const query = queryOf([{ column, expression }, ...inputs], where);
  const found = await unlessRefused(async () => {
    for await (const file of rows.query(query)) {
      for (const columnAt of batchesOf(file)) {
        const made = columnAt(0);
        const isMadeWithin = isWithin(made);
        const areWithin = inputs.map(({ check }, i) => check(columnAt(i + 1)));
        if (isAny(made.length, (row) => !isMadeWithin(row) && areWithin.every((is) => is(row)))) return true;
      }
    }
    return undefined;
  });
  return found === true;
}

async function typesOfSteps(
  rows: ReadableRows,
  values: readonly Expression[],
  where: CheckedSql | undefined,
): Promise<TypesOfSteps> {
  const steps = values.flatMap(({ column, expression }) =>
    stepsOf(expression).map((step) => ({ column, expression: step })),
  );
  const known = await withTypes(rows, steps, where);
  return new Map(known.map(({ expression, given }) => [expression, given.type]));
}

/** Returns false where the engine refuses to tell. */
async function isTrueOfRow(rows: ReadableRows, condition: CheckedSql, where: CheckedSql | undefined): Promise<boolean> {
  const filter = where === undefined ? condition : ownSql(`(${where}) AND (${condition})`);
  const found = await unlessRefused(async () => {
    for await (const file of rows.query(queryOf([], filter, 1))) {
      if (readFooter(file).batches.some((block) => openBatch(file, block).rows > 0)) return true;
    }
    return undefined;
  });
  return found === true;
}

async function requireFittingCasts(rows: ReadableRows, alterations: readonly ColumnChange[]): Promise<void> {
  const schema = await rows.schema();
  const values = alterations.flatMap(({ path, dataType }) => {
    const { segments } = parseFieldPath(path);
    const given = resolveField(schema, { segments });
    if (dataType === undefined || given === undefined) return [];
    const expression = ownSql(segments.map(quoteSegment).join('.'));
    const target = { ...given, name: path, dictionary: undefined, ...lanceType(dataType) };
    return [{ column: path, expression, target, given, isConstant: false }];
  });
  await requireInRange(rows, values, undefined);
}

/** Into other types the engine converts strictly. The longest float has room for every number in SQL, though not for each in a text. */
const isLoose = ({ type, children }: Field, expression: CheckedSql): boolean =>
  (type.kind === 'float' && (type.bitWidth < 64 || !/^-? *[\d.]/.test(expression))) ||
  type.kind === 'time' ||
  type.kind === 'struct' ||
  children.some((child) => isLoose(child, expression));

/** Leaves out those whose expressions are at fault, or make what no column holds: the engine says why when it runs the step. */
async function withTypes<Kind extends Expression>(
  rows: ReadableRows,
  values: readonly Kind[],
  where: CheckedSql | undefined,
): Promise<readonly Typed<Kind>[]> {
  if (values.length === 0) return [];
  const fields = await unlessRefused(async () => {
    for await (const file of rows.query(queryOf(values, where, 0))) {
      return new Map(readSchemaOfIpcFile(file).fields.map((field) => [field.name, field]));
    }
    return undefined;
  });
  if (fields !== undefined) return values.map((value, i) => ({ ...value, given: ofValue(i, fields) }));
  if (values.length === 1) return [];
  const half = Math.ceil(values.length / 2);
  const [first, second] = [values.slice(0, half), values.slice(half)];
  return [...(await withTypes(rows, first, where)), ...(await withTypes(rows, second, where))];
}

const nameOf = (index: number): string => `value ${index}`;

const queryOf = (values: readonly Expression[], where: CheckedSql | undefined, limit?: number): QuerySpec => ({
  columns: values.map(({ expression }, i) => ({ name: nameOf(i), expression })),
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

/** Returns undefined where the engine refuses the query, as it will the step. */
async function unlessRefused<Result>(run: () => Promise<Result | undefined>): Promise<Result | undefined> {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof LancegateError) || error.kind === 'ReaderDied') throw error;
    return undefined;
  }
}

/** Structs are compared, also in lists. */
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

async function requireInRange(
  rows: ReadableRows,
  values: readonly Typed<Value>[],
  where: CheckedSql | undefined,
): Promise<void> {
  const ranged = values.flatMap((value) => {
    const check = rangeCheck(value.given, value.target);
    return check === undefined ? [] : [{ ...value, check }];
  });
  const [constant, others] = [ranged.filter(isOfAllRows), ranged.filter((value) => !isOfAllRows(value))];
  const wrong =
    (await unlessRefused(() => outOfRange(rows, constant, queryOf(constant, where, 1)))) ??
    (await unlessRefused(() => outOfRange(rows, others, queryOf(others, where))));
  if (wrong === undefined) return;
  throw outOfRangeOf(wrong.column);
}

const outOfRangeOf = (column: string): LancegateError =>
  invalidInput(`column ${column}: a number is out of the range of the type that it is converted to`);

const isOfAllRows = ({ isConstant }: Value): boolean => isConstant;

async function outOfRange(
  rows: ReadableRows,
  values: readonly Ranged[],
  query: QuerySpec,
): Promise<Ranged | undefined> {
  if (values.length === 0) return undefined;
  for await (const file of rows.query(query)) {
    for (const columnAt of batchesOf(file)) {
      const wrong = values.find(({ check }, i) => {
        const data = columnAt(i);
        const isInRange = check(data);
        return isAny(data.length, (row) => !isInRange(row));
      });
      if (wrong !== undefined) return wrong;
    }
  }
  return undefined;
}

type Ranged = Value & { readonly check: RangeCheck };

function isAny(length: number, is: (row: number) => boolean): boolean {
  for (let row = 0; row < length; row++) if (is(row)) return true;
  return false;
}

/** Returns how to find the column of each value of the query, batch by batch. */
function batchesOf(file: IpcFile): readonly ((value: number) => ColumnData)[] {
  const { fields } = readSchemaOfIpcFile(file);
  return readFooter(file).batches.map((block) => {
    const pairs = paired(fields, readBatch(openBatch(file, block), fields));
    const columns = new Map(pairs.map(([{ name }, data]) => [name, data]));
    return (value) => ofValue(value, columns);
  });
}

function ofValue<Part>(value: number, parts: ReadonlyMap<string, Part>): Part {
  const part = parts.get(nameOf(value));
  if (part === undefined) throw new LancegateError('Internal', 'the engine has left out a column of a query');
  return part;
}
