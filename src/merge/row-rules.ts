/** How a merge takes rows that come twice or late, and what it knows of its source before it may queue. */
import { type FieldPath, formatFieldPath, parseFieldPath, resolveField } from '../arrow/schema/field-path.ts';
import { type DataType, type IpcChunk, type Schema, typeName } from '../arrow/schema/schema.ts';
import { invalidInput, LancegateError } from '../kernel/errors.ts';
import type { Properties } from '../kernel/ids.ts';
import { type DistinctKeys, orderedValues, readDistinctKeys, readKeptKeys } from '../keys/key-columns.ts';
import type { KeyHasher } from '../keys/key-hasher.ts';
import { type OrderedValue, readKeyColumn } from '../keys/key-values.ts';
import { readInvalidRules, type SourceRules } from '../table/row-faults.ts';
import { type RuleTexts, readSchemaMode, ruleNames, type ShownRule, standingRules } from '../table/standing-rules.ts';
import { type MergeFlags, rowsThatStay } from './merge-command.ts';

export interface RowRules extends SourceRules {
  /** What becomes of a key that a source holds twice: it is refused, or its first, last or newest row stays. */
  readonly onDuplicate: (typeof rowsThatStay)[number] | 'newest';
  /** Of rows with one key the one with the greatest value is the newest, and an older one changes nothing. */
  readonly versionColumn: FieldPath | undefined;
  /** A row of the source with a mark in this column deletes the row of its key. */
  readonly tombstone: string | undefined;
  /** A row with NULL in its key is invalid. */
  readonly keyRequired: boolean;
}

/** The rules of a request for a table with these defaults. `InvalidInput` says which text is wrong, and whether it is a default. */
export function rulesOf(
  asked: RuleTexts,
  flags: MergeFlags,
  properties: Properties,
  metadata: Schema['metadata'],
): RowRules {
  const { texts, defaults, shown } = standingRules(ruleNames, asked, properties, metadata);
  return { ...readRules(texts, flags, shown), defaults };
}

export function readRules(
  texts: RuleTexts,
  flags: MergeFlags,
  shown: ShownRule = (name) => name,
): Omit<RowRules, 'defaults'> {
  const asked = texts.on_duplicate || undefined;
  const onDuplicate = rowsThatStay.find((each) => each === asked);
  if (asked !== undefined && onDuplicate === undefined)
    throw invalidInput(`${shown('on_duplicate')}: expected one of ${rowsThatStay.join(', ')}`);
  const said = {
    tombstone: texts.tombstone ? readTombstone(texts.tombstone, flags, shown('tombstone')) : undefined,
    invalid: readInvalidRules(texts, shown),
    extends: readSchemaMode(texts, shown),
    keyRequired: readKeyRequired(texts, shown),
  };
  if (said.tombstone !== undefined && said.extends)
    throw invalidInput(
      `${shown('tombstone')}: a source with marks does not extend the table; send an empty schema or an empty tombstone`,
    );
  if (said.invalid.isReported && flags.whenNotMatchedBySourceDelete !== false)
    throw invalidInput(
      `${shown('on_invalid')}: a merge that deletes by source would delete what its invalid rows stand for; send an empty on_invalid to do without`,
    );
  if (!texts.version_column) return { onDuplicate: onDuplicate ?? 'refuse', versionColumn: undefined, ...said };
  const versionColumn = parseFieldPath(texts.version_column, shown('version_column'));
  if (onDuplicate === 'first' || onDuplicate === 'last')
    throw invalidInput(
      `${shown('on_duplicate')}: with ${shown('version_column')} the newest row of a key counts, so it is left out or refuse`,
    );
  if (flags.whenNotMatchedBySourceDelete !== false)
    throw invalidInput(
      `${shown('version_column')}: a merge that deletes by source does not compare versions; send an empty version_column to do without`,
    );
  return { onDuplicate: onDuplicate ?? 'newest', versionColumn, ...said };
}

function readKeyRequired({ key_required: text }: RuleTexts, shown: ShownRule): boolean {
  const isTrue = /^(?:true|1)$/i.test(text ?? '');
  if (text && !isTrue && !/^(?:false|0)$/i.test(text))
    throw invalidInput(`${shown('key_required')}: expected true or false`);
  return isTrue;
}

