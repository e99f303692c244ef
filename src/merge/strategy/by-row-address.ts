import { setImmediate } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { concatRows, type RowsOf } from '../../arrow/column/concat-rows.ts';
import { schemaFingerprint } from '../../arrow/schema/read-schema.ts';
import type { Schema } from '../../arrow/schema/schema.ts';
import type { Snapshot } from '../../engine/port/dataset.ts';
import { type CommitOutcome, isMade, type RefusedCommit } from '../../engine/port/refusal.ts';
import { addressOf, type CommitTurn, type PreparedRows, type Replaced } from '../../engine/port/row-address.ts';
import type { MergeTotals } from '../../engine/port/shadow.ts';
import { principalKey } from '../../kernel/request-scope.ts';
import type { RowAddress } from '../../keys/address-remap.ts';
import { type Committed, type Head, longestTime, notCommitted, unchanged } from '../../write/write.ts';
import type { Batch, MergeOfRows } from '../batch.ts';
import { countsOfEach } from '../counts.ts';
import { type FoundRows, type KeyIndex, PlannedRows } from '../key-index/key-index.ts';
import type { KeyIndexLoader } from '../key-index/key-index-loader.ts';
import { sliceRows } from '../key-index/key-lookup.ts';
import { type RowsToDelete, withDeleted } from './strategy.ts';
import { NotAssembled, WholeRows } from './whole-rows.ts';

/** The schemas of one table's sources are few. */
const mostRefused = 64;

/**
 * Merges by keys alone, where the key index knows the addresses of their rows: the engine only encodes the new rows, and deletion
 * vectors hide the old ones. Rows that the merge would not write are left out before; columns that the source does not send are
 * read at the addresses, so that whole rows are written.
 *
 * A key that another program has doubled has one row after an upsert of whole rows. A merge that only updates, or sends some of the
 * columns, does not apply then, as it updates all rows of the key.
 */
export class ByRowAddress {
  readonly #index: KeyIndexLoader;
  /**
   * The schema of the table that refused a source, by the fingerprint of the source. It is another object once the schema may
   * have changed.
   */
  readonly #refused = new LRUCache<string, Schema>({ max: mostRefused });
  /** The version that another program's commit followed. */
  #overtakenAt: number | undefined;

  constructor(index: KeyIndexLoader) {
    this.#index = index;
  }

  /**
   * Refused: the batch is to be merged in a shadow. `known` are rows that were found before, maybe for other keys. Throws what fails the
   * batch: `FaultyPart` says which of its merges did. A `deletion` goes into the same commit.
   */
  async merge(
    batch: Batch,
    head: Head,
    { known, deletion }: { readonly known?: FoundRows | undefined; readonly deletion?: RowsToDelete | undefined } = {},
  ): Promise<CommitOutcome<Committed>> {
    const isFor = batch.numRows === 0 ? 'whole' : await this.#isFor(batch, head.dataset);
    if (isFor === false) return { refused: 'a merge by more than keys, or of other columns' };
    // The rows that a planned version has cannot be read.
    if (head.turn?.follows !== undefined && isFor === 'partial') return 'overtaken';
    const index = await this.#index.at(head, batch.first);
    if (index === undefined) return { refused: 'no key index' };
    if (batch.numRows > sliceRows) await setImmediate();
    const found = known?.areOf(index, batch.keys) === true ? known : index.find(batch.keys);
    if ((!batch.inserts || isFor === 'partial') && found.surplus.size > 0) return { refused: 'doubled keys' };
    const parts = rowsToWrite(batch, found);
    const isNothing = parts.every(({ chunk, keep }) => chunk.rows === 0 || keep?.includes(1) === false);
    if (isNothing) return this.#onlyDelete(index, batch, { found, parts, rows: undefined, deletion }, head);
    // A reader has refreshed the dataset since, or the commit that this one follows was not made.
    if (index.tracked.version !== head.version) return 'overtaken';
    const rows =
      isFor === 'whole' ? batch.prepare(head.dataset, parts) : await this.#completed(batch, parts, found, head);
    if (rows === 'other columns')
      return this.#refuse({ refused: rows }, batch.first, await head.dataset.schema(), index);
    if (rows === 'too much at once') return { refused: rows };
    return this.#replace(index, batch, { found, parts, rows, deletion }, head);
  }

