import Type, { type Static } from 'typebox';
import { formatFieldPath, parseFieldPath, resolveField } from '../../arrow/schema/field-path.ts';
import type { Schema } from '../../arrow/schema/schema.ts';
import type { StepWithFile } from '../../change/change-request.ts';
import { type ChangeCommand, changeOperation } from '../../change/submit-change.ts';
import { writeRoute } from '../../endpoint/json-route.ts';
import type { NewValue } from '../../engine/port/change.ts';
import { type CheckedSql, ownSql } from '../../kernel/checked-sql.ts';
import { invalidInput, LancegateError } from '../../kernel/errors.ts';
import { writeBounds } from '../../kernel/write-bounds.ts';
import { noLimits, TokenReader } from '../../sql/tokens.ts';
import { Count } from '../../wire/json-body.ts';
import type { ReadFilter } from '../../wire/merge-parameters.ts';

/** The new value of a column is an expression over the columns of the old row. */
interface ColumnUpdate {
  /** The client wrote it so. */
  readonly column: string;
  readonly value: CheckedSql;
}

export interface RowsUpdate {
  /** All rows are meant where it is undefined. */
  readonly predicate: CheckedSql | undefined;
  /** There is at least one. */
  readonly updates: readonly ColumnUpdate[];
}

/** Updates the rows of which the predicate is true. Where there is none, no version is made. */
const updateRows = changeOperation('update', async (command: ChangeCommand & RowsUpdate, table, { access }) => {
  const schema = await access.read(table, command.branch, undefined, (dataset) => dataset.schema());
  return { steps: [updateOf(command, schema)], bounds: writeBounds(command.bounds) };
});

export const UpdateBody = Type.Object({
  predicate: Type.Optional(Type.String()),
  // An update of more columns than tables have is a mistake.
  updates: Type.Array(Type.Tuple([Type.String(), Type.String()]), { maxItems: 10_000 }),
});

/** The LanceDB SDKs get `rows_updated` in place of `updated_rows`: with both names they would fail after the commit. */
export const updateRowsRoute = writeRoute(updateRows, {
  path: '/v1/table/:id/update',
  action: 'UpdateTable',
  summary: 'Updates the rows that a condition holds for',
  body: UpdateBody,
  isBounded: true,
  command: (body, on, { readFilter }) => ({ ...on, ...readUpdate(body, readFilter) }),
  answers: { updated_rows: Count },
  fields: ({ numUpdatedRows }, { hasTrailingSlash }) => ({
    [hasTrailingSlash ? 'rows_updated' : 'updated_rows']: numUpdatedRows,
  }),
});

export function readUpdate(body: Static<typeof UpdateBody>, readFilter: ReadFilter): RowsUpdate {
  if (body.updates.length === 0) throw invalidInput('updates: give at least one column and its new value');
  const predicate = body.predicate === undefined ? undefined : readFilter(body.predicate, 'predicate');
  const updates = body.updates.map(([column, value], index) => ({
    column,
    value: readFilter(value, `updates[${index}][1]`),
  }));
  return { predicate, updates };
}

/** The table has these columns. */
export function updateOf({ predicate: where, updates }: RowsUpdate, schema: Schema): StepWithFile {
  const columns = schema.fields.map(({ name }) => name);
  const set = updates.map(({ column: text, value }) => {
    const column = columnOf(schema, text);
    // Of a list that is written out the engine makes NULL where its length or an element does not fit a fixed-size
    // list; where it is computed the engine refuses that.
    return {
      column,
      value: /^[(\s]*\[/.test(value) ? ownSql(`coalesce(${value}, NULL)`) : value,
      isConstant: !readsRow(value, columns),
    };
  });
  const twice = set.find(({ column }, index) => set.findIndex((other) => other.column === column) < index);
  if (twice !== undefined) throw invalidInput(`updates: column ${twice.column} is given twice`);
  const [first = [], ...laterRounds] = roundsOf(set);
  const step = { kind: 'update', where, set: first, ...(laterRounds.length > 0 && { laterRounds }) } as const;
  return { step };
}

/** The engine updates whole columns only. */
function columnOf(schema: Schema, text: string): string {
  const isName = schema.fields.some(({ name }) => name === text);
  const path = isName ? { segments: [text] } : parseFieldPath(text, 'updates');
  const [column = ''] = path.segments;
  const shown = formatFieldPath(path);
  if (resolveField(schema, path) === undefined) {
    throw new LancegateError('TableColumnNotFound', `updates: the table has no column ${shown}`);
  }
  if (path.segments.length > 1)
    throw invalidInput(`updates: ${shown} is a part of a column; update ${column} as a whole`);
  return column;
}

/** Whether an expression may say something else of one row than of another; `columns` are those of the table. */
function readsRow(expression: CheckedSql, columns: readonly string[]): boolean {
  const names = namesIn(expression);
  return columns.some((name) => names.has(folded(name))) || [...names].some((name) => name.startsWith('_row'));
}

/** Each round but the first writes all updated rows once more. */
const mostRounds = 8;

/**
 * The assignments of one update in rounds, so that each expression sees the old row: it is evaluated before the columns that it
 * mentions are set. (The engine evaluates the assignments of one update one after the other, in an order that changes.) Any name in an
 * expression that is spelt like a column counts as one, also if it is a function. `InvalidInput` where no order will do.
 */
export function roundsOf(assignments: readonly NewValue[]): readonly (readonly NewValue[])[] {
  const mentions = new Map(assignments.map((each) => [each, namesIn(each.value)]));
  const rounds: (readonly NewValue[])[] = [];
  let left = assignments;
  while (left.length > 0) {
    const round = left.filter(
      (each) => !left.some((other) => other !== each && mentions.get(other)?.has(folded(each.column)) === true),
    );
    if (round.length === 0) throw circular(left);
    rounds.push(round);
    left = left.filter((each) => !round.includes(each));
  }
  if (rounds.length <= mostRounds) return rounds;
  throw invalidInput(
    `updates: more than ${mostRounds} columns get their values from one another in a chain: send several`,
  );
}

const circular = (left: readonly NewValue[]) =>
  invalidInput(
    `updates: the new values of ${left
      .slice(0, 3)
      .map(({ column }) => column)
      .join(', ')} need each other's old ones; set one of them in a request of its own, or through another column`,
  );

/** Only first segments count: a column is set as a whole. */
function namesIn(expression: CheckedSql): ReadonlySet<string> {
  const names = new Set<string>();
  const tokens = new TokenReader(expression, noLimits);
  while (tokens.peek().kind !== 'end') {
    const { kind, value } = tokens.take();
    if (kind === 'word') names.add(folded(value));
    if (kind === 'name') for (const name of [value, ...value.split('.')]) names.add(folded(name));
  }
  return names;
}

const folded = (name: string): string => name.toUpperCase().toLowerCase();
