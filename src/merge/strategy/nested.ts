/**
 * Merges on keys that lie inside structs, which the engine refuses ("No field named k", whatever the flags).
 *
 * How: under the table's turn, the target rows whose keys occur in the source are copied into a scratch dataset, their
 * keys promoted to top-level columns; the source likewise. There the engine does the merge itself, with every flag, filter
 * and partial column as ever. Then one commit on the real table takes the old rows out and the results in: a merge that
 * joins on the structs holding the keys, inserts what it does not find and deletes the rows being replaced.
 *
 * That join also matches two structs that agree in a NULL key, where SQL says NULL matches nothing, and refuses a target
 * that holds a key twice. In these two cases the join goes over a column of nothing but NULL instead, added before and
 * dropped after: the data still changes in one commit, between two that touch the schema alone. A crash in between leaves
 * that column; `dropLeftoverColumn` removes it before the next write, and no answer ever shows it.
 *
 * Cost: reads the whole target (as every merge that deletes by source does) and rewrites the matched rows.
 */

import type { IpcFile } from '../../arrow/format/ipc-file.ts';
import type { FieldPath } from '../../arrow/schema/field-path.ts';
import type { IpcChunk } from '../../arrow/schema/ipc-chunk.ts';
import type { Field } from '../../arrow/schema/schema.ts';
import { joinFiles } from '../../arrow/stream/join-files.ts';
import { type Dataset, type Engine, isRefusal, type Scratch } from '../../engine/port/engine.ts';
import type { Filter, MergeCounts, MergeSpec, Projection } from '../../engine/port/merge-spec.ts';
import { type CheckedSql, ownSql } from '../../kernel/checked-sql.ts';
import { sqlFieldPath } from '../../keys/key-columns.ts';
import type { Batch } from '../batch.ts';
import type { Merged } from '../engine-commit.ts';

const keyColumn = (index: number): string => `__lancegate_key_${index}`;
const originColumn = '__lancegate_origin';
/** All NULL, so that nothing ever matches on it. */
export const nothingColumn = '__lancegate_nothing';

const everyRow = ownSql('true');

export interface NestedMerge {
  readonly batch: Batch;
  readonly spec: Omit<MergeSpec, 'on'>;
  readonly chunk: IpcChunk;
  /** Asked for each of the engine's merges; undefined: no deadline. */
  readonly remainingMs: () => number | undefined;
  /** The principal (`principalKey`) whose share the filters count against. */
  readonly principal: string;
}

/** The commit that changed the rows. */
interface Stored {
  readonly stored: MergeCounts;
  readonly ownVersions: readonly number[];
}

interface Replacement {
  /** Holds the rows to put in, among others. */
  readonly from: Dataset;
  readonly rowsWhere: CheckedSql;
  /** The target rows to take out, as SQL; undefined for none. */
  readonly deleteWhere: Filter | undefined;
}

export async function mergeNested(engine: Engine, target: Dataset, merge: NestedMerge): Promise<Merged> {
  const scratch = await engine.scratch();
  try {
    const matched = await target.version();
    const columns = (await target.schema()).fields;
    const where = keyFilter(merge);
    const found = await copyCandidates(scratch, target, columns, merge, where);
    const counts = await mergeInScratch(scratch, found, merge);
    const replacement = replacementOf(found, merge, where);
    const { stored, ownVersions } = await commit(target, columns, merge, replacement);
    const { version, numAttempts } = stored;
    // Rows that were replaced were deleted and inserted, which the sums of the two leave out.
    const numDeletedRows = counts.numInsertedRows - stored.numInsertedRows + stored.numDeletedRows;
    return {
      counts: { ...counts, numDeletedRows, numAttempts, version: await target.version() },
      commit: { matched, version, numAttempts, ownVersions },
      gainsByIndex: false,
    };
  } finally {
    await scratch.discard();
  }
}

/** Removes what an interrupted merge left behind. To be called under the turn, before any other commit. */
export async function dropLeftoverColumn(target: Dataset): Promise<void> {
  const { fields } = await target.schema();
  if (fields.some((field) => field.name === nothingColumn)) await target.dropColumn(nothingColumn);
}

/** True for every target row that can match; with several key columns also for some that do not, which is harmless. */
function keyFilter({ batch }: NestedMerge): CheckedSql {
  const terms = batch.first.on.map((path, index) => {
    const literals = [...new Set(batch.requests.flatMap(({ keys }) => keys.sqlLiterals(index)))];
    return literals.length === 0 ? 'false' : `${sqlFieldPath(path)} IN (${literals.join(', ')})`;
  });
  return ownSql(terms.includes('false') ? 'false' : terms.join(' AND '));
}

