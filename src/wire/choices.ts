import Type from 'typebox';
import { invalidInput } from '../kernel/errors.ts';

/**
 * Clients choose one of a few words. Texts in other cases and in quotes are taken too (`parseChoice`), so the words are no
 * closed list.
 */
export const choiceOf = (choices: readonly string[]) =>
  Type.Optional(Type.String({ description: `One of ${choices.join(', ')}; the first, if absent.`, examples: choices }));

export const createModes = ['create', 'exist_ok', 'overwrite'] as const;

/**
 * Returns one of `choices`, such as the modes of a create, which are in snake_case; the first where the text is absent. Clients
 * write them in PascalCase, snake_case or any other case, and the LanceDB SDKs put a pair of quotes around them.
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
