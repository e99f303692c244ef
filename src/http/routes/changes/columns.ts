/** The routes that change columns, and what is said of them. */
import Type from 'typebox';
import type { Action } from '../../../auth/policy/actions.ts';
import { addColumns } from '../../../operations/columns/add-columns.ts';
import { alterColumns } from '../../../operations/columns/alter-columns.ts';
import { dropColumns } from '../../../operations/columns/drop-columns.ts';
import { updateFieldMetadata } from '../../../operations/columns/update-field-metadata.ts';
import { updateSchemaMetadata } from '../../../operations/columns/update-schema-metadata.ts';
import {
  AddColumnsBody,
  AlterColumnsBody,
  DropColumnsBody,
  parseSchemaMetadata,
  readAlterations,
  readColumnPaths,
  readMetadataUpdates,
  readNewColumns,
  UpdateFieldMetadataBody,
} from '../../../wire/column-body.ts';
import { readDelimiter } from '../../../wire/identifiers.ts';
import { mapOf, StringMap } from '../../../wire/json-body.ts';
import { contentDecoder } from '../../body/content-decoder.ts';
import { jsonRoute, repeatOf, Written, writeAnswer, writtenFields } from '../../json-route.ts';
import { ArrowStream, arrowStreamType, commonParameters } from '../../openapi/description.ts';
import { jsonAnswer, type Offer, queryBranch, type Route, type RouteInput, tableTarget } from '../../route.ts';

type AddColumns = ReturnType<typeof addColumns>;

const addColumnsPath = '/v1/table/:id/add_columns';

const addByExpression = jsonRoute(addColumns, {
  methods: ['POST'],
  path: addColumnsPath,
  target: tableTarget,
  action: 'AlterTableAddColumns',
  summary: 'Adds columns',
  answers: Written,
  body: AddColumnsBody,
  isWrite: true,
  branches: (_, branch) => [branch],
  answer: async (operation, { target: table, branch, body, idempotency }, input) => {
    const columns = readNewColumns(body, input.readFilter);
    return writeAnswer(input, await operation({ table, branch, columns, idempotency }, input.scope), {});
  },
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

/** Columns of an expression each, as JSON, or of NULL in every row, as an Arrow schema. */
export const addColumnsRoute: Offer<AddColumns> = {
  make: addColumns,
  routeTo(operation) {
    const route = addByExpression.routeTo(operation);
    const description = route.description!;
    return {
      ...route,
      description: { ...description, bodies: { ...description.bodies, [arrowStreamType]: ArrowStream } },
      prepare: (input) => (isArrow(input) ? addBySchema(operation, input) : route.prepare(input)),
    };
  },
};

export const alterColumnsRoute = jsonRoute(alterColumns, {
  methods: ['POST'],
  path: '/v1/table/:id/alter_columns',
  target: tableTarget,
  action: 'AlterTableAlterColumns',
  summary: 'Renames columns, and changes their types',
  answers: Written,
  body: AlterColumnsBody,
  isWrite: true,
  branches: (_, branch) => [branch],
  answer: async (operation, { target: table, branch, body, idempotency }, input) => {
    const alterations = readAlterations(body);
    return writeAnswer(input, await operation({ table, branch, alterations, idempotency }, input.scope), {});
  },
});

export const dropColumnsRoute = jsonRoute(dropColumns, {
  methods: ['POST'],
  path: '/v1/table/:id/drop_columns',
  target: tableTarget,
  action: 'AlterTableDropColumns',
  summary: 'Drops columns',
  answers: Written,
  body: DropColumnsBody,
  isWrite: true,
  branches: (_, branch) => [branch],
  answer: async (operation, { target: table, branch, body, idempotency }, input) => {
    const columns = readColumnPaths(body);
    return writeAnswer(input, await operation({ table, branch, columns, idempotency }, input.scope), {});
  },
});

const UpdatedFields = Type.Object({
  ...writtenFields,
  fields: Type.Optional(mapOf(StringMap)),
});

export const updateFieldMetadataRoute = jsonRoute(updateFieldMetadata, {
  methods: ['POST'],
  path: '/v1/table/:id/update_field_metadata',
  target: tableTarget,
  action: 'UpdateFieldMetadata',
  summary: 'Changes the metadata of columns',
  answers: UpdatedFields,
  body: UpdateFieldMetadataBody,
  isWrite: true,
  branches: (_, branch) => [branch],
  answer: async (operation, { target: table, branch, body, idempotency }, input) => {
    const updates = readMetadataUpdates(body);
    const result = await operation({ table, branch, updates, idempotency }, input.scope);
    return writeAnswer(input, result, result.fields === undefined ? {} : { fields: result.fields });
  },
});

const schemaMetadataPath = '/v1/table/:id/schema_metadata/update';

/** Body and answer are the metadata alone, so the branch is in the query. */
export const updateSchemaMetadataRoute: Offer<ReturnType<typeof updateSchemaMetadata>> = {
  make: updateSchemaMetadata,
  routeTo: (operation) => ({
    methods: ['POST'],
    path: schemaMetadataPath,
    isWrite: true,
    description: {
      operationId: 'UpdateTableSchemaMetadata',
      summary: 'Replaces the metadata of the schema',
      parameters: commonParameters(true),
      bodies: { 'application/json': StringMap },
      answers: StringMap,
      takesKey: true,
    },
    prepare(input) {
      const { table, branch } = authorized(input, 'UpdateTableSchemaMetadata');
      return {
        body: 'json',
        owned: table,
        answer: async (upload) => {
          const text = await upload.text();
          const metadata = parseSchemaMetadata(text);
          const idempotency = repeatOf(input.headers, `${schemaMetadataPath} ${text}`);
          writeAnswer(input, await operation({ table, branch, metadata, idempotency }, input.scope), {});
          return jsonAnswer(metadata);
        },
      };
    },
  }),
};

/** Table and branch of a request that has both in its path and query. */
function authorized(input: RouteInput, action: Action) {
  const table = tableTarget.parse(input.id, readDelimiter(input.query), input.database);
  const branch = queryBranch(input);
  input.access.require(action, { kind: 'table', table }, branch);
  return { table, branch };
}
