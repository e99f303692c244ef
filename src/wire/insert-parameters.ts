import type { InsertMode } from '../insert/insert-command.ts';
import { LancegateError } from '../kernel/errors.ts';
import { choiceOf, parseChoice } from './create-parameters.ts';
import { type QueryOf, Refused } from './query-parameters.ts';

const insertModes = ['append', 'overwrite'] as const;

export const insertParameters = { mode: choiceOf(insertModes), upload_id: Refused };

/** A part of an upload that other requests continue is refused: its rows would be taken for all of them. */
export function readInsertParameters(query: QueryOf<keyof typeof insertParameters>): { readonly mode: InsertMode } {
  if (query.has('upload_id')) throw new LancegateError('Unsupported', 'this service takes an insert in one request');
  return { mode: query.one('mode', (text) => parseChoice(text, 'mode', insertModes)) ?? 'append' };
}
