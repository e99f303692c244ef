/** One request can have several operations of these kinds, each with its JSON; docs/protocol.md has the rules. */
import Type, { type TObject } from 'typebox';
import type { FieldPath } from '../../arrow/schema/field-path.ts';
import type { IpcChunk, Schema } from '../../arrow/schema/schema.ts';
import type { Action } from '../../auth/policy/actions.ts';
import type { StepWithFile } from '../../change/change-request.ts';
import type { CheckedSql } from '../../kernel/checked-sql.ts';
import { invalidInput, LancegateError } from '../../kernel/errors.ts';
import { isObject } from '../../kernel/json-bounds.ts';
import type { MergeFlags } from '../../merge/merge-command.ts';
import { readRules } from '../../merge/row-rules.ts';
import { type RuleTexts, readSchemaMode, schemaModes } from '../../table/standing-rules.ts';
import { choiceOf } from '../../wire/choices.ts';
import { parseJson, readFields } from '../../wire/json-body.ts';
import { checkNames, type NameCheck } from '../../wire/known-names.ts';
import { type ReadFilter, readMergeParameters } from '../../wire/merge-parameters.ts';
import { QueryParameters } from '../../wire/query-parameters.ts';
import { AddColumnsBody, type AddedColumn, additionOf, readNewColumns } from '../columns/add-columns.ts';
import { type Alteration, AlterColumnsBody, alterationOf, readAlterations } from '../columns/alter-columns.ts';
import type { CheckedColumnStep } from '../columns/change-columns.ts';
import { DropColumnsBody, readColumnPaths, removalOf } from '../columns/drop-columns.ts';
import {
  type MetadataUpdate,
  metadataChangeOf,
  readMetadataUpdates,
  UpdateFieldMetadataBody,
} from '../columns/update-field-metadata.ts';
import { DeleteBody, deletion } from '../rows/delete-rows.ts';
import { type RowsUpdate, readUpdate, UpdateBody, updateOf } from '../rows/update-rows.ts';

/** The rows, or columns, of an operation are those of the source that it names. */
export type TransactOperation =
  | { readonly kind: 'insert'; readonly source: string; readonly rules: RuleTexts }
  | {
      readonly kind: 'merge_insert';
      readonly source: string;
      readonly on: readonly FieldPath[];
      readonly flags: MergeFlags;
      readonly rules: RuleTexts;
    }
  | ({ readonly kind: 'update' } & RowsUpdate)
  | { readonly kind: 'delete'; readonly predicate: CheckedSql }
  | { readonly kind: 'add_columns'; readonly columns: readonly AddedColumn[] }
  | { readonly kind: 'add_columns'; readonly source: string }
  | { readonly kind: 'alter_columns'; readonly alterations: readonly Alteration[] }
  | { readonly kind: 'drop_columns'; readonly columns: readonly FieldPath[] }
  | { readonly kind: 'update_field_metadata'; readonly updates: readonly MetadataUpdate[] };

export interface NamedOperation {
  /** No two have the same. */
  readonly name: string;
  readonly does: TransactOperation;
}

/** An operation may name a source. */
export const sourceOf = (operation: TransactOperation): string | undefined =>
  'source' in operation ? operation.source : undefined;

/** Returns a refusal that names the operation. */
export const ofOperation = (name: string, error: unknown): unknown =>
  error instanceof LancegateError
    ? new LancegateError(error.kind, `operation ${name}: ${error.message}`, {
        cause: error.cause,
        ...(error.internal && { internal: error.internal }),
        ...(error.retryAfterSeconds !== undefined && { retryAfterSeconds: error.retryAfterSeconds }),
      })
    : error;

/** It is any text: a part of the body must have the name. */
const Source = Type.String();

const SchemaMode = choiceOf(schemaModes);

const InsertOperation = Type.Object({
  source: Source,
  mode: Type.Optional(Type.Literal('append')),
  schema: SchemaMode,
});

/** It has the names of the parameters of `merge_insert`. */
const MergeOperation = Type.Object({
  source: Source,
  on: Type.Union([Type.String(), Type.Array(Type.String(), { maxItems: 1_000 })]),
  when_matched_update_all: Type.Optional(Type.Boolean()),
  when_matched_update_all_filt: Type.Optional(Type.String()),
  when_not_matched_insert_all: Type.Optional(Type.Boolean()),
  when_not_matched_by_source_delete: Type.Optional(Type.Boolean()),
  when_not_matched_by_source_delete_filt: Type.Optional(Type.String()),
  on_duplicate: Type.Optional(Type.String()),
  version_column: Type.Optional(Type.String()),
  tombstone: Type.Optional(Type.Literal('')),
  key_required: Type.Optional(Type.Boolean()),
  use_index: Type.Optional(Type.Boolean()),
  schema: SchemaMode,
});

const AddNullColumns = Type.Object({ source: Source });

const named = <Kind extends string, Schema extends TObject>(operation: Kind, { properties }: Schema) =>
  Type.Object({ operation: Type.Literal(operation), ...properties });

/** Any operation has this body. */
export const OperationBody = Type.Union([
  named('insert', InsertOperation),
  named('merge_insert', MergeOperation),
  named('update', UpdateBody),
  named('delete', DeleteBody),
  named('add_columns', AddColumnsBody),
  named('add_columns', AddNullColumns),
  named('alter_columns', AlterColumnsBody),
  named('drop_columns', DropColumnsBody),
  named('update_field_metadata', UpdateFieldMetadataBody),
]);

interface OperationReaders {
  readonly readFilter: ReadFilter;
  readonly checkNames: NameCheck;
}

