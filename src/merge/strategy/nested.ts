/**
 * Merges on keys that the engine cannot join by: those inside structs, which it refuses ("No field named k", whatever the flags), and
 * floats that are one number in several spellings, NaN and zero, of which it finds only rows of the same bits.
 *
 * The rows of the table whose keys occur in the source are copied into a scratch dataset, their keys promoted to top-level
 * columns, in one spelling; the source likewise. There the engine does the merge, with every flag, filter and partial column as ever. Then the
 * old rows are deleted in the shadow and the results appended, which makes one version.
 *
 * Cost: reads the whole table (as every merge that deletes by source does) and rewrites the matched rows.
 */
import type { IpcFile } from '../../arrow/format/ipc-file.ts';
import type { FieldPath } from '../../arrow/schema/field-path.ts';
import type { Field } from '../../arrow/schema/schema.ts';
import { rowsOfFile } from '../../arrow/stream/file-stream.ts';
import { joinFiles } from '../../arrow/stream/ipc-chunks.ts';
import type { ChangeLimits } from '../../engine/port/change-limits.ts';
import type { TableColumns } from '../../engine/port/column-view.ts';
import type { EngineWrites } from '../../engine/port/dataset.ts';
import type { Datasets, Scratch } from '../../engine/port/engine.ts';
import type { MergeCounts, Projection } from '../../engine/port/merge-spec.ts';
import { addressesAmong, addressOf, placeOf, rowAddress } from '../../engine/port/row-address.ts';
import type { MergeTotals, Shadow } from '../../engine/port/shadow.ts';
import { type CheckedSql, ownSql } from '../../kernel/checked-sql.ts';
import { paired } from '../../kernel/paired.ts';
import { principalKey } from '../../kernel/request-scope.ts';
import { sqlFieldPath, sqlOfOneSpelling } from '../../keys/key-columns.ts';
import type { Batch, MergeOfRows } from '../batch.ts';
import { keyFilter, keyLiterals } from '../key-index/key-lookup.ts';
import { deleteSurplus, type Rows, wordsIn } from './strategy.ts';

const keyColumn = (index: number): string => `__lancegate_key_${index}`;
const originColumn = '__lancegate_origin';
const addressColumn = '__lancegate_address';

const everyRow = ownSql('true');

interface NestedTarget {
  /** The shadow has these. */
  readonly columns: TableColumns;
  readonly shadow: Shadow;
}

/** `remainingMs` is asked for each of the engine's merges; undefined is no deadline. */
export async function mergeNested(
  engine: Datasets,
  target: NestedTarget,
  batch: Batch,
  remainingMs: () => number | undefined,
): Promise<{ readonly totals: MergeTotals; readonly surplusRows: number }> {
  const scratch = await engine.scratch();
  try {
    const columns = target.columns.schema.fields;
    const candidates = keyFilter(batch.first.on, keyLiterals(batch));
    const principal = principalKey(batch.first.scope.principal);
    const limits = () => ({ principal, timeoutMs: remainingMs() });
    const projections = [...ownProjections(batch.first, 'target'), ...columnProjections(columns)];
    const copied = await joined(target.shadow.select(projections, candidates, limits()));
    const found = await scratch.create('target', copied);
    const words = async (expression: string, where: CheckedSql | undefined) =>
      wordsIn(await joined(found.select([{ name: 'word', expression }], where, limits())));
    const old = await words(addressColumn, undefined);
    const merged = await mergeInScratch(scratch, found, batch, limits());
    const rows: Rows = {
      select: (...of) => found.select(...of),
      deleteRows: (gone) => found.change({ kind: 'delete', where: addressesAmong(gone) }, undefined, limits()),
    };
    const surplusRows = await deleteSurplus(rows, batch, columns.length, merged, promotedKeys(batch));
    const deletedRows = await deleteOld(target, batch, candidates, limits());
    const added = batch.updates || deletesOthers(batch) ? everyRow : ownSql(`${originColumn} = 'source'`);
    const file = await joined(found.select(columnProjections(columns), added, limits()));
    const addedRows = rowsOfFile(file);
    if (addedRows > 0) {
      const before = (await words('_rowid', added)).map((id) => old[Number(id)]);
      const updated = before.map((word) => (word === undefined ? undefined : addressOf(placeOf(word))));
      await target.shadow.change({ kind: 'append', rows: addedRows, updated }, file, limits());
    }
    // Rows that stay or were updated are deleted and added, which the difference of the two leaves out.
    const numDeletedRows = deletedRows - addedRows + merged.numInsertedRows;
    const { numInsertedRows, numUpdatedRows } = merged;
    return {
      totals: { numInsertedRows, numUpdatedRows: numUpdatedRows - surplusRows, numDeletedRows },
      surplusRows,
    };
  } finally {
    await scratch.discard();
  }
}

