/**
 * What somebody outside the service (Spark, pylance) commits between a writer's look at a branch and the writer's own
 * commit. The engine puts ours after theirs without having seen their rows: whatever both inserted is there twice. Here that
 * is noticed, and put right before anybody is told of the commit (P2, P4): the rows end as if ours had found theirs.
 *
 * - Every column updated: their row goes, in one commit. Nothing updated: ours goes, in one commit.
 * - Some columns updated, or under a filter: ours goes, then theirs is updated. A crash between the two leaves theirs, of a
 *   merge that nobody was told of.
 *
 * Other rows that they wrote stay as they are, as if they had come after ours. ADR 9 has the reasons.
 */

import type { Dataset, Engine, RowChange } from '../../engine/port/engine.ts';
import type { MergeSpec } from '../../engine/port/merge-spec.ts';
import type { RowAddressSql } from '../../engine/port/row-address.ts';
import { type CheckedSql, ownSql } from '../../kernel/checked-sql.ts';
import { LancegateError } from '../../kernel/errors.ts';
import { showTable } from '../../kernel/ids.ts';
import { principalKey } from '../../kernel/principal.ts';
import type { CanonicalKey } from '../../keys/key-columns.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import type { Batch } from '../batch.ts';
import type { EngineCommit, Merged } from '../engine-commit.ts';
import type { Head } from '../head.ts';
import { addressesByKey, inList, type SoughtKeys, soughtKeys } from '../key-index/key-lookup.ts';
import { isNested, keyColumnsOf, type MergeRequest } from '../merge-request.ts';
import { mergeNested } from '../strategy/nested.ts';
import { planRepair, type Repair, type Updates } from './repair-plan.ts';

export interface Settled {
  readonly wasAlone: boolean;
  /** The newest version now. */
  readonly version: number;
  /** Has the rows that were there before the merge, save those of `found`. */
  readonly versionBefore: number;
  /** Keys that count as inserted in what the engine said, and were there. */
  readonly found: ReadonlySet<CanonicalKey>;
  /** How many rows of those were updated. */
  readonly numFoundUpdated: number;
}

/** Somebody who changes the same rows over and over cannot keep a writer for ever. */
const mostDeletes = 5;

export class ExternalCommits {
  readonly #engine: Engine;
  readonly #logger: Logger;
  readonly #metrics: Metrics;

  constructor(parts: { engine: Engine; logger: Logger; metrics: Metrics }) {
    this.#engine = parts.engine;
    this.#metrics = parts.metrics;
    this.#logger = parts.logger;
  }

  /** To be called under the turn, after every merge. `Internal` where keys may be left twice. */
  async settle(target: Head, sent: Batch, { counts, commit }: Merged): Promise<Settled> {
    const change = await rowChangeBeside(target.dataset, commit);
    if (change === 'none') return undisturbed(counts.version, commit.matched);
    const [{ table, branch }] = sent.requests;
    const log = this.#logger.child({ table: showTable(table.ref), branch: branch ?? 'main', ...commit });
    if (change === 'some') log.warn({}, 'somebody outside the service committed beside a merge');
    try {
      const repair = await this.#plan(target, sent, commit);
      const numFoundUpdated = await this.#repair(target.dataset, sent, repair);
      const version = await target.dataset.version();
      const isRepaired = repair.keys.size > 0;
      if (isRepaired) log.warn({ keys: repair.keys.size, newVersion: version }, 'put right what both had written');
      if (isRepaired || change === 'some') this.#metrics.outsideCommit(isRepaired ? 'repaired' : 'harmless');
      const versionBefore = commit.numAttempts === 1 ? commit.matched : commit.version - 1;
      return { wasAlone: false, version, versionBefore, found: repair.found, numFoundUpdated };
    } catch (error) {
      this.#metrics.outsideCommit('failed');
      throw notRepaired(error);
    }
  }

