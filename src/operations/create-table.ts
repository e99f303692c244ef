import Type from 'typebox';
import { type CreateTableCommand, createTable } from '../create/request.ts';
import { arrowAnswer, arrowRoute } from '../endpoint/arrow-route.ts';
import { type RouteInput, refuseBranch } from '../endpoint/route.ts';
import { invalidInput } from '../kernel/errors.ts';
import type { Properties } from '../kernel/ids.ts';
import { areTexts, isObject } from '../kernel/json-bounds.ts';
import { choiceOf, createModes, parseChoice } from '../wire/choices.ts';
import { parseJson, StringMap, Version } from '../wire/json-body.ts';
import { invalidParameters } from '../wire/merge-parameters.ts';
import type { QueryOf } from '../wire/query-parameters.ts';
import { requireKnownProperties } from './tables/known-properties.ts';
import { readSourceRules, toldFields, toldShown } from './told-of-rules.ts';

type CreateParameters = Pick<CreateTableCommand, 'mode' | 'properties' | 'storageOptions' | 'rules'>;

const JsonMap = Type.Optional(
  Type.String({
    contentMediaType: 'application/json',
    description: 'A JSON object whose values are texts.',
    examples: ['{}'],
  }),
);

const createParameters = {
  mode: choiceOf(createModes),
  properties: JsonMap,
  storage_options: JsonMap,
  ...invalidParameters,
};

export const createTablePath = '/v1/table/:id/create';

const CreatedTable = arrowAnswer({
  location: Type.String(),
  version: Version,
  storage_options: StringMap,
  properties: StringMap,
  ...toldFields,
  transaction_id: Type.Optional(Type.String()),
});

export const createTableRoute = arrowRoute(createTable, {
  path: createTablePath,
  action: 'CreateTable',
  summary: 'Creates a table of rows',
  query: createParameters,
  answers: CreatedTable,
  body: 'arrow-chunks',
  makesTable: true,
  parameters: ({ query, headers }, branch) => {
    refuseBranch(branch);
    return readCreateParameters(query, headers);
  },
  furtherActions: ({ mode }) => (mode === 'overwrite' ? ['OverwriteTable'] : []),
  mode: ({ mode }) => mode,
  async answer(operation, { table, parameters, source, idempotency, scope, access }) {
    const requireDescribe = () => access.require('DescribeTable', { kind: 'table', table });
    const command = { table, ...parameters, requireDescribe, source, idempotency };
    const { isReplay, ...result } = await operation(command, scope);
    const fields = {
      location: result.location,
      version: result.version,
      storage_options: result.storageOptions,
      properties: result.properties,
      ...toldShown(result),
      ...(result.transactionId === undefined ? {} : { transaction_id: result.transactionId }),
    };
    const audit = {
      version: result.version,
      insertedRows: result.numInsertedRows,
      invalidRows: result.numInvalidRows,
      transactionId: result.transactionId,
    };
    return { fields, isReplay, audit };
  },
});

export const readCreateParameters = (
  query: QueryOf<keyof typeof createParameters>,
  headers: RouteInput['headers'] = {},
): CreateParameters => ({
  mode: query.one('mode', (text) => parseChoice(text ?? '', 'mode', createModes)) ?? 'create',
  properties: readTableProperties(query),
  storageOptions: checkStorageOptions(readProperties(query, 'storage_options') ?? {}),
  rules: readSourceRules(query, headers),
});

function readTableProperties(query: QueryOf<'properties'>): Properties | undefined {
  const properties = readProperties(query, 'properties');
  requireKnownProperties(properties ?? {});
  return properties;
}

/** Reads a parameter that is a JSON object whose values are texts; undefined where it is absent. */
export const readProperties = <Name extends string>(query: QueryOf<Name>, name: Name): Properties | undefined =>
  query.one(name, (text) => parseProperties(text ?? '', name));

function parseProperties(text: string, name: string): Properties {
  const value = parseJson(text, `${name}: it`);
  if (!isObject(value)) throw invalidInput(`${name}: expected a JSON object`);
  if (areTexts(value)) return value;
  const wrong = Object.keys(value).find((key) => typeof value[key] !== 'string');
  throw invalidInput(`${name}: the value of ${JSON.stringify(wrong)} is not a string`);
}

/**
 * A client may set these storage options, to these values; undefined is any. They reach the object store together with the
 * operator's own, so a client may tune a write, but never name an endpoint, a proxy, an account, a key or a certificate, nor
 * turn a check off (P9). The names are those of Lance (`new_table_…`) and of its object store client.
 */
const allowed: ReadonlyMap<string, readonly string[] | undefined> = new Map([
  // how the table is laid out; older formats store NULLs as zeros, and newer ones than the stable still change
  ['new_table_data_storage_version', ['stable', '2.0', '2.1', '2.2']],
  ['new_table_enable_v2_manifest_paths', ['true', 'false']],
  ['new_table_enable_stable_row_ids', ['true', 'false']],
  // how patient the object store client is
  ['timeout', undefined],
  ['connect_timeout', undefined],
  ['request_timeout', undefined],
  ['client_max_retries', undefined],
  ['client_retry_timeout', undefined],
  ['download_retry_count', undefined],
]);

/** Keys are compared in lower case, as the object store client does. `InvalidInput` names the first refused one. */
export function checkStorageOptions(options: Properties): Properties {
  for (const [key, value] of Object.entries(options)) {
    const lowerKey = key.toLowerCase();
    if (!allowed.has(lowerKey)) {
      const keys = [...allowed.keys()].join(', ');
      throw invalidInput(`storage_options: ${JSON.stringify(key)} cannot be set by a client; allowed are ${keys}`);
    }
    const values = allowed.get(lowerKey);
    if (values !== undefined && !values.includes(value)) {
      throw invalidInput(`storage_options: ${key} can be ${values.join(', ')}`);
    }
  }
  return options;
}
