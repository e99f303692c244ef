import type { TableColumns } from '../../engine/port/column-view.ts';
import type { HeadCommits, Snapshot } from '../../engine/port/dataset.ts';
import type { Datasets } from '../../engine/port/engine.ts';
import type { MergeSpec } from '../../engine/port/merge-spec.ts';
import { addressesAmong, addressOf } from '../../engine/port/row-address.ts';
import type { MergeTotals, Shadow } from '../../engine/port/shadow.ts';
import { LancegateError } from '../../kernel/errors.ts';
import type { Properties } from '../../kernel/ids.ts';
import { principalKey } from '../../kernel/request-scope.ts';
import {
  type Committed,
  type Counted,
  type Head,
  isAtHead,
  longestTime,
  notCommitted,
  requireBoundable,
  unchanged,
} from '../../write/write.ts';
import type { Batch } from '../batch.ts';
import { type CountedRows, countsOfEach, rowsBeforeByCommit, rowsBeforeByTotals } from '../counts.ts';
import type { KeyIndexLoader } from '../key-index/key-index-loader.ts';
import { mergeMatched } from './matched-rows.ts';
import { mergeNested } from './nested.ts';
import { deleteSurplus, leavesOneRow, type Rows, type RowsToDelete, withDeleted } from './strategy.ts';
import { isWide, WholeRows } from './whole-rows.ts';

/** What was merged into a shadow. */
interface ShadowMerge {
  /** The surplus rows count as deleted. */
  readonly totals: MergeTotals;
  readonly surplusRows: number;
}

/** The engine finds the rows and merges, in a shadow of the branch: every kind of batch. */
export class InShadow {
  readonly #engine: Datasets;
  readonly #index: KeyIndexLoader;

  constructor(index: KeyIndexLoader, engine: Datasets) {
    this.#index = index;
    this.#engine = engine;
  }

  /** As `ByRowAddress.merge`; never refused. */
  async merge(batch: Batch, head: Head, deletion?: RowsToDelete): Promise<Committed | 'overtaken'> {
    const before = await this.#rowsBefore(batch, head);
    const shadow = await head.dataset.shadow();
    try {
      // A reader may have refreshed the dataset since the head was read.
      if (shadow.baseVersion !== head.version) return 'overtaken';
      requireBoundable(head, shadow);
      const merged = await this.#compute(batch, head.dataset, shadow, deletion);
      const isNothing = !hasChanged(merged.totals);
      if (isNothing && deletion === undefined) return unchanged(batch.requests, head);
      if (head.mayCommit?.(merged.totals) === false) return notCommitted([merged.totals], head);
      const noted = await this.#note(batch, head, merged, before);
      if (isNothing && deletion !== undefined) return await this.#settle(batch, head, deletion, noted);
      const takesAway = merged.totals.numDeletedRows > 0 || undefined;
      const made = await shadow.commit(() => batch.requireTime(), noted, takesAway, deletion?.settings);
      if (made === 'overtaken') return 'overtaken';
      return {
        version: made.version,
        count: () => this.#count(batch, head, merged, { before, version: made.version }),
        surplusRows: merged.surplusRows,
      };
    } finally {
      shadow.discard();
    }
  }

  /** Marked rows delete nothing that is there, and leave their tombstones. */
  async #settle(
    { requests }: Batch,
    head: Head,
    { settings }: RowsToDelete,
    noted: Properties | undefined,
  ): Promise<Committed | 'overtaken'> {
    const same = unchanged(requests, head);
    if (settings === undefined) return same;
    if (!(await isAtHead(head))) return 'overtaken';
    const made = await head.dataset.commitManifest({ kind: 'settings', settings }, undefined, noted);
    return made === 'overtaken' ? made : { ...same, version: made.version };
  }

  async #rowsBefore(batch: Batch, head: Head): Promise<CountedRows | undefined> {
    if (batch.requests.length === 1) return undefined;
    const found = (await this.#index.at(head, batch.first))?.find(batch.keys);
    return found && { by: 'key_index', rowsBefore: (key: number) => found.numRows(key) };
  }

  async #compute(
    batch: Batch,
    dataset: Snapshot & HeadCommits,
    shadow: Shadow,
    deletion: RowsToDelete | undefined,
  ): Promise<ShadowMerge> {
    const target = { columns: await dataset.columns(), shadow };
    if (deletion !== undefined) return deleteAndMerge(this.#engine, target, batch, deletion);
    const isByEngine = !needsPromotedKeys(batch) && !canMatch(batch, target);
    const useIndex = isByEngine && batch.first.spec.useIndex && (await mayUseIndex(batch, dataset));
    return mergeInto(this.#engine, target, batch, useIndex);
  }

  /** It does nothing where the rows that were there have to be looked for in the commit. */
  async #note(
    batch: Batch,
    { dataset, note }: Head,
    { totals, surplusRows }: ShadowMerge,
    before: CountedRows | undefined,
  ): Promise<Properties | undefined> {
    if (note === undefined) return undefined;
    if (batch.requests.length === 1) return note([totals]);
    const counted = before ?? (surplusRows === 0 ? rowsBeforeByTotals(batch, totals) : undefined);
    if (counted === undefined) return undefined;
    const isWhole = leavesOneRow(batch, (await dataset.schema()).fields.length);
    return note(countsOfEach(batch, counted.rowsBefore, isWhole));
  }

  async #count(
    batch: Batch,
    { dataset, location, branch, version: headVersion }: Head,
    { totals, surplusRows }: ShadowMerge,
    { before, version }: { readonly before: CountedRows | undefined; readonly version: number },
  ): Promise<Counted> {
    if (batch.requests.length === 1) return { each: [totals], by: undefined };
    const counted =
      before ??
      (surplusRows === 0 ? rowsBeforeByTotals(batch, totals) : undefined) ??
      (await rowsBeforeByCommit(batch, {
        engine: this.#engine,
        dataset,
        version,
        before: { location, branch, version: headVersion },
        totals: withSurplus(totals, -surplusRows),
      }));
    const isWhole = leavesOneRow(batch, (await dataset.schema()).fields.length);
    return { each: countsOfEach(batch, counted.rowsBefore, isWhole), by: counted.by };
  }
}

