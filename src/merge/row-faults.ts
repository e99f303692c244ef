/**
 * How a merge takes rows that break a rule: it is refused, or they are left out and reported. The conversion of a text leaves
 * out rows whose values do not fit. What is left, and Arrow, is looked through here for NULL where there may be none.
 */
import { keepRows } from '../arrow/column/concat-rows.ts';
import { findUnallowedNulls } from '../arrow/column/unallowed-nulls.ts';
import { type FieldPath, refuseColumn } from '../arrow/schema/field-path.ts';
import type { IpcChunk, Schema } from '../arrow/schema/schema.ts';
import { invalidInput } from '../kernel/errors.ts';
import type { InvalidRows } from '../kernel/invalid-rows.ts';
import { readKeys } from '../keys/key-columns.ts';
import { invalidWays, type MergeFlags, type MergeRowsResult, type RuleName, type RuleTexts } from './merge-command.ts';

export interface InvalidRules {
  readonly isReported: boolean;
  /** Says whether this many of the rows of a source may be invalid. */
  readonly most: { readonly text: string; allows(invalid: number, rows: number): boolean } | undefined;
  /** A row with NULL in its key is invalid. */
  readonly keyRequired: boolean;
}

/** `shown` names a rule in a refusal. */
export function readInvalidRules(
  { on_invalid: way, max_invalid: most, key_required: required }: RuleTexts,
  flags: MergeFlags,
  shown: (name: RuleName) => string,
): InvalidRules {
  if (way && !invalidWays.some((each) => each === way))
    throw invalidInput(`${shown('on_invalid')}: expected one of ${invalidWays.join(', ')}`);
  if (way === 'report' && flags.whenNotMatchedBySourceDelete !== false)
    throw invalidInput(
      `${shown('on_invalid')}: a merge that deletes by source would delete what its invalid rows stand for; send an empty on_invalid to do without`,
    );
  const isTrue = /^(?:true|1)$/i.test(required ?? '');
  if (required && !isTrue && !/^(?:false|0)$/i.test(required))
    throw invalidInput(`${shown('key_required')}: expected true or false`);
  return {
    isReported: way === 'report',
    most: most ? readMost(most, shown('max_invalid')) : undefined,
    keyRequired: isTrue,
  };
}

function readMost(text: string, name: string): InvalidRules['most'] {
  if (/^\d{1,15}$/.test(text)) return { text: `the ${text}`, allows: (invalid) => invalid <= Number(text) };
  const isShare = /^(?:0?\.\d{1,15}|1\.0{1,15})$/.test(text);
  if (!isShare) throw invalidInput(`${name}: expected a number of rows, such as 100, or a share of them, such as 0.1`);
  return { text: `the share of ${text}`, allows: (invalid, rows) => invalid / rows <= Number(text) };
}

/**
 * Leaves out the rows that hold NULL where the table allows none. Otherwise whoever lays the rows out or stores them refuses
 * them.
 */
export function withoutUnallowedNulls(chunk: IpcChunk, table: Schema, invalid: InvalidRows | undefined): IpcChunk {
  if (invalid === undefined) return chunk;
  return leavingOut(chunk, invalid, (found) => findUnallowedNulls(chunk, table, found));
}

/** Leaves out the rows that have NULL in their key where it is required, or refuses all where `invalid` is not there. */
export function withRequiredKeys(
  chunk: IpcChunk,
  on: readonly FieldPath[],
  { keyRequired }: InvalidRules,
  invalid: InvalidRows | undefined,
): IpcChunk {
  if (!keyRequired) return chunk;
  return leavingOut(chunk, invalid, (found) => {
    const keys = readKeys(chunk, on);
    for (let row = 0; row < keys.rows; row++) {
      if (!keys.isNull(row)) continue;
      const path = on[keys.columns.findIndex(({ nulls }) => nulls?.[row] === 1)];
      found(row, refuseColumn(path?.segments ?? [], 'holds a NULL, and key_required asks for a key').message);
    }
  });
}

function leavingOut(
  chunk: IpcChunk,
  invalid: InvalidRows | undefined,
  find: (found: (row: number, reason: string) => void) => void,
): IpcChunk {
  const rowOf = invalid?.rowsLeft();
  const keep = new Uint8Array(chunk.rows).fill(1);
  find((index, reason) => {
    const row = rowOf?.(index) ?? index + 1;
    const why = `row ${row}, ${reason}`;
    if (invalid === undefined) throw invalidInput(why);
    invalid.add(row, why);
    keep[index] = 0;
  });
  return keep.includes(0) ? keepRows(chunk, keep) : chunk;
}

/** `rows` are left. `InvalidInput` where more are invalid than may be. */
export function requireFewInvalid({ most }: InvalidRules, invalid: InvalidRows | undefined, rows: number): void {
  if (most === undefined || invalid === undefined) return;
  const all = rows + invalid.count;
  if (invalid.count === 0 || most.allows(invalid.count, all)) return;
  const [first] = invalid.report().listed;
  throw invalidInput(
    `max_invalid: ${invalid.count} of ${all} rows are invalid, more than ${most.text} that may be; nothing was written; ${first?.reason}`,
  );
}

/** What an answer says of the rows that were left out. */
export const toldOfInvalid = (
  invalid: InvalidRows | undefined,
): Pick<MergeRowsResult, 'numInvalidRows' | 'invalidRows'> =>
  invalid === undefined ? {} : { numInvalidRows: invalid.count, invalidRows: invalid.report().listed };
