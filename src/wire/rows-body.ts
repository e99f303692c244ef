/** The JSON of requests that change rows by a predicate. */
import Type, { type Static } from 'typebox';
import { invalidInput } from '../kernel/errors.ts';
import type { RowsUpdate } from '../operations/rows/update-rows.ts';
import type { ReadFilter } from './merge-parameters.ts';

export const DeleteBody = Type.Object({ predicate: Type.String() });

/** An update of more columns than tables have is a mistake. */
const mostUpdates = 10_000;

export const UpdateBody = Type.Object({
  predicate: Type.Optional(Type.String()),
  updates: Type.Array(Type.Tuple([Type.String(), Type.String()]), { maxItems: mostUpdates }),
});

export function readUpdate(body: Static<typeof UpdateBody>, readFilter: ReadFilter): RowsUpdate {
  if (body.updates.length === 0) throw invalidInput('updates: give at least one column and its new value');
  const predicate = body.predicate === undefined ? undefined : readFilter(body.predicate, 'predicate');
  const updates = body.updates.map(([column, value], index) => ({
    column,
    value: readFilter(value, `updates[${index}][1]`),
  }));
  return { predicate, updates };
}