/** A deletion is a change of a row that is there, so a merge that does not change such rows has none. */
function readTombstone(text: string, flags: MergeFlags, name: string): string {
  const { segments } = parseFieldPath(text, name);
  const [column = ''] = segments;
  const without = `send an empty tombstone to do without`;
  if (segments.length > 1) throw invalidInput(`${name}: the mark is a column of its own, not a field of a struct`);
  if (flags.whenNotMatchedBySourceDelete !== false)
    throw invalidInput(`${name}: a merge that deletes by source has no marks; ${without}`);
  if (flags.whenMatchedUpdateAll !== true)
    throw invalidInput(
      `${name}: marked rows delete, so when_matched_update_all has to be true and without a filter; ${without}`,
    );
  return column;
}

/** Throws `TableColumnNotFound` where the source has no such column, and `InvalidInput` where it is one of the key or the version. */
export function requireMarks(
  { on, rules: { tombstone, versionColumn } }: Pick<Merged, 'on' | 'rules'>,
  source: Schema,
): void {
  if (tombstone === undefined) return;
  if (!source.fields.some(({ name }) => name === tombstone))
    throw new LancegateError(
      'TableColumnNotFound',
      `tombstone: the source has no column ${formatFieldPath({ segments: [tombstone] })}, which marks rows that delete`,
    );
  const others = versionColumn === undefined ? on : [...on, versionColumn];
  if (others.some(({ segments }) => segments[0] === tombstone))
    throw invalidInput('tombstone: the mark cannot be in the key or the version_column');
}

const orderedKinds: readonly DataType['kind'][] = [
  ...(['int', 'float', 'decimal', 'date', 'time', 'timestamp', 'duration'] as const),
  ...(['utf8', 'large_utf8', 'binary', 'large_binary', 'fixed_size_binary'] as const),
];

/**
 * Throws `TableColumnNotFound` where the source has no such column, and `InvalidInput` for a type whose values have no order. The table has
 * all columns of a source that fits it.
 */
export function requireVersions({ versionColumn: path }: Pick<RowRules, 'versionColumn'>, source: Schema): void {
  if (path === undefined) return;
  const field = resolveField(source, path);
  if (field === undefined)
    throw new LancegateError(
      'TableColumnNotFound',
      `version_column: the source has no column ${formatFieldPath(path)}, by which rows are newer or older`,
    );
  if (!orderedKinds.includes(field.type.kind))
    throw invalidInput(`version_column: column ${formatFieldPath(path)} of type ${typeName(field)} has no order`);
}

/** Rows, and their keys: none is there twice. */
export interface KeyedRows extends DistinctKeys {
  readonly chunk: IpcChunk;
  /** How many rows were passed over because another row of the source has their key. */
  readonly numDuplicateRows: number;
}

/** What decides which rows of a source count. */
export interface Merged {
  readonly on: readonly FieldPath[];
  readonly flags: MergeFlags;
  readonly rules: Pick<RowRules, 'onDuplicate' | 'versionColumn' | 'tombstone' | 'extends'>;
}

/**
 * A key that is there twice is refused, unless a rule says which of its rows stays, or the merge only deletes by source. Then nothing of
 * the source is written, and only which keys it has counts: joined with a table that has many rows of such a key, each further row would
 * make the result larger by as many.
 */
export async function readSourceKeys(
  chunk: IpcChunk,
  { on, flags, rules: { onDuplicate, versionColumn } }: Merged,
  hasher: KeyHasher,
): Promise<KeyedRows> {
  const onlyDeletes = flags.whenMatchedUpdateAll === false && !flags.whenNotMatchedInsertAll;
  if (onDuplicate === 'refuse' && !onlyDeletes)
    return { chunk, ...(await readDistinctKeys(chunk, on, hasher)), numDuplicateRows: 0 };
  const isByVersion = onDuplicate === 'newest' && versionColumn !== undefined;
  const stays = isByVersion ? newest(chunk, versionColumn) : () => (onDuplicate === 'last' ? 'last' : 'first');
  const kept = await readKeptKeys(chunk, on, hasher, stays);
  return { ...kept, numDuplicateRows: chunk.rows - kept.chunk.rows };
}

/** Of equal versions the later row is the newest. A row without a version is older than all others. */
function newest(chunk: IpcChunk, versionColumn: FieldPath): (first: number, last: number) => 'first' | 'last' {
  const versionAt = orderedValues(readKeyColumn(chunk, versionColumn, 'version'));
  return (first, last) => (isOlder(versionAt(last), versionAt(first)) ? 'first' : 'last');
}

export const isOlder = (some: OrderedValue, other: OrderedValue): boolean =>
  other !== undefined && (some === undefined || some < other);
