import { refuseColumn } from '../../arrow/schema/field-path.ts';
import type { Field, IpcChunk, Schema } from '../../arrow/schema/schema.ts';
import { checkColumnNames, checkStorableFields } from '../../arrow/schema/schema-rules.ts';
import type { CheckedSql } from '../../kernel/checked-sql.ts';
import { invalidInput } from '../../kernel/errors.ts';
import { type CheckedColumnStep, type ColumnCommand, columnChange } from './change-columns.ts';

export interface AddedColumn {
  readonly name: string;
  /** Computed once from each row. */
  readonly value: CheckedSql;
}

/** At least one column with its value, or the columns of a stream without rows, which are NULL in every row. */
type AddColumnsCommand = ColumnCommand & ({ readonly columns: readonly AddedColumn[] } | { readonly source: IpcChunk });

/** Adds columns to every row. */
export const addColumns = columnChange('add_columns', (command: AddColumnsCommand) =>
  additionOf('source' in command ? command.source : command.columns),
);

export const additionOf = (columns: readonly AddedColumn[] | IpcChunk): CheckedColumnStep =>
  'schema' in columns ? ofNulls(columns) : ofValues(columns);

function ofValues(columns: readonly AddedColumn[]): CheckedColumnStep {
  const names = columns.map(({ name }) => name);
  checkColumnNames(names);
  return {
    step: { step: { kind: 'add columns', columns }, file: undefined },
    check: (schema) => requireNew(schema, names, names.length),
  };
}

function ofNulls({ schema: { fields }, rows, file }: IpcChunk): CheckedColumnStep {
  if (rows > 0) throw invalidInput('the stream must hold a schema alone: the new columns are NULL in every row');
  const names = fields.map(({ name }) => name);
  checkColumnNames(names);
  checkStorableFields(fields, []);
  const required = fields.find(({ nullable }) => !nullable);
  if (required !== undefined) throw refuseColumn([required.name], 'must be nullable: it is NULL in every row');
  return {
    step: { step: { kind: 'add null columns' }, file },
    check: (schema) => requireNew(schema, names, countFields(fields)),
  };
}

/** With those inside others. As many as a source may have (`read-schema.ts`). */
const mostFields = 10_000;

const countFields = (fields: readonly Field[]): number =>
  fields.reduce((sum, { children }) => sum + 1 + countFields(children), 0);

function requireNew({ fields }: Schema, names: readonly string[], added: number): void {
  const known = fields.find(({ name }) => names.includes(name));
  if (known !== undefined) throw refuseColumn([known.name], 'exists in the table already');
  if (countFields(fields) + added <= mostFields) return;
  throw invalidInput(`new_columns: a table can have ${mostFields} columns, those inside others included`);
}