const deletesOthers = ({ first }: Batch): boolean => first.spec.whenNotMatchedBySourceDelete !== false;

const promotedKeys = ({ first }: Batch): readonly FieldPath[] =>
  first.on.map((_, index) => ({ segments: [keyColumn(index)] }));

const keyProjections = ({ on, keys }: MergeOfRows): Projection[] =>
  paired(on, keys.columns).map(([path, column], index) => ({
    name: keyColumn(index),
    expression: sqlOfOneSpelling(path, column),
  }));

const columnProjections = (columns: readonly Field[]): Projection[] =>
  columns.map(({ name }) => ({ name, expression: sqlFieldPath({ segments: [name] }) }));

/** The keys, where a row is from, and its address there. */
const ownProjections = (merge: MergeOfRows, origin: 'target' | 'source'): Projection[] => [
  ...keyProjections(merge),
  { name: originColumn, expression: `'${origin}'` },
  { name: addressColumn, expression: rowAddress },
];

async function mergeInScratch(
  scratch: Scratch,
  found: EngineWrites,
  batch: Batch,
  limits: ChangeLimits,
): Promise<MergeCounts> {
  const { on, spec } = batch.first;
  const chunk = batch.chunk();
  const sent = await scratch.create('source', chunk.file);
  const columns = columnProjections(chunk.schema.fields);
  const projections = [...ownProjections(batch.first, 'source'), ...columns];
  const source = await joined(sent.select(projections, everyRow, limits));
  const keys = on.map((_, index) => keyColumn(index));
  return found.change({ kind: 'merge', spec: { ...spec, on: keys } }, source, limits);
}

/** Deletes the rows that are added again, and those that the merge deletes by source. Returns how many. */
async function deleteOld(
  { columns, shadow }: NestedTarget,
  { first: { spec, on }, updates }: Batch,
  candidates: CheckedSql,
  limits: ChangeLimits,
): Promise<number> {
  const deletes = spec.whenNotMatchedBySourceDelete;
  if (deletes === false) return updates ? shadow.deleteWhere(candidates, limits) : 0;
  if (deletes === true) return shadow.deleteWhere(everyRow, limits);
  const filter = { filter: ownSql(`(${candidates}) OR ((${candidates}) IS NOT TRUE AND (${deletes.filter}))`) };
  // A client's filter runs in a reader, which merges: with an empty source, which no row matches.
  const onlyDeleting = {
    on: [on[0]?.segments[0] ?? ''],
    whenMatchedUpdateAll: false,
    whenNotMatchedInsertAll: true,
    whenNotMatchedBySourceDelete: filter,
    useIndex: false,
  };
  const { numDeletedRows } = await shadow.change({ kind: 'merge', spec: onlyDeleting }, columns.file, limits);
  return numDeletedRows;
}

async function joined(files: AsyncIterable<IpcFile>): Promise<IpcFile> {
  return joinFiles(await Array.fromAsync(files));
}
