import { setImmediate } from 'node:timers/promises';
import type { RowsOf } from '../../arrow/column/concat-rows.ts';
import { schemaFingerprint } from '../../arrow/schema/read-schema.ts';
import type { Schema } from '../../arrow/schema/schema.ts';
import type { Dataset } from '../../engine/port/engine.ts';
import type { RowAddress } from '../../engine/port/row-address.ts';
import type { Batch, Head, MergeRequest } from '../batch.ts';
import { countsOfEach } from '../counts.ts';
import type { FoundRows, KeyIndex } from '../key-index/key-index.ts';
import type { KeyIndexLoader } from '../key-index/key-index-loader.ts';
import { type Committed, type Outcome, type Strategy, unchanged } from './strategy.ts';

/** Half of what there is to do before the engine takes over, 2 ms, after which others have a turn of the event loop (P10). */
const mostRowsWithoutPause = 2_000;
/** Schemas, which clients have a few of. */
const mostRefused = 64;

/**
 * Merges of whole rows by their keys alone, where the key index says which rows the keys have: the engine only writes the new
 * rows, and the old ones are deleted by their addresses. Rows that a merge would not write are left out before.
 *
 * A key that another program has doubled has one row after an upsert. A merge that only updates is for the engine then, which
 * updates all rows of the key.
 */
export class ByRowAddress implements Strategy {
  readonly #index: KeyIndexLoader;
  /** Schemas of sources that were refused, and of the table that did: it is another object once that may have changed. */
  readonly #refused = new Map<string, Schema>();
  /** The version that another program's commit followed. */
  #overtakenAt: number | undefined;

  constructor(index: KeyIndexLoader) {
    this.#index = index;
  }

  async commit(batch: Batch, head: Head): Promise<Outcome> {
    if (!(await this.#isFor(batch, head.dataset))) return 'does not apply';
    const index = await this.#index.at(head, batch.first);
    if (index === undefined) return 'does not apply';
    if (batch.numRows > mostRowsWithoutPause) await setImmediate();
    const found = index.find(batch.keys);
    const { whenMatchedUpdateAll: updates, whenNotMatchedInsertAll: inserts } = batch.first.spec;
    if (!inserts && found.surplus.size > 0) return 'does not apply';
    const parts = rowsToWrite(batch, found);
    if (parts.every(isEmpty)) return unchanged(batch, head);
    const old = updates === false ? [] : addressesOf(found);
    const replaced = await head.dataset.replaceRows(index.tracked, old, batch.prepare(head.dataset, parts));
    if (replaced === 'refused') return this.#refuse(batch.first, await head.dataset.schema(), index);
    if (replaced === 'overtaken') return this.#overtaken(index);
    this.#index.used();
    return this.#committed(batch, found, replaced.version, () => this.#index.learn(index, replaced, batch, parts));
  }

  /** A batch that this strategy would be for took the engine so long: whether to read the key index is weighed. */
  async didWithout(batch: Batch, head: Head, engineMs: number): Promise<void> {
    if (await this.#isFor(batch, head.dataset)) await this.#index.didWithout(head, batch, engineMs);
  }

  #committed(batch: Batch, found: FoundRows, version: number, learn: () => void): Committed {
    return {
      version,
      count: async () => {
        learn();
        if (batch.numRows > mostRowsWithoutPause) await setImmediate();
        const commit = { version, numAttempts: 1, leavesOneRow: isUpsert(batch) };
        return { by: 'key_index', each: countsOfEach(batch, (key) => found.numRows(key), commit) };
      },
      isByAddress: true,
      gainsByIndex: false,
      mostFragments: found.rows.size,
      surplusRows: isUpsert(batch) ? found.surplus.values().reduce((sum, rows) => sum + rows.length, 0) : 0,
    };
  }

  /** Nothing is tried with columns that the table has otherwise. */
  async #isFor(batch: Batch, dataset: Dataset): Promise<boolean> {
    if (!batch.isByKeys) return false;
    return (
      this.#refused.size === 0 || this.#refused.get(schemaFingerprint(batch.first.chunk)) !== (await dataset.schema())
    );
  }

  /** It may be the table that is not fit. */
  #refuse({ chunk }: MergeRequest, schema: Schema, index: KeyIndex): 'does not apply' {
    if (this.#refused.size >= mostRefused) this.#refused.clear();
    this.#refused.set(schemaFingerprint(chunk), schema);
    if (!index.isUsed) this.#index.forget();
    return 'does not apply';
  }

  /** Twice at one version is no other commit, but another table in the same folder. */
  #overtaken({ tracked: { version } }: KeyIndex): 'overtaken' {
    if (this.#overtakenAt === version) this.#index.giveUp('changed');
    this.#overtakenAt = version;
    return 'overtaken';
  }
}

const isEmpty = ({ chunk, keep }: RowsOf): boolean => chunk.rows === 0 || keep?.includes(1) === false;

const isUpsert = ({ first: { spec } }: Batch): boolean =>
  spec.whenMatchedUpdateAll !== false && spec.whenNotMatchedInsertAll;

/** An upsert writes all rows; a merge that only inserts those of keys that were not found, one that only updates the others. */
function rowsToWrite(batch: Batch, { rows }: FoundRows): readonly RowsOf[] {
  if (isUpsert(batch)) return batch.parts;
  const { whenMatchedUpdateAll: updates, whenNotMatchedInsertAll: inserts } = batch.first.spec;
  return batch.select((key) => (rows.has(key) ? updates !== false : inserts));
}

function* addressesOf({ rows, surplus }: FoundRows): Iterable<RowAddress> {
  yield* rows.values();
  for (const others of surplus.values()) yield* others;
}
