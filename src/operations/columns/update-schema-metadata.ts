import { type ChangeCommand, changeOperation } from '../../change/submit-change.ts';
import { commonParameters } from '../../endpoint/description.ts';
import { repeatOf, writeAnswer } from '../../endpoint/json-route.ts';
import { jsonAnswer, type Offer } from '../../endpoint/route.ts';
import { invalidInput } from '../../kernel/errors.ts';
import { areTexts, isObject } from '../../kernel/json-bounds.ts';
import { parseJson, StringMap } from '../../wire/json-body.ts';
import { authorized, requireFewTexts } from './change-columns.ts';

interface UpdateSchemaMetadataCommand extends ChangeCommand {
  /** The schema has nothing else afterwards. */
  readonly metadata: Readonly<Record<string, string>>;
}

/** Replaces the metadata of a table's schema. */
const updateSchemaMetadata = changeOperation(
  'update_schema_metadata',
  async ({ metadata }: UpdateSchemaMetadataCommand) => ({ manifest: { kind: 'schema metadata', metadata } }),
);

/** The whole body is the metadata: any key may be in it. */
function parseSchemaMetadata(text: string): Readonly<Record<string, string>> {
  const value = text.trim() === '' ? {} : parseJson(text, 'the body');
  if (!isObject(value) || !areTexts(value)) {
    throw invalidInput('the body must be a JSON object of texts: the metadata that the schema is to have');
  }
  requireFewTexts(value, 'the body');
  return value;
}

const schemaMetadataPath = '/v1/table/:id/schema_metadata/update';

/** Body and answer are the metadata alone, so the branch is in the query. */
export const updateSchemaMetadataRoute: Offer<typeof updateSchemaMetadata> = {
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
