import Type from 'typebox';
import type { CreateTableCommand } from '../create/create-command.ts';
import { invalidInput } from '../kernel/errors.ts';
import type { Properties } from '../kernel/ids.ts';
import { parseJson } from './json-body.ts';
import type { QueryOf } from './query-parameters.ts';

type CreateParameters = Pick<CreateTableCommand, 'mode' | 'properties' | 'storageOptions'>;

/** One of a few words. Texts in other cases and in quotes are taken too (`parseChoice`), so the words are no closed list. */
export const choiceOf = (choices: readonly string[]) =>
  Type.Optional(Type.String({ description: `One of ${choices.join(', ')}; the first, if absent.`, examples: choices }));

export const createModes = ['create', 'exist_ok', 'overwrite'] as const;

const JsonMap = Type.Optional(
  Type.String({
    contentMediaType: 'application/json',
    description: 'A JSON object whose values are texts.',
    examples: ['{}'],
  }),
);

export const createParameters = { mode: choiceOf(createModes), properties: JsonMap, storage_options: JsonMap };

export const readCreateParameters = (query: QueryOf<keyof typeof createParameters>): CreateParameters => ({
  mode: query.one('mode', (text) => parseChoice(text ?? '', 'mode', createModes)) ?? 'create',
  properties: readProperties(query, 'properties'),
  storageOptions: checkStorageOptions(readProperties(query, 'storage_options') ?? {}),
});

export const registerModes = ['create', 'overwrite'] as const;
export const dropModes = ['fail', 'skip'] as const;
export const dropBehaviors = ['restrict', 'cascade'] as const;

/**
 * One of `choices`, such as the modes of a create, which are in snake_case; the first where the text is absent. Clients write them
 * in PascalCase, snake_case or any other case, and the LanceDB SDKs put a pair of quotes around them.
 */
export function parseChoice<const Choice extends string>(
  text: string | undefined,
  field: string,
  choices: readonly [Choice, ...Choice[]],
): Choice {
  if (text === undefined) return choices[0];
  const wanted = normalised(text);
  const found = choices.find((choice) => normalised(choice) === wanted);
  if (found === undefined) throw invalidInput(`${field}: expected ${choices.join(', ')}`);
  return found;
}

const normalised = (text: string): string =>
  text
    .trim()
    .replace(/^"(.*)"$/, '$1')
    .replaceAll(/[_-]/g, '')
    .toLowerCase();

/** A parameter that is a JSON object whose values are texts; undefined where it is absent. */
export const readProperties = <Name extends string>(query: QueryOf<Name>, name: Name): Properties | undefined =>
  query.one(name, (text) => parseProperties(text ?? '', name));

function parseProperties(text: string, name: string): Properties {
  const value = parseJson(text, `${name}: it`);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw invalidInput(`${name}: expected a JSON object`);
  }
  const wrong = Object.entries(value).find(([, inner]) => typeof inner !== 'string');
  if (wrong !== undefined) throw invalidInput(`${name}: the value of ${JSON.stringify(wrong[0])} is not a string`);
  return value as Properties;
}

/**
 * The storage options that a client may set, with their values; undefined is any. They reach the object store together with the
 * operator's own, so a client may tune a write, but never name an endpoint, a proxy, an account, a key or a certificate, nor turn
 * a check off (P9). The names are those of Lance (`new_table_…`) and of its object store client.
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
