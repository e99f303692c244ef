/**
 * How merges get into a branch: by the first strategy that applies, by row address or in a shadow. `write/commit.ts` has what
 * comes before and after.
 */
import type { Datasets } from '../engine/port/engine.ts';
import { isMade } from '../engine/port/refusal.ts';
import { addressOf, placeOf } from '../engine/port/row-address.ts';
import type { Clock } from '../kernel/clock.ts';
import { principalKey } from '../kernel/request-scope.ts';
import type { Some } from '../kernel/some.ts';
import type { KeyHasher } from '../keys/key-hasher.ts';
import {
  type Committed,
  type Counted,
  type Head,
  longestTime,
  unchanged,
  type WriteBatch,
  type WriteKind,
  type WriteTotals,
} from '../write/write.ts';
import { Batch, type MergeOfRows, type MergeRequest } from './batch.ts';
import { BranchTombstones } from './branch-tombstones.ts';
import { completeBatch } from './completed-batch.ts';
import type { FoundRows, KeyIndex } from './key-index/key-index.ts';
import { KeyIndexLoader, type KeyIndexLoaderDeps } from './key-index/key-index-loader.ts';
import { addressesByKey, type ReadColumns, soughtKeys } from './key-index/key-lookup.ts';
import { newestRows, readVersions } from './newest-rows.ts';
import { ByRowAddress } from './strategy/by-row-address.ts';
import { InShadow } from './strategy/in-shadow.ts';
import type { RowsToDelete } from './strategy/strategy.ts';
import { deletedBy, type Tombstones } from './tombstones.ts';

interface MarkedDeletion extends RowsToDelete {
  readonly tombstones: Tombstones | undefined;
  readonly numStaleRows: number;
}

export class MergeKind implements WriteKind<MergeRequest> {
  readonly canFollow = true;
  readonly #hasher: KeyHasher;
  readonly #keyIndex: KeyIndexLoader;
  readonly #byRowAddress: ByRowAddress;
  readonly #inShadow: InShadow;
  readonly #clock: Clock;
  readonly #tombstones: BranchTombstones;

  constructor(deps: KeyIndexLoaderDeps & { readonly engine: Datasets; readonly clock: Clock }) {
    this.#clock = deps.clock;
    this.#tombstones = new BranchTombstones(deps.clock);
    this.#hasher = deps.keyHasher;
    this.#keyIndex = new KeyIndexLoader(deps);
    this.#byRowAddress = new ByRowAddress(this.#keyIndex);
    this.#inShadow = new InShadow(this.#keyIndex, deps.engine);
  }

  forget(): void {
    this.#keyIndex.forget();
  }

