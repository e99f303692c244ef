import Type, { type Static } from 'typebox';
import { refuseColumn } from '../../arrow/schema/field-path.ts';
import { mostFields } from '../../arrow/schema/read-schema.ts';
import type { Field, IpcChunk, Schema } from '../../arrow/schema/schema.ts';
import { checkColumnNames, checkStorableFields } from '../../arrow/schema/schema-rules.ts';
import type { ChangeCommand } from '../../change/submit-change.ts';
import { contentDecoder } from '../../endpoint/body/decoded-body.ts';
import { ArrowStream, arrowStreamType } from '../../endpoint/description.ts';
import { repeatOf, writeAnswer, writeRoute } from '../../endpoint/json-route.ts';
import { jsonAnswer, type Offer, type Route, type RouteInput } from '../../endpoint/route.ts';
import type { CheckedSql } from '../../kernel/checked-sql.ts';
import { invalidInput } from '../../kernel/errors.ts';
import type { ReadFilter } from '../../wire/merge-parameters.ts';
import {
  authorized,
  type CheckedColumnStep,
  columnChange,
  isGiven,
  listOf,
  notComputed,
  OrNull,
} from './change-columns.ts';

export interface AddedColumn {
  readonly name: string;
  /** It is computed once from each row. */
  readonly value: CheckedSql;
}

/** It has at least one column with its value, or the columns of a stream without rows, which are NULL in every row. */
type AddColumnsCommand = ChangeCommand & ({ readonly columns: readonly AddedColumn[] } | { readonly source: IpcChunk });

/** Adds columns to every row. */
const addColumns = columnChange('add_columns', (command: AddColumnsCommand) =>
  additionOf('source' in command ? command.source : command.columns),
);

export const additionOf = (columns: readonly AddedColumn[] | IpcChunk): CheckedColumnStep =>
  'schema' in columns ? ofNulls(columns) : ofValues(columns);

function ofValues(columns: readonly AddedColumn[]): CheckedColumnStep {
  const names = columns.map(({ name }) => name);
  checkColumnNames(names);
  return {
    step: { kind: 'add columns', columns },
    check: (schema) => requireNew(schema, names, names.length),
  };
}

function ofNulls({ schema: { fields }, rows, file }: IpcChunk): CheckedColumnStep {
  if (rows > 0) throw invalidInput('the stream must hold a schema alone: the new columns are NULL in every row');
  const names = fields.map(({ name }) => name);
  checkColumnNames(names);
  checkStorableFields(fields);
  const required = fields.find(({ nullable }) => !nullable);
  if (required !== undefined) throw refuseColumn([required.name], 'must be nullable: it is NULL in every row');
  return {
    step: { kind: 'add null columns' },
    file,
    check: (schema) => requireNew(schema, names, countFields(fields)),
  };
}

const countFields = (fields: readonly Field[]): number =>
  fields.reduce((sum, { children }) => sum + 1 + countFields(children), 0);

function requireNew({ fields }: Schema, names: readonly string[], added: number): void {
  const known = fields.find(({ name }) => names.includes(name));
  if (known !== undefined) throw refuseColumn([known.name], 'exists in the table already');
  if (countFields(fields) + added <= mostFields) return;
  throw invalidInput(`new_columns: a table can have ${mostFields} columns, those inside others included`);
}

export const AddColumnsBody = Type.Object({
  new_columns: listOf(
    Type.Object({
      name: Type.String(),
      expression: OrNull(Type.String()),
      computed: Type.Optional(Type.Unknown()),
      virtual_column: Type.Optional(Type.Unknown()),
    }),
  ),
  auto_refresh_enabled: Type.Optional(Type.Boolean()),
});

export function readNewColumns(
  { new_columns: columns, auto_refresh_enabled: isRefreshed }: Static<typeof AddColumnsBody>,
  readFilter: ReadFilter,
): readonly { readonly name: string; readonly value: CheckedSql }[] {
  if (isRefreshed === true) throw notComputed('auto_refresh_enabled');
  return columns.map(({ name, expression, computed, virtual_column: virtual }, index) => {
    const at = `new_columns[${index}]`;
    if (isGiven(computed)) throw notComputed(`${at}.computed`);
    if (isGiven(virtual)) throw notComputed(`${at}.virtual_column`);
    if (!isGiven(expression)) throw invalidInput(`${at} lacks expression`);
    return { name, value: readFilter(expression, `${at}.expression`) };
  });
}

const addColumnsPath = '/v1/table/:id/add_columns';

type AddColumns = ReturnType<typeof addColumns>;

const addByExpression = writeRoute(addColumns, {
  path: addColumnsPath,
  action: 'AlterTableAddColumns',
  summary: 'Adds columns',
  body: AddColumnsBody,
  command: (body, on, { readFilter }) => ({ ...on, columns: readNewColumns(body, readFilter) }),
});

/** The body is an Arrow stream that holds a schema alone. */
function addBySchema(operation: AddColumns, input: RouteInput): ReturnType<Route['prepare']> {
  const { table, branch } = authorized(input, 'AlterTableAddColumns');
  contentDecoder(input.headers['content-encoding']);
  return {
    body: 'arrow-whole',
    table,
    answer: async (upload) => {
      const { source: arriving, digest } = upload.digestedSource();
      try {
        const source = await arriving.whole();
        const idempotency = repeatOf(input.headers, `${addColumnsPath} ${await digest()}`);
        const result = await operation({ table, branch, source, idempotency }, input.scope);
        return jsonAnswer(writeAnswer(input, result, {}));
      } finally {
        arriving.close();
      }
    },
  };
}

const isArrow = ({ headers }: RouteInput): boolean =>
  /^application\/vnd\.apache\.arrow\.(?:stream|file)\b/i.test(headers['content-type'] ?? '');

/** New columns come as JSON, each with an expression, or as an Arrow schema, and then they are NULL in every row. */
export const addColumnsRoute: Offer<typeof addColumns> = {
  make: addColumns,
  routeTo(operation) {
    const route = addByExpression.routeTo(operation);
    const { description } = route;
    const bodies = { ...description?.bodies, [arrowStreamType]: ArrowStream };
    return {
      ...route,
      ...(description && { description: { ...description, bodies } }),
      prepare: (input) => (isArrow(input) ? addBySchema(operation, input) : route.prepare(input)),
    };
  },
};
