import type { InsertMode } from '../insert/insert-command.ts';
import { LancegateError } from '../kernel/errors.ts';
import { parseChoice } from './create-parameters.ts';
import type { QueryParameters } from './query-parameters.ts';

const insertModes = ['append', 'overwrite'] as const;

/** A part of an upload that other requests continue is refused: its rows would be taken for all of them. */
export function readInsertParameters(query: QueryParameters): { readonly mode: InsertMode } {
  if (query.has('upload_id')) throw new LancegateError('Unsupported', 'this service takes an insert in one request');
  return { mode: query.one('mode', (text) => parseChoice(text, 'mode', insertModes)) ?? 'append' };
}