/** A kind of operation says everything of it, but for how rows of a source are written. */
interface OperationKind<Does> {
  /** What the policy decides on. */
  readonly action: Action;
  /** It leaves the columns and their metadata as they are. */
  readonly changesRowsOnly: boolean;
  read(fields: object, readers: OperationReaders): Does;
  /** What it does to a table with these columns; of those that write no rows of a source. */
  stepOf?(does: Does, source: IpcChunk | undefined, schema: Schema): StepWithFile;
}

type Kinds = {
  readonly [Kind in TransactOperation['kind']]: OperationKind<Extract<TransactOperation, { readonly kind: Kind }>>;
};

const kinds: Kinds = {
  insert: {
    action: 'InsertIntoTable',
    changesRowsOnly: true,
    read: (fields, readers) => {
      const { source, schema } = read(InsertOperation, fields, readers);
      const rules = schema === undefined ? {} : { schema };
      readSchemaMode(rules);
      return { kind: 'insert', source, rules };
    },
  },
  merge_insert: { action: 'MergeInsertIntoTable', changesRowsOnly: true, read: readMerge },
  update: {
    action: 'UpdateTable',
    changesRowsOnly: true,
    read: (fields, readers) => ({
      kind: 'update',
      ...readUpdate(read(UpdateBody, fields, readers), readers.readFilter),
    }),
    stepOf: (does, _, schema) => updateOf(does, schema),
  },
  delete: {
    action: 'DeleteFromTable',
    changesRowsOnly: true,
    read: (fields, readers) => ({
      kind: 'delete',
      predicate: readers.readFilter(read(DeleteBody, fields, readers).predicate, 'predicate'),
    }),
    stepOf: ({ predicate }) => deletion(predicate),
  },
  add_columns: {
    action: 'AlterTableAddColumns',
    changesRowsOnly: false,
    read: (fields, readers) =>
      'source' in fields
        ? { kind: 'add_columns', source: read(AddNullColumns, fields, readers).source }
        : {
            kind: 'add_columns',
            columns: readNewColumns(read(AddColumnsBody, fields, readers), readers.readFilter),
          },
    stepOf: (does, source, schema) => checked(additionOf('source' in does ? received(source) : does.columns), schema),
  },
  alter_columns: {
    action: 'AlterTableAlterColumns',
    changesRowsOnly: false,
    read: (fields, readers) => ({
      kind: 'alter_columns',
      alterations: readAlterations(read(AlterColumnsBody, fields, readers)),
    }),
    stepOf: ({ alterations }, _, schema) => checked(alterationOf(alterations), schema),
  },
  drop_columns: {
    action: 'AlterTableDropColumns',
    changesRowsOnly: false,
    read: (fields, readers) => ({
      kind: 'drop_columns',
      columns: readColumnPaths(read(DropColumnsBody, fields, readers)),
    }),
    stepOf: ({ columns }, _, schema) => checked(removalOf(columns), schema),
  },
  update_field_metadata: {
    action: 'UpdateFieldMetadata',
    changesRowsOnly: false,
    read: (fields, readers) => ({
      kind: 'update_field_metadata',
      updates: readMetadataUpdates(read(UpdateFieldMetadataBody, fields, readers)),
    }),
    stepOf: ({ updates }, _, schema) => checked(metadataChangeOf(updates), schema),
  },
};

export function kindOf<Does extends TransactOperation>(does: Does): OperationKind<Does> {
  const kind: unknown = kinds[does.kind];
  return kind as OperationKind<Does>;
}

/** Every kind has its action among these. */
export const operationActions: readonly Action[] = Object.values(kinds).map(({ action }) => action);

export function received(source: IpcChunk | undefined): IpcChunk {
  if (source === undefined) throw new LancegateError('Internal', 'an operation came before its source');
  return source;
}

function checked(step: CheckedColumnStep, schema: Schema): StepWithFile {
  step.check(schema);
  return step;
}

/** `InvalidInput` and `Unsupported` name the operation and the field. */
export function readOperation(
  name: string,
  text: string,
  { readFilter, checkNames }: OperationReaders,
): NamedOperation {
  try {
    return { name, does: readWhat(parseJson(text, 'it'), { readFilter, checkNames }) };
  } catch (error) {
    throw ofOperation(name, error);
  }
}

function readWhat(value: unknown, readers: OperationReaders): TransactOperation {
  const { operation } = readFields(Type.Object({ operation: Type.String() }), value, 'it');
  const kind = Object.entries(kinds).find(([name]) => name === operation)?.[1];
  if (kind === undefined) throw invalidInput(`operation must be one of ${Object.keys(kinds).join(', ')}`);
  const { operation: _, ...fields } = isObject(value) ? value : {};
  return kind.read(fields, readers);
}

function read<Schema extends TObject>(schema: Schema, value: object, { checkNames: check }: OperationReaders) {
  checkNames(schema, value, '', check);
  return readFields(schema, value, 'it');
}

function readMerge(fields: object, readers: OperationReaders): Extract<TransactOperation, { kind: 'merge_insert' }> {
  const { source, on, ...others } = read(MergeOperation, fields, readers);
  const paths = typeof on === 'string' ? [on] : on;
  const query = new URLSearchParams();
  for (const path of paths) query.append('on', path);
  for (const [name, value] of Object.entries(others)) query.append(name, String(value));
  const { flags, rules, on: parsed } = readMergeParameters(new QueryParameters(query.toString()), readers.readFilter);
  readRules(rules, flags);
  return { kind: 'merge_insert', source, on: parsed, flags, rules };
}
