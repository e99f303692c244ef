/**
 * How merges get into a branch: by the first strategy that applies, by row address or in a shadow. `write/commit.ts` has what
 * comes before and after.
 */
import type { Datasets } from '../engine/port/engine.ts';
import { isMade } from '../engine/port/refusal.ts';
import { addressOf } from '../engine/port/row-address.ts';
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
} from '../write/write.ts';
import { Batch, type MergeRequest } from './batch.ts';
import { completeBatch } from './completed-batch.ts';
import { KeyIndexLoader, type KeyIndexLoaderDeps } from './key-index/key-index-loader.ts';
import { ByRowAddress } from './strategy/by-row-address.ts';
import { InShadow } from './strategy/in-shadow.ts';

export class MergeKind implements WriteKind<MergeRequest> {
  readonly canFollow = true;
  readonly #hasher: KeyHasher;
  readonly #keyIndex: KeyIndexLoader;
  readonly #byRowAddress: ByRowAddress;
  readonly #inShadow: InShadow;

  constructor(deps: KeyIndexLoaderDeps & { readonly engine: Datasets }) {
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
        if (sent.isComplete) return this.#merge(sent, head);
        if (head.turn?.follows !== undefined) return 'overtaken'; // what it follows cannot be read yet
        batch.discard();
        batch = await this.#complete(sent, head);
        return this.#merge(batch, head);
      },
      discard: () => batch.discard(),
    };
  }

  /** It reads the head, or a later version: then the commit is overtaken. */
  async #complete(sent: Batch, head: Head): Promise<Batch> {
    const found = sent.isByKeys ? (await this.#keyIndex.at(head, sent.first))?.find(sent.keys) : undefined;
    const addresses = found && [...found.rows.values()].map(addressOf);
    const limits = { timeoutMs: longestTime(sent.requests), principal: principalKey(sent.first.scope.principal) };
    return completeBatch(sent, (columns, where) =>
      addresses === undefined ? head.dataset.select(columns, where, limits) : head.dataset.take(addresses, columns),
    );
  }

  async #merge(batch: Batch, head: Head): Promise<Committed | 'overtaken'> {
    if (batch.changesNothing) return unchanged(batch.requests, head);
    const startMs = performance.now();
    const direct = await this.#byRowAddress.merge(batch, head);
    if (isMade(direct)) return direct;
    if (head.turn?.follows !== undefined) return 'overtaken'; // a shadow is of a version that is there
    const outcome = direct === 'overtaken' ? direct : await this.#inShadow.merge(batch, head);
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
