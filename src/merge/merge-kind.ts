/**
 * How merges get into a branch: by the first strategy that applies, by row address or in a shadow. `write/commit.ts` has what
 * comes before and after.
 */
import type { Datasets } from '../engine/port/engine.ts';
import type { KeyHasher } from '../keys/key-hasher.ts';
import { type Committed, type Counted, type Head, unchanged, type WriteBatch, type WriteKind } from '../write/write.ts';
import { Batch, type MergeRequest } from './batch.ts';
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

  batch(requests: readonly MergeRequest[], isShared: boolean): WriteBatch {
    const batch = new Batch(requests, isShared, this.#hasher);
    return {
      numRows: batch.numRows,
      on: batch.first.on,
      commit: (head) => this.#commit(batch, head),
      discard: () => batch.discard(),
    };
  }

  async #commit(batch: Batch, head: Head): Promise<Committed | 'overtaken'> {
    if (batch.changesNothing) return unchanged(batch.requests, head);
    const startMs = performance.now();
    const direct = await this.#byRowAddress.commit(batch, head);
    if (typeof direct === 'object') return direct;
    if (head.turn?.follows !== undefined) return 'overtaken'; // a shadow is of a version that is there
    const outcome = direct === 'overtaken' ? direct : await this.#inShadow.commit(batch, head);
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