const keyProjections = (on: readonly FieldPath[]): Projection[] =>
  on.map((path, index) => ({ name: keyColumn(index), expression: sqlFieldPath(path) }));

const columnProjections = (columns: readonly Field[]): Projection[] =>
  columns.map(({ name }) => ({ name, expression: sqlFieldPath({ segments: [name] }) }));

const originProjection = (origin: 'target' | 'source'): Projection => ({
  name: originColumn,
  expression: `'${origin}'`,
});

async function copyCandidates(
  scratch: Scratch,
  target: Dataset,
  columns: readonly Field[],
  { batch: { first } }: NestedMerge,
  where: CheckedSql,
): Promise<Dataset> {
  const projections = [...keyProjections(first.on), originProjection('target'), ...columnProjections(columns)];
  return scratch.create('target', await collect(target, projections, where));
}

async function mergeInScratch(scratch: Scratch, found: Dataset, merge: NestedMerge): Promise<MergeCounts> {
  const sent = await scratch.create('source', merge.chunk.file);
  const columns = columnProjections(merge.chunk.schema.fields);
  const source = await collect(
    sent,
    [...keyProjections(merge.batch.first.on), originProjection('source'), ...columns],
    everyRow,
  );
  const on = merge.batch.first.on.map((_, index) => keyColumn(index));
  return found.merge({ ...merge.spec, on }, source, merge.remainingMs(), merge.principal);
}

function replacementOf(from: Dataset, { spec }: NestedMerge, where: CheckedSql): Replacement {
  const deletes = spec.whenNotMatchedBySourceDelete;
  if (spec.whenMatchedUpdateAll === false && deletes === false) {
    return { from, rowsWhere: ownSql(`${originColumn} = 'source'`), deleteWhere: undefined };
  }
  if (deletes === false) return { from, rowsWhere: everyRow, deleteWhere: { filter: where, isOurs: true } };
  const unmatched = deletes === true ? 'true' : `(${deletes.filter})`;
  const filter = ownSql(`(${where}) OR ((${where}) IS NOT TRUE AND ${unmatched})`);
  return { from, rowsWhere: everyRow, deleteWhere: { filter, isOurs: deletes === true } };
}

async function commit(
  target: Dataset,
  columns: readonly Field[],
  merge: NestedMerge,
  replacement: Replacement,
): Promise<Stored> {
  const { from, rowsWhere } = replacement;
  if (await mayMatchOnNull(target, merge)) return commitOverNothing(target, columns, merge, replacement);
  const on = [...new Set(merge.batch.first.on.map((path) => path.segments[0] ?? ''))];
  const rows = await collect(from, columnProjections(columns), rowsWhere);
  try {
    const stored = await target.merge(commitSpec(on, replacement), rows, merge.remainingMs(), merge.principal);
    return { stored, ownVersions: [] };
  } catch (error) {
    if (!isRefusal(error, 'ambiguous merge')) throw error;
    return commitOverNothing(target, columns, merge, replacement);
  }
}

const commitSpec = (on: readonly string[], { deleteWhere }: Replacement): MergeSpec => ({
  on,
  whenMatchedUpdateAll: true,
  whenNotMatchedInsertAll: true,
  whenNotMatchedBySourceDelete: deleteWhere ?? false,
  useIndex: false,
});

async function commitOverNothing(
  target: Dataset,
  columns: readonly Field[],
  merge: NestedMerge,
  replacement: Replacement,
): Promise<Stored> {
  const nothing = { name: nothingColumn, expression: 'CAST(NULL AS INT)' };
  const rows = await collect(replacement.from, [...columnProjections(columns), nothing], replacement.rowsWhere);
  await target.addNullColumn(nothingColumn);
  try {
    const ownVersions = [await target.version()];
    return {
      stored: await target.merge(commitSpec([nothingColumn], replacement), rows, merge.remainingMs(), merge.principal),
      ownVersions,
    };
  } finally {
    await target.dropColumn(nothingColumn);
  }
}

/** SQL says that NULL matches nothing; a join on structs says that two structs with the same NULL inside are equal. */
async function mayMatchOnNull(target: Dataset, { batch }: NestedMerge): Promise<boolean> {
  if (!batch.hasNullKey) return false;
  const isNull = batch.first.on.map((path) => `${sqlFieldPath(path)} IS NULL`).join(' OR ');
  return (await target.countRows(ownSql(isNull))) > 0;
}

async function collect(from: Dataset, columns: readonly Projection[], where: CheckedSql): Promise<IpcFile> {
  const files: IpcFile[] = [];
  for await (const file of from.select(columns, where)) files.push(file);
  return joinFiles(files);
}
