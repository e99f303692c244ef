import { invalidInput } from '../kernel/errors.ts';
import type { Properties } from '../kernel/ids.ts';
import { parseJson } from './json-body.ts';
import type { QueryParameters } from './query-parameters.ts';

/** A parameter that is a JSON object whose values are texts; undefined where it is absent. */
export const readProperties = (query: QueryParameters, name: string): Properties | undefined =>
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
