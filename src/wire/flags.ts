import { invalidInput } from '../kernel/errors.ts';
import type { QueryParameters } from './query-parameters.ts';

/** `true` or `false` in any case, `1` or `0`, or a bare name for true; undefined where it is absent. */
export const readFlag = (query: QueryParameters, name: string): boolean | undefined =>
  query.one(name, (text) => parseFlag(text, name));

function parseFlag(text: string | undefined, name: string): boolean {
  switch (text?.toLowerCase()) {
    case undefined:
    case 'true':
    case '1':
      return true;
    case 'false':
    case '0':
      return false;
    default:
      throw invalidInput(`${name}: expected true or false`);
  }
}