/**
 * Merges one batch after other steps in the shadow. Without an index: those of the branch do not know the rows that the steps
 * before have left.
 */
export const mergeAsStep = (engine: Datasets, target: MergeTarget, batch: Batch): Promise<ShadowMerge> =>
  mergeInto(engine, target, batch, false);

/** Rows are deleted before others are merged: none of these has the key of one of those. */
async function deleteAndMerge(
  engine: Datasets,
  target: MergeTarget,
  batch: Batch,
  { rows }: RowsToDelete,
): Promise<ShadowMerge> {
  const { shadow } = target;
  if (!shadow.isPrivate)
    throw new LancegateError(
      'Unsupported',
      'tombstone: only the engine can change this table, and it cannot keep tombstones',
    );
  const limits = { timeoutMs: longestTime(batch.requests), principal: principalKey(batch.first.scope.principal) };
  const where = addressesAmong(rows.map(addressOf));
  const deleted = rows.length > 0 ? await shadow.deleteWhere(where, limits) : 0;
  const merged = batch.changesNothing ? mergedNothing : await mergeAsStep(engine, target, batch);
  const [totals = merged.totals] = withDeleted([merged.totals], deleted);
  return { ...merged, totals };
}

const mergedNothing: ShadowMerge = {
  totals: { numInsertedRows: 0, numUpdatedRows: 0, numDeletedRows: 0 },
  surplusRows: 0,
};

interface MergeTarget {
  /** The shadow has these. */
  readonly columns: TableColumns;
  readonly shadow: Shadow;
}

async function mergeInto(engine: Datasets, target: MergeTarget, batch: Batch, useIndex: boolean): Promise<ShadowMerge> {
  const remainingMs = () => longestTime(batch.requests);
  const { columns, shadow } = target;
  if (canMatch(batch, target)) return mergeMatched(engine, target, batch, remainingMs);
  if (needsPromotedKeys(batch)) return mergeNested(engine, target, batch, remainingMs);
  const principal = principalKey(batch.first.scope.principal);
  const step = { kind: 'merge', spec: specOf(batch, useIndex) } as const;
  const totals = await shadow.change(step, batch.chunk().file, { timeoutMs: remainingMs(), principal });
  const limits = { timeoutMs: remainingMs(), principal };
  const rows: Rows = {
    select: (projections, where) => shadow.select(projections, where, limits),
    deleteRows: (addresses) => shadow.deleteWhere(addressesAmong(addresses), limits),
  };
  const surplusRows = await deleteSurplus(rows, batch, columns.schema.fields.length, totals);
  return { totals: withSurplus(totals, surplusRows), surplusRows };
}

const needsPromotedKeys = (batch: Batch): boolean =>
  batch.hasSpellings || batch.first.on.some(({ segments }) => segments.length > 1);

/** Where the steps are commits of their own, readers would see rows missing between them. */
const canMatch = (batch: Batch, { columns, shadow }: MergeTarget): boolean =>
  shadow.isPrivate && isWide(columns.schema) && WholeRows.areFor(batch.first.chunk, columns);

const specOf = ({ first: { spec, on } }: Batch, useIndex: boolean): MergeSpec => ({
  ...spec,
  useIndex,
  on: on.map(({ segments: [column = ''] }) => column),
});

const hasChanged = ({ numInsertedRows, numUpdatedRows, numDeletedRows }: MergeTotals): boolean =>
  numInsertedRows + numUpdatedRows + numDeletedRows > 0;

/** The engine counts surplus rows as updated. */
const withSurplus = (totals: MergeTotals, rows: number): MergeTotals => ({
  numInsertedRows: totals.numInsertedRows,
  numUpdatedRows: totals.numUpdatedRows - rows,
  numDeletedRows: totals.numDeletedRows + rows,
});

/**
 * Through an index the engine loses source rows whose key is NULL (neither inserted nor refused), panics on a filtered
 * update of some of the columns, and on a branch of a branch looks for main's index where it is not. Without the index it
 * reads the key column of the whole table instead.
 */
async function mayUseIndex(batch: Batch, dataset: Snapshot): Promise<boolean> {
  const { first } = batch;
  if (first.branch !== undefined || batch.hasNullKey) return false;
  if (!(await isIndexFaster(dataset, first.chunk.rows))) return false;
  if (typeof first.spec.whenMatchedUpdateAll === 'boolean') return true;
  return first.chunk.schema.fields.length === (await dataset.schema()).fields.length;
}

const rowsSoonFound = 5_000;

/** For a source that is a good part of the table, reading the key column once is faster than finding each key. */
async function isIndexFaster(dataset: Snapshot, sourceRows: number): Promise<boolean> {
  return sourceRows <= rowsSoonFound || sourceRows * 8 <= (await dataset.countRows());
}
