import Type, { type Static } from 'typebox';
import {
  type FieldPath,
  formatFieldPath,
  parseFieldPath,
  requireOnce,
  resolveField,
  sameFieldPath,
} from '../../arrow/schema/field-path.ts';
import type { Schema } from '../../arrow/schema/schema.ts';
import { checkStorableMetadata } from '../../arrow/schema/schema-rules.ts';
import type { ChangeCommand, ChangeDeps, ChangeResult } from '../../change/submit-change.ts';
import { writeRoute } from '../../endpoint/json-route.ts';
import type { Replayable } from '../../idempotency/idempotency.ts';
import { LancegateError } from '../../kernel/errors.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import { mapOf, StringMap } from '../../wire/json-body.ts';
import {
  type CheckedColumnStep,
  columnChange,
  listOf,
  mapFields,
  OrNull,
  requireColumn,
  requireFewTexts,
} from './change-columns.ts';

export interface MetadataUpdate {
  readonly path: FieldPath;
  /** null removes the entry. */
  readonly metadata: Readonly<Record<string, string | null>>;
  /** The entries are all that the field has afterwards. */
  readonly isWhole: boolean;
}

interface UpdateFieldMetadataCommand extends ChangeCommand {
  /** There is at least one. */
  readonly updates: readonly MetadataUpdate[];
}

/** The path of a field leads to its metadata. */
type MetadataOfFields = Readonly<Record<string, Readonly<Record<string, string>>>>;

interface UpdateFieldMetadataResult extends ChangeResult {
  /** Each updated field has its own; undefined where the version cannot be read by now. */
  readonly fields: MetadataOfFields | undefined;
}

const changeMetadata = columnChange('update_field_metadata', ({ updates }: UpdateFieldMetadataCommand) =>
  metadataChangeOf(updates),
);

/** Changes what columns say of themselves, such as which of them are the primary key. */
const updateFieldMetadata =
  (deps: ChangeDeps) =>
  async (command: UpdateFieldMetadataCommand, scope: RequestScope): Promise<Replayable<UpdateFieldMetadataResult>> => {
    const result = await changeMetadata(deps)(command, scope);
    const schema = await schemaAfter(deps, command, result);
    return { ...result, fields: schema && metadataOf(schema, command.updates) };
  };

/** The change is made and acknowledged by now, so no failure of this is one of the request (P6). */
async function schemaAfter(
  { access }: ChangeDeps,
  { table, branch }: ChangeCommand,
  { version }: ChangeResult,
): Promise<Schema | undefined> {
  try {
    return await access.read(await access.findCreated(table), branch, version, (dataset) => dataset.schema());
  } catch (error) {
    if (error instanceof LancegateError) return undefined; // compensated: the answer goes without it
    throw error;
  }
}

export function metadataChangeOf(updates: readonly MetadataUpdate[]): CheckedColumnStep {
  const changes = updates.map(({ path, ...rest }) => ({ path: formatFieldPath(path), ...rest }));
  return {
    step: { kind: 'update field metadata', updates: changes },
    check: (schema) => requireStorable(schema, updates),
  };
}

function requireStorable(schema: Schema, updates: readonly MetadataUpdate[]): void {
  for (const { path } of updates) requireColumn(schema, path, 'updates');
  requireOnce(
    updates.map(({ path }) => path),
    'updates',
  );
  const fields = mapFields(schema.fields, (field, at) => {
    const update = updates.find(({ path }) => sameFieldPath(path, at));
    return update === undefined ? field : { ...field, metadata: updated(field.metadata, update) };
  });
  const changed = new Set(updates.map(({ path }) => path.segments[0]));
  checkStorableMetadata(fields.filter(({ name }) => changed.has(name)));
}

function updated(
  before: ReadonlyMap<string, string>,
  { metadata, isWhole }: MetadataUpdate,
): ReadonlyMap<string, string> {
  const all = new Map<string, string | null>([...(isWhole ? [] : before), ...Object.entries(metadata)]);
  return new Map([...all].flatMap(([key, value]) => (value === null ? [] : [[key, value]])));
}

const metadataOf = (schema: Schema, updates: readonly MetadataUpdate[]): MetadataOfFields =>
  Object.fromEntries(
    updates.map(({ path }) => [formatFieldPath(path), Object.fromEntries(resolveField(schema, path)?.metadata ?? [])]),
  );

export const UpdateFieldMetadataBody = Type.Object({
  updates: listOf(
    Type.Object({
      path: Type.String(),
      metadata: Type.Unsafe<Readonly<Record<string, string | null>>>({
        type: 'object',
        additionalProperties: { type: ['string', 'null'] },
      }),
      replace: OrNull(Type.Boolean()),
    }),
  ),
});

export const readMetadataUpdates = ({ updates }: Static<typeof UpdateFieldMetadataBody>) =>
  updates.map(({ path, metadata, replace }, index) => {
    requireFewTexts(metadata, `updates[${index}].metadata`);
    return { path: parseFieldPath(path, `updates[${index}].path`), metadata, isWhole: replace ?? false };
  });

export const updateFieldMetadataRoute = writeRoute(updateFieldMetadata, {
  path: '/v1/table/:id/update_field_metadata',
  action: 'UpdateFieldMetadata',
  summary: 'Changes the metadata of columns',
  body: UpdateFieldMetadataBody,
  command: (body, on) => ({ ...on, updates: readMetadataUpdates(body) }),
  answers: { fields: Type.Optional(mapOf(StringMap)) },
  fields: ({ fields }) => ({ ...(fields && { fields }) }),
});