  async #onlyDelete(index: KeyIndex, batch: Batch, of: RowsToReplace, head: Head): Promise<CommitOutcome<Committed>> {
    if (of.deletion === undefined) return unchanged(batch.requests, head);
    if (of.deletion.rows.length === 0) return { refused: 'no rows to write or to delete' };
    return index.tracked.version === head.version ? this.#replace(index, batch, of, head) : 'overtaken';
  }

  async #replace(
    index: KeyIndex,
    batch: Batch,
    { found, parts, rows, deletion }: RowsToReplace,
    head: Head,
  ): Promise<CommitOutcome<Committed>> {
    const old = [...(batch.updates ? addressesOf(found) : []), ...(deletion?.rows ?? [])];
    const each = countsWith(batch, found, deletion);
    if (each[0] !== undefined && head.mayCommit?.(each[0]) === false) return notCommitted(each, head);
    const properties = head.note?.(each);
    const { turn, end } = planning(index, batch, parts, head.turn);
    const updated = () => batch.rowsOf(parts).map(({ key }) => (batch.updates ? found.rows.get(key) : undefined));
    const takesAway = deletion !== undefined && deletion.rows.length > 0;
    const options = { properties, settings: deletion?.settings, takesAway, turn, updated };
    const replaced = await head.dataset.replaceRows(index.tracked, old, rows, options).catch((error) => {
      end();
      throw error;
    });
    if (!isMade(replaced)) {
      end();
      if (replaced !== 'overtaken') return this.#refuse(replaced, batch.first, await head.dataset.schema(), index);
      return head.turn?.follows === undefined ? this.#overtaken(index) : replaced;
    }
    this.#index.used();
    return this.#committed(batch, { found, deletion }, replaced.version, () => {
      this.#index.learn(index, replaced, batch, parts);
      end();
    });
  }

  /** The engine took so long for a batch. If this strategy could have taken it, whether to read the key index is weighed. */
  async didWithout(batch: Batch, head: Head, engineMs: number): Promise<void> {
    if ((await this.#isFor(batch, head.dataset)) !== false) await this.#index.didWithout(head, batch, engineMs);
  }

  #committed(
    batch: Batch,
    { found, deletion }: Pick<RowsToReplace, 'found' | 'deletion'>,
    version: number,
    learn: () => void,
  ): Committed {
    return {
      version,
      count: async () => {
        learn();
        if (batch.numRows > sliceRows) await setImmediate();
        return { by: 'key_index', each: countsWith(batch, found, deletion) };
      },
      surplusRows: batch.isUpsert ? found.surplus.values().reduce((sum, rows) => sum + rows.length, 0) : 0,
    };
  }

  /** Nothing is tried with columns that the table has otherwise: the index would be read in vain. */
  async #isFor({ isByKeys, first: { chunk } }: Batch, dataset: Snapshot): Promise<false | 'whole' | 'partial'> {
    if (!isByKeys) return false;
    const table = await dataset.columns();
    if (this.#refused.size > 0 && this.#refused.get(schemaFingerprint(chunk)) === table.schema) return false;
    if (chunk.schema.fields.length === table.schema.fields.length) return 'whole';
    return WholeRows.areFor(chunk, table) && 'partial';
  }

  /** The rows of a partial source with the other columns of the rows that they update. */
  async #completed(
    batch: Batch,
    parts: readonly RowsOf[],
    { rows }: FoundRows,
    { dataset, version }: Head,
  ): Promise<PreparedRows | NotAssembled['why']> {
    const limits = { timeoutMs: longestTime(batch.requests), principal: principalKey(batch.first.scope.principal) };
    const whole = new WholeRows(concatRows(parts), await dataset.columns(), async (columns) => {
      const view = await dataset.view(version, columns, limits);
      if (view === undefined) throw new NotAssembled('other columns');
      return view;
    });
    const toWrite = batch.rowsOf(parts).map(({ source, key }) => {
      const address = batch.updates ? rows.get(key) : undefined;
      return { source, old: address && addressOf(address) };
    });
    try {
      return batch.prepare(dataset, parts, await whole.whole(toWrite));
    } catch (error) {
      if (error instanceof NotAssembled) return error.why;
      throw error;
    } finally {
      whole.discard();
    }
  }

  /**
   * Remembers the refusal. Direct commits may never fit this table: so its index is forgotten if none of them has used it
   * yet.
   */
  #refuse(refusal: RefusedCommit, { chunk }: MergeOfRows, schema: Schema, index: KeyIndex): RefusedCommit {
    this.#refused.set(schemaFingerprint(chunk), schema);
    if (!index.isUsed) this.#index.forget();
    return refusal;
  }

  /** Twice at one version: not another commit, but another table in the same folder. */
  #overtaken({ tracked: { version } }: KeyIndex): 'overtaken' {
    if (this.#overtakenAt === version) this.#index.giveUp('changed');
    this.#overtakenAt = version;
    return 'overtaken';
  }
}

interface RowsToReplace {
  readonly found: FoundRows;
  readonly parts: readonly RowsOf[];
  readonly rows: PreparedRows | undefined;
  readonly deletion: RowsToDelete | undefined;
}

/** A batch with a deletion has one merge. */
const countsWith = (batch: Batch, found: FoundRows, deletion: RowsToDelete | undefined): readonly MergeTotals[] =>
  withDeleted(
    countsOfEach(batch, (key) => found.numRows(key), batch.isUpsert),
    deletion?.rows.length ?? 0,
  );

/** From when its commit is planned until `end`, the index finds the rows of the batch where they will be. */
function planning(index: KeyIndex, batch: Batch, parts: readonly RowsOf[], turn: CommitTurn | undefined) {
  let rows: PlannedRows | undefined;
  const planned = (replaced: Replaced): void => {
    rows = new PlannedRows(replaced, batch.keys, parts, (request) => batch.keyOf(request));
    index.plan(rows);
    turn?.planned(replaced);
  };
  return {
    turn: turn && { ...turn, planned },
    end: () => {
      if (rows !== undefined) index.forgetPlanned(rows);
    },
  };
}

/** An upsert writes all rows; a merge that only inserts those of keys that were not found, one that only updates the others. */
function rowsToWrite(batch: Batch, { rows }: FoundRows): readonly RowsOf[] {
  const { isUpsert, updates, inserts } = batch;
  return isUpsert ? batch.parts : batch.select((key) => (rows.has(key) ? updates : inserts));
}

function* addressesOf({ rows, surplus }: FoundRows): Iterable<RowAddress> {
  yield* rows.values();
  for (const others of surplus.values()) yield* others;
}
