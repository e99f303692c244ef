/** The JSON of one of several operations; docs/protocol.md has the rules. */
import Type, { type TObject } from 'typebox';
import { invalidInput } from '../kernel/errors.ts';
import { type NamedOperation, ofOperation, type TransactOperation } from '../operations/transact/transact-command.ts';
import {
  AddColumnsBody,
  AlterColumnsBody,
  DropColumnsBody,
  readAlterations,
  readColumnPaths,
  readMetadataUpdates,
  readNewColumns,
  UpdateFieldMetadataBody,
} from './column-body.ts';
import { parseJson, readFields } from './json-body.ts';
import { checkNames, type NameCheck } from './known-names.ts';
import { type ReadFilter, readMergeParameters } from './merge-parameters.ts';
import { QueryParameters } from './query-parameters.ts';
import { DeleteBody, readUpdate, UpdateBody } from './rows-body.ts';

/** Any text: a part of the body must have the name. */
const Source = Type.String();

const InsertOperation = Type.Object({ source: Source, mode: Type.Optional(Type.Literal('append')) });

/** Named as the parameters of `merge_insert`. */
const MergeOperation = Type.Object({
  source: Source,
  on: Type.Union([Type.String(), Type.Array(Type.String(), { maxItems: 1_000 })]),
  when_matched_update_all: Type.Optional(Type.Boolean()),
  when_matched_update_all_filt: Type.Optional(Type.String()),
  when_not_matched_insert_all: Type.Optional(Type.Boolean()),
  when_not_matched_by_source_delete: Type.Optional(Type.Boolean()),
  when_not_matched_by_source_delete_filt: Type.Optional(Type.String()),
  use_index: Type.Optional(Type.Boolean()),
});

const AddNullColumns = Type.Object({ source: Source });

const named = <Kind extends string, Schema extends TObject>(operation: Kind, { properties }: Schema) =>
  Type.Object({ operation: Type.Literal(operation), ...properties });

/** Of any operation. */
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

const kinds = {
  insert: (fields: object, readers: OperationReaders) => ({
    kind: 'insert' as const,
    source: read(InsertOperation, fields, readers).source,
  }),
  merge_insert: readMerge,
  update: (fields: object, readers: OperationReaders) => ({
    kind: 'update' as const,
    ...readUpdate(read(UpdateBody, fields, readers), readers.readFilter),
  }),
  delete: (fields: object, readers: OperationReaders) => ({
    kind: 'delete' as const,
    predicate: readers.readFilter(read(DeleteBody, fields, readers).predicate, 'predicate'),
  }),
  add_columns: (fields: object, readers: OperationReaders) =>
    'source' in fields
      ? { kind: 'add_columns' as const, source: read(AddNullColumns, fields, readers).source }
      : {
          kind: 'add_columns' as const,
          columns: readNewColumns(read(AddColumnsBody, fields, readers), readers.readFilter),
        },
  alter_columns: (fields: object, readers: OperationReaders) => ({
    kind: 'alter_columns' as const,
    alterations: readAlterations(read(AlterColumnsBody, fields, readers)),
  }),
  drop_columns: (fields: object, readers: OperationReaders) => ({
    kind: 'drop_columns' as const,
    columns: readColumnPaths(read(DropColumnsBody, fields, readers)),
  }),
  update_field_metadata: (fields: object, readers: OperationReaders) => ({
    kind: 'update_field_metadata' as const,
    updates: readMetadataUpdates(read(UpdateFieldMetadataBody, fields, readers)),
  }),
} satisfies Record<TransactOperation['kind'], (fields: object, readers: OperationReaders) => TransactOperation>;

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
  if (!Object.hasOwn(kinds, operation)) {
    throw invalidInput(`operation must be one of ${Object.keys(kinds).join(', ')}`);
  }
  const { operation: _, ...fields } = value as Readonly<Record<string, unknown>>;
  return kinds[operation as keyof typeof kinds](fields, readers);
}

function read<Schema extends TObject>(schema: Schema, value: object, { checkNames: check }: OperationReaders) {
  checkNames(schema, value, '', check);
  return readFields(schema, value, 'it');
}

function readMerge(fields: object, readers: OperationReaders): TransactOperation {
  const { source, on, ...others } = read(MergeOperation, fields, readers);
  const paths = typeof on === 'string' ? [on] : on;
  const query = new URLSearchParams();
  for (const path of paths) query.append('on', path);
  for (const [name, value] of Object.entries(others)) query.append(name, String(value));
  const { flags, on: parsed } = readMergeParameters(new QueryParameters(query.toString()), readers.readFilter);
  return { kind: 'merge_insert', source, on: parsed, flags };
}
