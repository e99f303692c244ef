/**
 * How rows are taken that break a rule: all are refused, or these are left out and reported. The conversion of a text leaves
 * out rows whose values do not fit. What is left, and Arrow, is looked through here for NULL where there may be none.
 */
import { keepRows } from '../arrow/column/concat-rows.ts';
import { findUnallowedNulls } from '../arrow/column/unallowed-nulls.ts';
import { type FieldPath, refuseColumn } from '../arrow/schema/field-path.ts';
import type { IpcChunk, Schema } from '../arrow/schema/schema.ts';
import type { ArrowSource } from '../arrow/stream/source-reader.ts';
import { invalidInput } from '../kernel/errors.ts';
import type { Properties } from '../kernel/ids.ts';
import { type InvalidRow, InvalidRows } from '../kernel/invalid-rows.ts';
import { readKeys } from '../keys/key-columns.ts';
import {
  invalidWays,
  type RuleTexts,
  readSchemaMode,
  type ShownRule,
  sourceRuleNames,
  standingRules,
} from './standing-rules.ts';

export interface InvalidRules {
  readonly isReported: boolean;
  /** Says whether this many of the rows of a source may be invalid. */
  readonly most: { readonly text: string; allows(invalid: number, rows: number): boolean } | undefined;
}

/** The rules that any request with rows has, and those of them that the table said. */
export interface SourceRules {
  readonly invalid: InvalidRules;
  /** The table gets columns and wider types that a source has. */
  readonly extends: boolean;
  readonly defaults: RuleTexts;
}

export function readInvalidRules(
  { on_invalid: way, max_invalid: most }: RuleTexts,
  shown: ShownRule = (name) => name,
): InvalidRules {
  if (way && !invalidWays.some((each) => each === way))
    throw invalidInput(`${shown('on_invalid')}: expected one of ${invalidWays.join(', ')}`);
  return { isReported: way === 'report', most: most ? readMost(most, shown('max_invalid')) : undefined };
}

/** The rules of a request that has no keys, for a table with these defaults. `InvalidInput`. */
export function sourceRulesOf(asked: RuleTexts, properties: Properties, metadata: Schema['metadata']): SourceRules {
  const { texts, defaults, shown } = standingRules(sourceRuleNames, asked, properties, metadata);
  return { invalid: readInvalidRules(texts, shown), extends: readSchemaMode(texts, shown), defaults };
}

function readMost(text: string, name: string): InvalidRules['most'] {
  if (/^\d{1,15}$/.test(text)) return { text: `the ${text}`, allows: (invalid) => invalid <= Number(text) };
  const isShare = /^(?:0?\.\d{1,15}|1\.0{1,15})$/.test(text);
  if (!isShare) throw invalidInput(`${name}: expected a number of rows, such as 100, or a share of them, such as 0.1`);
  return { text: `the share of ${text}`, allows: (invalid, rows) => invalid / rows <= Number(text) };
}

/**
 * Leaves out the rows that hold NULL where the table allows none. Without `invalid` the layout of the rows, or the engine, refuses them
 * later. So many rows of the source were kept `before`. Some `mayHaveNulls`.
 */
export function withoutUnallowedNulls(
  chunk: IpcChunk,
  table: Schema,
  invalid: InvalidRows | undefined,
  before = 0,
  mayHaveNulls: (row: number) => boolean = () => false,
): IpcChunk {
  if (invalid === undefined) return chunk;
  const find = (found: (row: number, reason: string) => void) =>
    findUnallowedNulls(chunk, table, (row, reason) => {
      if (!mayHaveNulls(row)) found(row, reason);
    });
  return leavingOut(chunk, invalid, find, before);
}

/** Leaves out the rows that have NULL in their key, or refuses all where `invalid` is not there. */
export function withRequiredKeys(
  chunk: IpcChunk,
  on: readonly FieldPath[],
  invalid: InvalidRows | undefined,
): IpcChunk {
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
  before = 0,
): IpcChunk {
  const rowOf = invalid?.rowsLeft();
  const keep = new Uint8Array(chunk.rows).fill(1);
  find((index, reason) => {
    const row = rowOf?.(before + index) ?? index + 1;
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

/** Invalid rows are left out of the source where they are to be reported: then it answers what counts them. */
export function leftOutOf(source: ArrowSource, { isReported }: InvalidRules): InvalidRows | undefined {
  if (!isReported) return undefined;
  const invalid = new InvalidRows();
  source.leaveOut(invalid);
  return invalid;
}

/** How the rows of a source are taken. */
export interface Taking<Rules = SourceRules> {
  readonly rules: Rules;
  /** It counts the rows that are left out; undefined where none is reported. */
  readonly invalid: InvalidRows | undefined;
}

/** The rules for a source that a table is made of. Its metadata, which only Arrow has, say defaults like those of a table. */
export async function rulesOfFirst<Rules extends { readonly invalid: InvalidRules }>(
  source: ArrowSource,
  rulesWith: (metadata: Schema['metadata']) => Rules,
): Promise<{ readonly schema: Schema } & Taking<Rules>> {
  const ofText = leftOutOf(source, rulesWith(new Map()).invalid);
  const schema = await source.schema();
  const rules = rulesWith(schema.metadata);
  // Of Arrow no row was left out yet.
  return { schema, rules, invalid: rules.invalid.isReported ? (ofText ?? new InvalidRows()) : undefined };
}

/**
 * Gives the rows of a source that break no rule of a `table`, if there is one, chunk by chunk. Throws at the end where more are invalid
 * than may be.
 */
export async function* validChunks(
  source: ArrowSource,
  { rules, invalid }: Taking,
  table: Schema | undefined,
): AsyncGenerator<IpcChunk, void, void> {
  let rows = 0;
  for await (const sent of source.chunks()) {
    const chunk = table === undefined ? sent : withoutUnallowedNulls(sent, table, invalid, rows);
    rows += chunk.rows;
    if (chunk === sent) yield chunk;
    else {
      sent.release(); // the rows that stay are a copy, and only one of both is to take memory
      yield { ...chunk, release: () => undefined };
    }
  }
  requireFewInvalid(rules.invalid, invalid, rows);
}

/** What an answer says of the rules that were in force, and of the rows that were left out. */
export interface ToldOfRules {
  /** Rows of the source that broke a rule, and the first of them. Only where they are reported. */
  readonly numInvalidRows?: number;
  readonly invalidRows?: readonly InvalidRow[];
  /** What the table said where the request said nothing. */
  readonly defaults?: RuleTexts;
}

export const toldOfRules = ({ rules: { defaults }, invalid }: Taking): ToldOfRules => ({
  ...(invalid && { numInvalidRows: invalid.count, invalidRows: invalid.report().listed }),
  ...(Object.keys(defaults).length > 0 && { defaults }),
});
