/** A source whose marked rows delete: these are taken out before the others are laid out as the table, of which they may lack columns. */
import { keepRows } from '../arrow/column/concat-rows.ts';
import type { IpcChunk, Schema } from '../arrow/schema/schema.ts';
import { marksIn, withoutColumn } from '../arrow/stream/marked-rows.ts';
import type { InvalidRows } from '../kernel/invalid-rows.ts';
import { readKeys } from '../keys/key-columns.ts';
import type { KeyHasher } from '../keys/key-hasher.ts';
import { withoutUnallowedNulls, withRequiredKeys } from '../table/row-faults.ts';
import type { MergeOfRows } from './batch.ts';
import { type KeyedRows, type Merged, type RowRules, readSourceKeys } from './row-rules.ts';

interface MarkedSource extends Merged {
  readonly rules: RowRules;
  readonly table: Schema;
  readonly invalid: InvalidRows | undefined;
}

export interface SplitSource {
  readonly unmarked: IpcChunk;
  /** With all columns that were sent. */
  readonly marked: IpcChunk;
  readonly numDuplicateRows: KeyedRows['numDuplicateRows'];
}

const hasColumn = ({ fields }: Schema, column: string): boolean => fields.some(({ name }) => name === column);

/** The columns of a source that go into the table: the mark does where the table has it. */
export function columnsToWrite(source: Schema, table: Schema, { tombstone }: Pick<RowRules, 'tombstone'>): Schema {
  if (tombstone === undefined || hasColumn(table, tombstone)) return source;
  return { ...source, fields: source.fields.filter(({ name }) => name !== tombstone) };
}

/** The columns that rows of text are read as: without the mark in the table it is a Boolean, and marked rows may have NULL anywhere. */
export function columnsToRead(table: Schema, { tombstone }: Pick<RowRules, 'tombstone'>): Schema {
  if (tombstone === undefined) return table;
  const fields = table.fields.map((field) => ({ ...field, nullable: true }));
  if (hasColumn(table, tombstone)) return { ...table, fields };
  const type = { kind: 'bool' } as const;
  const mark = { name: tombstone, nullable: true, type, dictionary: undefined, children: [], metadata: new Map() };
  return { ...table, fields: [...fields, mark] };
}

/** Of rows with one key, marked or not, the one that the rules say is left. Throws what refuses the source. */
export async function splitSource(sent: IpcChunk, source: MarkedSource, hasher: KeyHasher): Promise<SplitSource> {
  const { on, rules, table, invalid } = source;
  const { tombstone = '' } = rules;
  const isMarked = marksIn(sent, tombstone);
  const allowed = withoutUnallowedNulls(sent, table, invalid, 0, (row) => isMarked[row] === 1);
  const keyed = rules.keyRequired ? withRequiredKeys(allowed, on, invalid) : allowed;
  const { chunk, numDuplicateRows } = await readSourceKeys(keyed, source, hasher);
  const marks = marksIn(chunk, tombstone);
  const others = marks.includes(1)
    ? keepRows(
        chunk,
        marks.map((mark) => 1 - mark),
      )
    : chunk;
  return {
    unmarked: hasColumn(table, tombstone) ? others : withoutColumn(others, tombstone),
    marked: keepRows(chunk, marks),
    numDuplicateRows,
  };
}

/** undefined where no row has a mark. */
export async function mergeOfMarked(
  { marked: chunk }: SplitSource,
  merge: Pick<MergeOfRows, 'branch' | 'scope' | 'on' | 'spec' | 'versionColumn'>,
  hasher: KeyHasher,
): Promise<MergeOfRows | undefined> {
  if (chunk.rows === 0) return undefined;
  const keys = readKeys(chunk, merge.on);
  return { ...merge, chunk, keys, digests: await hasher.digest(keys), absent: [] };
}