  async #plan({ dataset, location }: Head, sent: Batch, commit: EngineCommit): Promise<Repair> {
    const { requests } = sent;
    const [{ branch }] = requests;
    const placesAt = async (version: number, sought: SoughtKeys) => {
      const past = await this.#engine.open({ location, branch, version });
      try {
        return await addressesByKey(past, sought);
      } finally {
        past.close();
      }
    };
    const places = await placesAt(commit.version, soughtKeys(requests));
    const after = new Map([...places].filter(([, rows]) => rows.length > 1));
    if (after.size === 0) return nothingToRepair;
    const twice = soughtKeys(requests, new Set(after.keys()));
    const beside = await placesAt(commit.version - 1, twice);
    const matched = await placesAt(commit.matched, twice);
    return planRepair({ after, beside, matched }, await updatesOf(dataset, sent));
  }

  /** Says how many rows were updated that the merge had not found. */
  async #repair(dataset: Dataset, sent: Batch, repair: Repair): Promise<number> {
    if (repair.doomed.length === 0) return 0;
    await deleteRows(dataset, repair, sent);
    if (repair.missed.length > 0) return this.#updateMissed(dataset, sent, repair);
    return sent.requests[0].spec.whenMatchedUpdateAll === false ? 0 : repair.found.size;
  }

  /** Inserts nothing: a row that is gone since was taken out after the merge. */
  async #updateMissed(dataset: Dataset, batch: Batch, { missed, found }: Repair): Promise<number> {
    const { requests, first: request } = batch;
    const chunk = batch.chunk();
    if (isNested(request)) {
      const spec = onlyUpdating(request, soughtKeys(requests, found, 'target.').where ?? ownSql('true'));
      const principal = principalKey(request.scope.principal);
      const merge = { batch, spec, chunk, remainingMs: () => undefined, principal };
      return (await mergeNested(this.#engine, dataset, merge)).counts.numUpdatedRows;
    }
    const spec = { ...onlyUpdating(request, inList('target._rowaddr', missed)), on: keyColumnsOf(request) };
    return (await dataset.merge(spec, chunk.file, undefined)).numUpdatedRows;
  }
}

const nothingToRepair: Repair = { keys: new Set(), doomed: [], missed: [], found: new Set() };

export const undisturbed = (version: number, versionBefore: number): Settled => ({
  wasAlone: true,
  version,
  versionBefore,
  found: new Set(),
  numFoundUpdated: 0,
});

/** Of the commits between what a merge was matched against and its own. */
async function rowChangeBeside(dataset: Dataset, { matched, version, ownVersions }: EngineCommit): Promise<RowChange> {
  let change: RowChange = 'none';
  let after = matched;
  for (const next of [...ownVersions, version]) {
    const step = next === after + 1 ? 'none' : await dataset.rowChange(after, next - 1);
    if (step === 'some') return 'some';
    if (step === 'unknown') change = 'unknown';
    after = next;
  }
  return change;
}

async function updatesOf(dataset: Dataset, batch: Batch): Promise<Updates> {
  const { whenMatchedUpdateAll } = batch.first.spec;
  if (whenMatchedUpdateAll === false) return 'nothing';
  if (whenMatchedUpdateAll !== true) return 'under a filter';
  const columns = (await dataset.schema()).fields.length;
  return batch.chunk().schema.fields.length === columns ? 'every column' : 'some columns';
}

/**
 * Where somebody has changed the rows meanwhile, they have other addresses: two that were changed at once are alike now, so
 * the last of each key stays.
 */
async function deleteRows(dataset: Dataset, { keys, ...repair }: Repair, { requests }: Batch): Promise<void> {
  let { doomed } = repair;
  for (let attempt = 0; attempt < mostDeletes; attempt++) {
    const { numDeletedRows } = await dataset.deleteRows(doomed);
    if (numDeletedRows === doomed.length) return;
    const places = await addressesByKey(dataset, soughtKeys(requests, keys));
    doomed = [...places.values()].flatMap((rows) => rows.toSorted(byAge).slice(0, -1));
    if (doomed.length === 0) return;
  }
  throw new Error('the rows of keys that are there twice were changed again and again');
}

const byAge = (a: RowAddressSql, b: RowAddressSql): number => Number(BigInt(a) - BigInt(b));

function onlyUpdating({ spec }: MergeRequest, where: CheckedSql): Omit<MergeSpec, 'on'> {
  const { whenMatchedUpdateAll: updates } = spec;
  const isOurs = typeof updates === 'boolean';
  // The addresses come first, so that a client's filter runs on few rows.
  const filter = isOurs ? where : ownSql(`${where} AND (${updates.filter})`);
  return {
    whenMatchedUpdateAll: { filter, isOurs },
    whenNotMatchedInsertAll: false,
    whenNotMatchedBySourceDelete: false,
    useIndex: false,
  };
}

const notRepaired = (cause: unknown): LancegateError =>
  new LancegateError(
    'Internal',
    'the rows were merged, but somebody outside the service wrote at the same time, and keys may be there twice',
    { cause },
  );