  batch(requests: Some<MergeRequest>, isShared: boolean): WriteBatch {
    const sent = new Batch(requests, isShared, this.#hasher);
    let batch = sent;
    return {
      numRows: sent.numRows,
      on: sent.first.on,
      commit: async (head) => {
        if (!sent.needsStored) return this.#telling(requests, undefined, head, (to) => this.#merge(sent, to));
        if (head.turn?.follows !== undefined) return 'overtaken'; // what it follows cannot be read yet
        batch.discard();
        const tombstones = await this.#tombstones.at(head, sent.first);
        const { batch: newest, numStaleRows, found } = await this.#newest(sent, head, tombstones);
        batch = await this.#completed(newest, head);
        const { marked } = sent.first;
        const deletion = marked && (await this.#deletion(marked, head, tombstones));
        const stale = numStaleRows?.map((rows) => rows + (deletion?.numStaleRows ?? 0));
        const made = await this.#telling(requests, stale, head, (to) => this.#merge(batch, to, found, deletion));
        if (made !== 'overtaken') this.#tombstones.made(head, made.version, deletion?.tombstones);
        return made;
      },
      discard: () => batch.discard(),
    };
  }

  /** Versions that the key index does not know are read. */
  async #newest(sent: Batch, head: Head, tombstones: Tombstones | undefined) {
    const { versionColumn } = sent.first;
    if (versionColumn === undefined || sent.numRows === 0)
      return { batch: sent, numStaleRows: sent.requests.map(() => 0), found: undefined };
    const index = await this.#indexFor(sent, head);
    const found = index?.find(sent.keys, versionColumn);
    const versions = new Map(found?.versions);
    if (found === undefined || versions.size < found.rows.size) {
      const read = await readVersions(sent, versionColumn, this.#rowsOf(sent, head, found));
      if (found !== undefined) index?.learnVersions(sent.keys, found, read);
      for (const [key, version] of read) versions.set(key, version);
    }
    const deleted = deletedBy(tombstones, this.#clock.nowMs());
    return { ...(await newestRows(sent, versionColumn, versions, deleted)), found };
  }

  /** What marked rows do: none of them is older than what has its key. A row without a key deletes nothing. */
  async #deletion(marked: MergeOfRows, head: Head, tombstones: Tombstones | undefined): Promise<MarkedDeletion> {
    const sent = new Batch([marked], true, this.#hasher);
    const { batch, numStaleRows } = await this.#newest(sent, head, tombstones);
    const found = (await this.#indexFor(batch, head))?.find(batch.keys);
    const rows =
      found === undefined
        ? [...(await addressesByKey(head.dataset, soughtKeys(batch))).values()].flat().map(placeOf)
        : [...found.rows.values(), ...[...found.surplus.values()].flat()];
    const kept = tombstones && this.#tombstones.with(tombstones, batch.first);
    return { rows, tombstones: kept, settings: kept?.settings, numStaleRows: numStaleRows[0] ?? 0 };
  }

  async #completed(batch: Batch, head: Head): Promise<Batch> {
    if (batch.isComplete) return batch;
    const index = await this.#indexFor(batch, head);
    return completeBatch(batch, this.#rowsOf(batch, head, index?.find(batch.keys)));
  }

  async #indexFor({ isByKeys, first }: Batch, head: Head): Promise<KeyIndex | undefined> {
    return isByKeys ? this.#keyIndex.at(head, first) : undefined;
  }

  /** It reads the head, or a later version: then the commit is overtaken. Of rows that were found, those whose versions are not known. */
  #rowsOf(batch: Batch, head: Head, found: FoundRows | undefined): ReadColumns {
    const { first, requests } = batch;
    if (found !== undefined) {
      const rows = [...found.rows].flatMap(([key, row]) => (found.versions.has(key) ? [] : [row]));
      const addresses = [...rows, ...[...found.surplus.values()].flat()].map(addressOf);
      return (columns) => head.dataset.take(addresses, columns);
    }
    const { where } = soughtKeys(batch);
    const limits = { timeoutMs: longestTime(requests), principal: principalKey(first.scope.principal) };
    return (columns) => head.dataset.select(columns, where, limits);
  }

  /** Merges, and says of each request what its answer has besides the counts of the merge. */
  async #telling(
    requests: Some<MergeRequest>,
    numStaleRows: readonly number[] | undefined,
    head: Head,
    merge: (head: Head) => Promise<Committed | 'overtaken'>,
  ): Promise<Committed | 'overtaken'> {
    const all = (each: readonly WriteTotals[]): readonly WriteTotals[] =>
      each.map((totals, i) => ({
        ...totals,
        ...requests[i]?.told,
        ...(requests[i]?.versionColumn !== undefined && { numStaleRows: numStaleRows?.[i] ?? 0 }),
      }));
    const { note } = head;
    const made = await merge(note === undefined ? head : { ...head, note: (each) => note(all(each)) });
    if (made === 'overtaken') return made;
    return {
      ...made,
      count: async () => {
        const { each, by } = await made.count();
        return { each: all(each), by };
      },
    };
  }

  async #merge(
    batch: Batch,
    head: Head,
    found?: FoundRows,
    deletion?: MarkedDeletion,
  ): Promise<Committed | 'overtaken'> {
    if (batch.changesNothing && deletion === undefined) return unchanged(batch.requests, head);
    const startMs = performance.now();
    const direct = await this.#byRowAddress.merge(batch, head, { known: found, deletion });
    if (isMade(direct)) return direct;
    if (head.turn?.follows !== undefined) return 'overtaken'; // a shadow is of a version that is there
    const outcome = direct === 'overtaken' ? direct : await this.#inShadow.merge(batch, head, deletion);
    const engineMs = performance.now() - startMs;
    const didWithout = () => this.#byRowAddress.didWithout(batch, head, engineMs);
    if (outcome !== 'overtaken') return { ...outcome, count: () => countWhile(didWithout, outcome) };
    // Without the key index the next attempt would take as long, and be overtaken too.
    await didWithout();
    return 'overtaken';
  }
}

/** Ends when both have ended, so that nothing is left of a commit when the lock is released. */
async function countWhile(weigh: () => Promise<void>, { count }: Committed): Promise<Counted> {
  const [counted] = await Promise.allSettled([count(), weigh()]);
  if (counted.status === 'rejected') throw counted.reason;
  return counted.value;
}
