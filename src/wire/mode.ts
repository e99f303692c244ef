/**
 * Words like the `mode` of a create. Clients write them in PascalCase, snake_case or any other case, and the LanceDB
 * SDKs put a pair of quotes around them.
 */
import { invalidInput } from '../kernel/errors.ts';

/** One of `choices`, which are written in snake_case; the first where the text is absent. */
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

export const createModes = ['create', 'exist_ok', 'overwrite'] as const;
export const registerModes = ['create', 'overwrite'] as const;
export const dropModes = ['fail', 'skip'] as const;
export const dropBehaviors = ['restrict', 'cascade'] as const;
